//! The repository's rules, checked as tests are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub mod layers;
pub mod links;
pub mod tidy;

/// What `cargo metadata` says of the workspace.
fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(super::cargo())
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo metadata cannot be run")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")
}

/// Where cargo puts what it builds.
pub fn target_folder(root: &Path) -> Result<PathBuf> {
    metadata(root)?["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .context("cargo metadata names no target folder")
}

/// Says all that was found, or nothing.
fn verdict(found: Vec<String>) -> Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    bail!("{}", found.join("\n"))
}
