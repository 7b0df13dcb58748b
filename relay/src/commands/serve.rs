//! `skald-relay serve`, and `skald-relay` alone: runs the relay until it is told to stop.

use std::process::ExitCode;

use anyhow::Context as _;
use skald_relay::{Relay, Settings};

use super::signals::Signals;
use super::{Failure, runtime, start_log};

/// Runs the relay.
pub fn run(settings: Settings) -> Result<ExitCode, Failure> {
    start_log(&settings.log, settings.log_format)?;
    runtime()?.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().context("cannot listen for signals").map_err(Failure::machine)?;
    let relay = Relay::start(settings).await.map_err(|error| {
        if error.is_configuration() { Failure::configuration(error) } else { Failure::machine(error) }
    })?;
    println!("skald-relay is ready at {}", relay.url());
    signals.stop().await;
    tracing::info!("shutting down");
    relay.shutdown().await;
    Ok(ExitCode::SUCCESS)
}
