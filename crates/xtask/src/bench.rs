//! `cargo xtask bench`: measures beside baselines, and keeps the figures in `docs/performance.md`.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{cargo, checks, needs, root};

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What to measure [default: everything]. A wrong name lists them all.
    scenarios: Vec<String>,
    /// How long one figure is measured.
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    seconds: f64,
    /// Print the figures and leave docs/performance.md as it is.
    #[arg(long)]
    dry: bool,
}

/// The programs that are measured, and the one that measures.
const PACKAGES: [&str; 4] = ["skald-relay", "skald", "skald-phone", "skald-bench"];

/// Builds the release programs and lets `skald-bench` run them.
pub fn run(options: &Options) -> Result<ExitCode> {
    needs::to_build()?;
    println!("building (a few minutes the first time)");
    let mut build = Command::new(cargo());
    build.args(["build", "--locked", "--release", "--bins"]);
    build.args(PACKAGES.map(|name| ["--package", name]).concat()).current_dir(root());
    if !build.status().context("cargo cannot be run")?.success() {
        bail!("The build failed; the compiler's words stand above.");
    }
    let binaries = checks::target_folder(root())?.join("release");
    let mut bench = Command::new(binaries.join("skald-bench"));
    bench.args(&options.scenarios).arg("--seconds").arg(options.seconds.to_string());
    if !options.dry {
        bench.arg("--write").arg(root());
    }
    let status = bench.env("SKALD_BIN_DIR", &binaries).status().context("skald-bench cannot be run")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
