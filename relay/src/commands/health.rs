//! `skald-relay health`: asks the relay that runs on this machine whether it is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Failure, SettingsArgs, runtime};

const PATIENCE: Duration = Duration::from_secs(5);

/// Ends with 0 if the relay is ready, and with 1 if not.
pub fn run(args: SettingsArgs) -> Result<ExitCode, Failure> {
    let listen = args.load()?.listen;
    let ip = match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, listen.port());
    let asked = runtime()?.block_on(async { tokio::time::timeout(PATIENCE, ask(address)).await });
    asked
        .unwrap_or_else(|_| Err(anyhow::anyhow!("it does not answer")))
        .with_context(|| format!("the relay at {address} is not ready"))
        .map_err(Failure::machine)?;
    println!("ready");
    Ok(ExitCode::SUCCESS)
}

/// Health is told over plain HTTP too, where the relay serves TLS.
async fn ask(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer).await?;
    if answer.starts_with("HTTP/1.1 200") {
        return Ok(());
    }
    bail!("{}", answer.lines().last().unwrap_or("it says nothing"))
}
