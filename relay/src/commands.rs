//! The program's commands. Each has a file; what they share is here.

pub mod backup;
pub mod check;
pub mod gateway;
pub mod health;
mod notify;
pub mod serve;
pub mod signals;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use skald_relay::settings::{LogFormat, Network, Settings};
use tracing_subscriber::EnvFilter;

/// A blind relay between one person's agent and devices.
///
/// Without a command it runs the relay. Settings come from the file, then from the environment (RELAY_…), then from
/// these flags.
#[derive(Parser)]
#[command(version, about, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the relay, as without any command.
    Serve(SettingsArgs),
    /// Say what is wrong with the settings, the database, the certificate and the push keys.
    Check(check::Args),
    /// Ask the relay that runs here whether it is ready.
    Health(SettingsArgs),
    /// Wake devices for relays that have no keys with Apple and Google.
    Gateway(gateway::GatewayArgs),
    /// Copy the store to a file; the relay may run meanwhile.
    Backup(backup::BackupArgs),
    /// Put such a copy back; the relay must not run.
    Restore(backup::RestoreArgs),
}

impl Cli {
    /// Does what the command line says.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self.command.unwrap_or(Command::Serve(self.settings)) {
            Command::Serve(settings) => serve::run(settings.load()?),
            Command::Check(args) => check::run(args),
            Command::Health(settings) => health::run(settings),
            Command::Gateway(args) => gateway::run(args),
            Command::Backup(args) => backup::backup(args),
            Command::Restore(args) => backup::restore(args),
        }
    }
}

/// The flags that say how a relay is set up.
#[derive(clap::Args)]
pub struct SettingsArgs {
    /// Where to listen, such as 127.0.0.1:8080.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The folder of the database.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Allow plain WebSocket, on a loopback address alone.
    #[arg(long)]
    insecure: bool,
    /// A PEM file with the certificate chain.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the private key.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// A proxy's address or network whose X-Forwarded headers are believed; may be repeated.
    #[arg(long, value_name = "NETWORK")]
    trusted_proxy: Vec<Network>,
}

impl SettingsArgs {
    /// The settings: the file's, the environment's over them, and the flags over those.
    pub fn load(self) -> Result<Settings, Failure> {
        let settings = self.read()?;
        settings.validate().map_err(Failure::configuration)?;
        Ok(settings)
    }

    /// The same, before it is asked whether they make sense together.
    fn read(self) -> Result<Settings, Failure> {
        let mut settings =
            Settings::load(self.config.as_deref(), std::env::vars_os()).map_err(Failure::configuration)?;
        if let Some(listen) = self.listen {
            settings.listen = listen;
        }
        if let Some(data) = self.data {
            settings.data = data;
        }
        settings.insecure |= self.insecure;
        settings.tls_cert = self.tls_cert.or(settings.tls_cert);
        settings.tls_key = self.tls_key.or(settings.tls_key);
        if !self.trusted_proxy.is_empty() {
            settings.trusted_proxies = self.trusted_proxy;
        }
        Ok(settings)
    }
}

/// Why a command ended early, and with which exit code.
pub struct Failure {
    /// One sentence that says what to do.
    pub error: anyhow::Error,
    /// What the program ends with.
    pub code: u8,
}

impl Failure {
    /// What the person has typed or configured is to blame.
    pub fn configuration(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), code: 2 }
    }

    /// The machine is to blame.
    pub fn machine(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), code: 1 }
    }

    /// Says so and gives the exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("skald-relay: {:#}", self.error);
        ExitCode::from(self.code)
    }
}

/// Starts the log, which goes to standard error.
pub fn start_log(filter: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter)
        .context("the setting log is no log filter: give it a level such as info, or target=level")
        .map_err(Failure::configuration)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// A runtime with every core, for commands that serve.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
        .map_err(Failure::machine)
}
