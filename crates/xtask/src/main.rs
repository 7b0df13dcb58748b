//! The project's chores: `cargo xtask up`, `test`, `bench`, `chaos` and `pictures`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod chaos;
mod checks;
mod needs;
mod output;
mod pictures;
mod test;
mod up;

/// Skald's chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Build everything, start a relay and a host on this machine over TLS, and say how to sign in.
    Up(up::Options),
    /// Run every check and every test, or the steps named with --only.
    Test(test::Options),
    /// Measure pipes and pages beside their baselines, and write the figures into docs/performance.md.
    Bench(bench::Options),
    /// Break relay, peers and connections under load, and prove that every accepted message arrives once and in order.
    Chaos(chaos::Options),
    /// Make the README's pictures from the running program.
    Pictures,
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Up(options) => up::run(&options),
        Chore::Test(options) => test::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::Chaos(options) => chaos::run(&options),
        Chore::Pictures => pictures::run(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// The repository's top folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or_else(|| Path::new("."))
}

/// The cargo that runs this chore.
fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}
