//! Small programs against the public crates. Each brings a relay of its own on loopback, so it needs nothing else:
//!
//! ```sh
//! cargo run -p skald-examples --example message
//! cargo run -p skald-examples --example pipe
//! ```

#![deny(missing_docs)]
