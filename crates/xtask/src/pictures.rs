//! `cargo xtask pictures`: the README's pictures, made from the running program.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::output::{Counts, run as shell};
use crate::{cargo, needs, root};

/// Runs the program of the end-to-end tests that starts a relay, a host and a phone and photographs the pages.
pub fn run() -> Result<ExitCode> {
    needs::to_test()?;
    let mut command = Command::new(cargo());
    command.args(["run", "--locked", "--quiet", "--package", "skald-tests", "--bin", "pictures", "--"]);
    shell(command.arg(root().join("docs/images")), &mut Counts::default())?;
    Ok(ExitCode::SUCCESS)
}
