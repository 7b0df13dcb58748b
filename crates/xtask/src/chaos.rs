//! `cargo xtask chaos`: breaks everything under load, and proves that no message was lost or seen twice.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{cargo, checks, needs, root};

/// What to break, and for how long.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What the schedule, the faults and the payloads are drawn from.
    #[arg(long)]
    seed: Option<u64>,
    /// So many stored messages must be accepted and arrive.
    #[arg(long, default_value_t = 100_000)]
    messages: u64,
    /// The relay to break [default: the one built here].
    #[arg(long, value_name = "PATH")]
    relay: Option<PathBuf>,
    /// Keep databases, journals and logs in this folder.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Builds the release programs and runs the long version.
pub fn run(options: &Options) -> Result<ExitCode> {
    needs::to_build()?;
    println!("building (a few minutes the first time)");
    let mut build = Command::new(cargo());
    build.args(["build", "--locked", "--release", "--bins", "--package", "skald-chaos"]);
    if options.relay.is_none() {
        build.args(["--package", "skald-relay"]);
    }
    if !build.current_dir(root()).status().context("cargo cannot be run")?.success() {
        bail!("The build failed; the compiler's words stand above.");
    }
    let binaries = checks::target_folder(root())?.join("release");
    let mut chaos = Command::new(binaries.join("skald-chaos"));
    chaos.args(["run", "--messages", &options.messages.to_string(), "--relay"]);
    chaos.arg(options.relay.clone().unwrap_or_else(|| binaries.join("skald-relay")));
    if let Some(seed) = options.seed {
        chaos.args(["--seed", &seed.to_string()]);
    }
    if let Some(keep) = &options.keep {
        chaos.arg("--keep").arg(keep);
    }
    let status = chaos.status().context("the chaos run cannot be started")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
