//! The connector between a real host and a real relay on loopback, with a device at the other end.

mod canary;
mod existing;
mod home;
mod lies;
mod pairing;
mod questions;
mod starting;
mod streams;
