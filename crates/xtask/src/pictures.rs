//! `cargo xtask pictures`: the README's pictures, made from the running program.

use std::process::ExitCode;

use anyhow::Result;

/// Starts a relay, a host and a phone, and photographs the pages.
pub fn run() -> Result<ExitCode> {
    anyhow::bail!("not yet")
}
