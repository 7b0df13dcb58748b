//! A device in the terminal.

fn main() {}
