//! Loopback ports.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// A loopback port that nobody listens on at this moment. Another process could take it before the caller does, so
/// programs that can bind port 0 should; this is for those that must be told a number (a restart on the same address).
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr().context("the listener has no address")?.port())
}
