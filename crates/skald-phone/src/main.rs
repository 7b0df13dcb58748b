//! A device in the terminal.
#![allow(dead_code)]
mod cli;
mod desk;
mod draft;
mod failure;
mod form;
mod home;
mod mask;
mod picture;
mod render;
mod secret;
mod shelf;
mod snapshot;
mod splice;
mod text;
mod vault;
mod wire;

fn main() {}
