//! `skald-relay`: a blind relay between one person's agent and devices.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use skald_relay::settings::{LogFormat, Network, Settings};
use skald_relay::{Relay, Running};
use tracing_subscriber::EnvFilter;

/// A blind relay between one person's agent and devices.
///
/// Settings come from the file, then from the environment (RELAY_…), then from these flags.
#[derive(Parser)]
#[command(version, about)]
struct Args {
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

/// Usage and configuration errors end with this code.
const CONFIGURATION: u8 = 2;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Help and version.
        Err(shown) if !shown.use_stderr() => {
            let _ = shown.print();
            return ExitCode::SUCCESS;
        }
        Err(wrong) => return fail(&usage(&wrong), CONFIGURATION),
    };
    let settings = match settings(args) {
        Ok(settings) => settings,
        Err(error) => return fail(&error, CONFIGURATION),
    };
    if let Err(error) = start_log(&settings) {
        return fail(&error, CONFIGURATION);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(settings)),
        Err(error) => fail(&anyhow::Error::new(error).context("cannot start the runtime"), 1),
    }
}

/// Folds the several lines of a usage error into one sentence.
fn usage(wrong: &clap::Error) -> anyhow::Error {
    let rendered = wrong.render().to_string();
    let first = ["\n\nUsage:", "\n\n  tip:", "\n\nFor more information"]
        .iter()
        .fold(rendered.as_str(), |text, end| text.split(end).next().unwrap_or(text));
    let text = first.split_whitespace().collect::<Vec<_>>().join(" ");
    anyhow::anyhow!("{} (see skald-relay --help)", text.strip_prefix("error: ").unwrap_or(&text))
}

fn settings(args: Args) -> anyhow::Result<Settings> {
    let mut settings = Settings::load(args.config.as_deref(), std::env::vars_os())?;
    if let Some(listen) = args.listen {
        settings.listen = listen;
    }
    if let Some(data) = args.data {
        settings.data = data;
    }
    settings.insecure |= args.insecure;
    settings.tls_cert = args.tls_cert.or(settings.tls_cert);
    settings.tls_key = args.tls_key.or(settings.tls_key);
    if !args.trusted_proxy.is_empty() {
        settings.trusted_proxies = args.trusted_proxy;
    }
    settings.validate()?;
    Ok(settings)
}

fn start_log(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log).context("the setting log is no log filter")?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

async fn run(settings: Settings) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return fail(&anyhow::Error::new(error).context("cannot listen for signals"), 1),
    };
    let relay: Running = match Relay::start(settings).await {
        Ok(relay) => relay,
        Err(error) => {
            let code = if error.is_configuration() { CONFIGURATION } else { 1 };
            return fail(&error.into(), code);
        }
    };
    println!("skald-relay is ready at {}", relay.url());
    signals.received().await;
    tracing::info!("shutting down");
    relay.shutdown().await;
    ExitCode::SUCCESS
}

fn fail(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("skald-relay: {error:#}");
    ExitCode::from(code)
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn received(&mut self) {
        // Without this signal the program could only be killed, which it survives as well.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
