//! `cargo xtask test`: every check and every test, one step after the other.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::output::{Counts, run as shell};
use crate::{cargo, checks, needs, root};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Run only this step; may be given several times. A wrong name lists them all.
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
}

/// A named part of the whole.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&mut Counts) -> Result<()>,
}

/// What fails fastest comes first. Every step runs, whatever failed before it, so that one run tells everything.
const STEPS: &[Step] = &[
    Step { name: "fmt", what: "formatting", run: fmt },
    Step { name: "tidy", what: "the tree's own rules", run: |_| checks::tidy::check(root()) },
    Step { name: "layers", what: "who may know whom", run: |_| checks::layers::check(root()) },
    Step { name: "deny", what: "licences, banned crates, sources", run: deny },
    Step { name: "web", what: "the web packages", run: web },
    Step { name: "clippy", what: "lints", run: clippy },
    Step { name: "rust", what: "Rust tests, end to end included", run: rust },
    Step { name: "browser", what: "the page in a browser", run: browser },
    Step { name: "docs", what: "the documentation of the code", run: docs },
];

/// Runs the steps and ends with the sum of everything that ran.
pub fn run(options: &Options) -> Result<ExitCode> {
    for name in &options.only {
        if STEPS.iter().all(|step| step.name != name) {
            let names: Vec<_> = STEPS.iter().map(|step| format!("{} ({})", step.name, step.what)).collect();
            bail!("There is no step {name}. The steps are: {}.", names.join(", "));
        }
    }
    needs::to_test()?;
    let mut sum = Counts::default();
    let mut failures = Vec::new();
    for step in
        STEPS.iter().filter(|step| options.only.is_empty() || options.only.iter().any(|n| n == step.name))
    {
        println!("\n== {}: {}", step.name, step.what);
        let started = Instant::now();
        let mut counts = Counts::default();
        let outcome = (step.run)(&mut counts);
        if let Err(error) = outcome {
            println!("{error:#}");
            // A runner that stopped before it counted, or a check that has no runner, still counts as one failure.
            counts.failed = counts.failed.max(1);
            failures.push(format!("{} ({}): {error:#}", step.name, step.what));
        } else if counts == Counts::default() {
            counts.passed = 1;
        } else if counts.failed > 0 {
            failures.push(format!("{} ({}): {} tests failed", step.name, step.what, counts.failed));
        }
        sum.add(counts);
        println!("== {}: {} in {} s", step.name, verdict(counts), started.elapsed().as_secs());
    }
    println!();
    for failure in &failures {
        println!("FAILED {failure}");
    }
    println!("{}", verdict(sum));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verdict(counts: Counts) -> String {
    let Counts { passed, failed, skipped } = counts;
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    format!("{passed} passed, {failed} failed{skipped}")
}

fn fmt(counts: &mut Counts) -> Result<()> {
    shell(Command::new(cargo()).args(["fmt", "--all", "--check"]), counts).context("run `cargo fmt --all`")
}

fn clippy(counts: &mut Counts) -> Result<()> {
    let words = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    shell(Command::new(cargo()).args(words), counts)
}

fn deny(counts: &mut Counts) -> Result<()> {
    needs::cargo_deny()?;
    shell(Command::new(cargo()).args(["deny", "--locked", "check", "licenses", "bans", "sources"]), counts)
}

fn rust(counts: &mut Counts) -> Result<()> {
    // With all targets the features are those of the tests, so the binaries that the end-to-end tests start are built
    // once, and the tests need not build anything more.
    shell(Command::new(cargo()).args(["build", "--locked", "--workspace", "--all-targets"]), counts)?;
    let binaries = checks::target_folder(root())?.join("debug");
    let mut tests = Command::new(cargo());
    tests.args(["test", "--locked", "--workspace", "--no-fail-fast"]).env("SKALD_BIN_DIR", binaries);
    shell(&mut tests, counts)
}

fn docs(counts: &mut Counts) -> Result<()> {
    let mut doc = Command::new(cargo());
    doc.args(["doc", "--locked", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    shell(&mut doc, counts)
}

fn web(counts: &mut Counts) -> Result<()> {
    for words in [&["ci", "--no-audit", "--no-fund"][..], &["run", "check"], &["test"], &["run", "build"]] {
        npm(words, counts)?;
    }
    Ok(())
}

fn browser(counts: &mut Counts) -> Result<()> {
    npm(&["run", "test:browser"], counts)
}

fn npm(words: &[&str], counts: &mut Counts) -> Result<()> {
    shell(Command::new("npm").args(words).current_dir(root().join("web")), counts)
}
