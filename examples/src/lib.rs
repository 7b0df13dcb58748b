//! Small programs against the public crates.
