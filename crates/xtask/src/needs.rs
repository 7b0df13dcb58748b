//! What a machine must have before anything can be built, and how it gets it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A program that the build calls, and Debian's packages that bring it.
struct Need {
    programs: &'static [&'static str],
    packages: &'static [&'static str],
    why: &'static str,
}

const TO_BUILD: &[Need] = &[
    Need {
        programs: &["cc"],
        packages: &["build-essential"],
        why: "the C parts of SQLite and of the cipher library",
    },
    Need { programs: &["node", "npm"], packages: &["nodejs", "npm"], why: "the web page" },
];

const TO_TEST: &[Need] = &[Need {
    programs: &["chromium"],
    packages: &["chromium", "fonts-dejavu-core"],
    why: "the browser tests",
}];

/// The first release of Node that builds the web page.
const NODE: u32 = 20;

/// Sees to what a build needs.
pub fn to_build() -> Result<()> {
    meet(TO_BUILD)?;
    let said = Command::new("node").arg("--version").output().context("node cannot be run")?;
    let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let major = said.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE) {
        bail!(
            "Node {NODE} or newer builds the web page; this machine has {said}. Install Node {NODE} and try again."
        );
    }
    Ok(())
}

/// Sees to what the tests need beyond a build.
pub fn to_test() -> Result<()> {
    to_build()?;
    meet(TO_TEST)
}

/// `cargo deny` in the one version whose settings deny.toml is written for.
pub fn cargo_deny() -> Result<()> {
    let there = Command::new(super::cargo()).args(["deny", "--version"]).output();
    let there = there.is_ok_and(|said| said.status.success());
    if there {
        return Ok(());
    }
    println!("installing cargo-deny");
    run(Command::new(super::cargo()).args(["install", "cargo-deny", "--locked", "--version", "0.20.2"]))
}

fn meet(needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> =
        needs.iter().filter(|need| need.programs.iter().any(|program| !on_path(program))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    let reasons: Vec<&str> = missing.iter().map(|need| need.why).collect();
    let command = format!("apt-get install --yes {}", packages.join(" "));
    if !on_path("apt-get") {
        bail!("{} missing, for {}. Install and try again.", packages.join(", "), reasons.join(", "));
    }
    if !is_root()? {
        bail!("Missing, for {}: run `sudo {command}` and try again.", reasons.join(", "));
    }
    println!("installing {} for {}", packages.join(", "), reasons.join(", "));
    run(apt().arg("update"))?;
    run(apt().args(["install", "--yes", "--no-install-recommends"]).args(&packages))
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("{shown} cannot be run"))?;
    if !status.success() {
        bail!("{shown} failed ({status}).");
    }
    Ok(())
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| is_file(&folder.join(program))))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.is_file())
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output().context("id cannot be run")?;
    Ok(id.stdout.trim_ascii() == b"0")
}
