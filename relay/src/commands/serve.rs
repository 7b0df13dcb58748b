//! `skald-relay serve`, and `skald-relay` alone: runs the relay until it is told to stop.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use skald_relay::{Relay, Settings};

use super::signals::{Signals, Told};
use super::{Failure, notify, runtime, start_log};

/// The relay ends by itself well before this. It is for what nobody thought of: whoever waits is promised 10 seconds.
const END_WITHIN: Duration = Duration::from_millis(9_500);

/// Runs the relay.
pub fn run(settings: Settings) -> Result<ExitCode, Failure> {
    start_log(&settings.log, settings.log_format)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(serve(settings));
    // A thread that hangs on a broken disk must not keep the program.
    runtime.shutdown_timeout(Duration::from_millis(200));
    ended
}

async fn serve(settings: Settings) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().context("cannot listen for signals").map_err(Failure::machine)?;
    let relay = Relay::start(settings).await.map_err(|error| {
        if error.is_configuration() { Failure::configuration(error) } else { Failure::machine(error) }
    })?;
    println!("skald-relay is ready at {}", relay.url());
    notify::tell("READY=1");
    while let Told::Reload = signals.next().await {
        tracing::info!("told to read again what may have changed");
        relay.reload();
    }
    tracing::info!("shutting down");
    notify::tell("STOPPING=1");
    tokio::select! {
        ended = tokio::time::timeout(END_WITHIN, relay.shutdown()) => {
            if ended.is_err() {
                tracing::error!("the relay does not end by itself; what it has accepted is safe");
            }
        }
        () = signals.stop() => tracing::warn!("told twice: ending at once; what was accepted is safe"),
    }
    Ok(ExitCode::SUCCESS)
}
