//! The project's chores: up, test and their parts.

fn main() {}
