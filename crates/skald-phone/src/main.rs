//! A device in the terminal: pairs with a Skald host, shows what waits for an answer, answers it, and serves the
//! host's pages on this computer.
//!
//! One process at a time holds a home's lock and talks to the relay ([`holder`]); it serves a socket in the home, and
//! every command, that process's own included, speaks to it through [`session`]. What must not be lost is on disk
//! before it is sent ([`shelf`]), sealed with a key of the device ([`vault`]).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

mod cli;
mod commands;
mod desk;
mod draft;
mod engine;
mod erasure;
mod explain;
mod failure;
mod form;
mod holder;
mod home;
mod mask;
mod out;
mod pairing;
mod picture;
mod render;
mod secret;
mod session;
mod shelf;
mod snapshot;
mod splice;
mod streams;
mod text;
mod truth;
mod vault;
mod ways;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use crate::failure::{Failure, Outcome};

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(cli::Stop::Shown(help)) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
        Err(cli::Stop::Wrong(sentence)) => return ended(Err(Failure::usage(sentence))),
    };
    log();
    // The one TLS and crypto provider; a second installation by a library would be refused, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else {
        return ended(Err(Failure::refused("The system gives no threads to work with.")));
    };
    let done = runtime.block_on(commands::run(cli));
    // A read of the terminal may still block; the process does not wait for it.
    runtime.shutdown_timeout(Duration::from_millis(200));
    secret::restore_terminal();
    ended(done)
}

fn ended(done: Outcome<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.sentence.is_empty() {
                out::aside(&failure.sentence);
            }
            ExitCode::from(failure.code.exit())
        }
    }
}

/// Logs go to standard error and only when asked for. They hold codes and kinds, never content.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SKALD_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
