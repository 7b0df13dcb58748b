//! `skald-relay gateway`: wakes devices for relays that have no keys with Apple and Google.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use skald_relay::gateway::{GatewaySettings, RunningGateway};
use skald_relay_push::gateway::RelayKey;

use super::signals::{Signals, Told};
use super::{Failure, notify, runtime, start_log};

/// Wake devices for relays that have no keys with Apple and Google.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GatewayArgs {
    #[command(subcommand)]
    command: Option<GatewayCommand>,
    /// Where to listen, such as 0.0.0.0:443.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The TOML file with the gateway's settings.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Allow plain HTTP, on a loopback address alone.
    #[arg(long)]
    insecure: bool,
}

#[derive(clap::Subcommand)]
enum GatewayCommand {
    /// Make a key for a relay, and print it with the lines for the settings.
    Key {
        /// What the relay is called in logs and metrics.
        name: String,
    },
}

/// Runs the gateway, or makes a key.
pub fn run(args: GatewayArgs) -> Result<ExitCode, Failure> {
    if let Some(GatewayCommand::Key { name }) = args.command {
        return key(&name);
    }
    let path = args.config.context("the gateway needs --config").map_err(Failure::configuration)?;
    let mut settings = GatewaySettings::load(&path).map_err(Failure::configuration)?;
    settings.listen = args.listen.unwrap_or(settings.listen);
    settings.insecure |= args.insecure;
    settings.validate().map_err(Failure::configuration)?;
    start_log(&settings.log, settings.log_format)?;
    runtime()?.block_on(serve(settings))
}

async fn serve(settings: GatewaySettings) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().context("cannot listen for signals").map_err(Failure::machine)?;
    let gateway = RunningGateway::start(settings).await.map_err(|error| {
        if error.is_configuration() { Failure::configuration(error) } else { Failure::machine(error) }
    })?;
    println!("skald-relay gateway is ready at {}", gateway.url());
    notify::tell("READY=1");
    while let Told::Reload = signals.next().await {
        tracing::info!("told to read the certificate again");
        gateway.reload();
    }
    tracing::info!("shutting down");
    notify::tell("STOPPING=1");
    gateway.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// The key goes to standard output alone, once; what the gateway keeps is its hash.
fn key(name: &str) -> Result<ExitCode, Failure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 64 || name == "-" || !name.bytes().all(plain) {
        let wrong = "the name of a relay has 1 to 64 letters, digits, dots and dashes";
        return Err(Failure::configuration(anyhow::anyhow!(wrong)));
    }
    let key = RelayKey::generate().context("the system gives no random bytes").map_err(Failure::machine)?;
    println!("For the relay, in the file that push.gateway.key_file names (it is not shown again):");
    println!();
    println!("{}", key.as_str());
    println!();
    println!("For the gateway's settings:");
    println!();
    println!("[[relays]]");
    println!("name = \"{name}\"");
    println!("key_sha256 = \"{}\"", key.hash());
    Ok(ExitCode::SUCCESS)
}
