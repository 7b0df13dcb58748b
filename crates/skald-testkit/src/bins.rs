//! Where the real binaries are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

static BUILT: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// The binary `name` as built beside the running test, built now where `cargo test` did not build it (a test's own
/// package is all that cargo builds by itself). `SKALD_BIN_DIR` names a folder of finished binaries instead.
pub fn binary(name: &str) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("SKALD_BIN_DIR") {
        return existing(Path::new(&folder).join(name));
    }
    let folder = profile_folder()?;
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_default();
    if !built.contains(name) {
        // Cargo has let go of its lock by the time tests run, and answers in a moment where nothing is to be done.
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--package", name, "--bin", name]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().context("cargo cannot be run")?;
        if !status.success() {
            bail!("{name} does not build");
        }
        built.insert(name.to_owned());
    }
    existing(folder.join(name))
}

/// `target/debug` or its like: a test runs from its `deps` folder.
fn profile_folder() -> Result<PathBuf> {
    let test = std::env::current_exe().context("the test does not know where it is")?;
    let folder = test.parent().context("the test is in no folder")?;
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    Ok(folder.to_path_buf())
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    if path.is_file() {
        return Ok(path);
    }
    bail!("{} is not there: run `cargo build --workspace` first", path.display())
}
