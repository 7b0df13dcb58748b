//! Skald's host and its command line.

fn main() {}
