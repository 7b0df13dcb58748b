//! The chaos run as a program: `cargo xtask chaos`.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use skald_chaos::{Options, PeerConfig, Ticker, Wish, run_peer, wish_of};
use tokio::sync::watch;

/// Breaks everything between two applications, by a seed, and proves that no message was lost or seen twice.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The whole run.
    Run {
        /// What everything is drawn from.
        #[arg(long)]
        seed: Option<u64>,
        /// So many stored messages must be accepted and arrive.
        #[arg(long, default_value_t = 100_000)]
        messages: u64,
        /// So many namespaces, each an agent with its devices.
        #[arg(long, default_value_t = 5)]
        namespaces: usize,
        /// So many devices in each.
        #[arg(long, default_value_t = 3)]
        devices: usize,
        /// The relay's binary.
        #[arg(long)]
        relay: PathBuf,
        /// Where everything is kept; a folder that goes away by default.
        #[arg(long)]
        keep: Option<PathBuf>,
    },
    /// One peer, as the run starts it.
    #[command(hide = true)]
    Peer {
        /// Its settings as JSON.
        config: String,
    },
}

fn main() -> ExitCode {
    let done = match Args::parse().what {
        What::Peer { config } => peer(&config),
        What::Run { seed, messages, namespaces, devices, relay, keep } => {
            let seed = seed.unwrap_or_else(|| skald_testkit::Rng::from_env(20_261).seed());
            run(seed, messages, namespaces, devices, relay, keep)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    seed: u64,
    messages: u64,
    namespaces: usize,
    devices: usize,
    relay: PathBuf,
    keep: Option<PathBuf>,
) -> Result<()> {
    let program = std::env::current_exe().context("the program does not know where it is")?;
    let options = Options { seed, messages, namespaces, devices, relay, program, keep, talk: true };
    println!("{}", skald_chaos::run(options)?);
    Ok(())
}

/// Lives until it is told to leave, or killed.
fn peer(config: &str) -> Result<()> {
    let config: PeerConfig = serde_json::from_str(config).context("a peer's settings cannot be read")?;
    let (wish, wished) = watch::channel(Wish::default());
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Some(wanted) = line.ok().as_deref().and_then(wish_of) else { break };
            wish.send_replace(wanted);
        }
        // Whoever conducted is gone.
        wish.send_modify(|wish| wish.leave = true);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Box::pin(run_peer(config, wished, Ticker::Printed)))
}
