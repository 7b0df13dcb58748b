//! The device in the terminal, as a process.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{Finished, Program, binary};

/// `skald-phone` with one home folder. It is a folder and a way to run commands: no process lives between them.
#[derive(Debug, Clone)]
pub struct Phone {
    home: PathBuf,
    authority: PathBuf,
}

impl Phone {
    /// A device that keeps its keys in `home` and trusts the authority in the PEM file `authority`.
    pub fn new(home: impl Into<PathBuf>, authority: impl Into<PathBuf>) -> Self {
        Self { home: home.into(), authority: authority.into() }
    }

    /// Where its keys and counters are.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Result<Finished> {
        self.run_with(args, "")
    }

    /// The same with something on its standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Result<Finished> {
        Program::run(label(args), self.command(args)?, input)
    }

    /// Starts a command that waits: `pair`, `inbox --watch`, `proxy`.
    pub fn start(&self, args: &[&str]) -> Result<Program> {
        Program::start(label(args), self.command(args)?)
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(binary("skald-phone")?);
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("SKALD_")));
        command.arg("--home").arg(&self.home).arg("--ca").arg(&self.authority).args(args);
        Ok(command)
    }
}

fn label(args: &[&str]) -> String {
    format!("skald-phone {}", args.first().unwrap_or(&""))
}
