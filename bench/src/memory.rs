//! What the relay's pipes hold in memory.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::flow::frames;
use crate::relay::{Ground, Relay, Side};
use crate::rows::Row;
use crate::{Bench, Scenario, usage};

/// Measures the memory of pipes.
pub const SCENARIO: Scenario =
    Scenario { name: "memory", title: "What a pipe holds in the relay's memory", run };

const PIPES: u8 = 64;
const KIB: usize = 1024;
/// Time for what was freed to be given back, and for what flows to fill what it fills.
const SETTLE: Duration = Duration::from_millis(1500);

fn run(_bench: &Bench) -> Result<Vec<Row>> {
    Runtime::new().context("no runtime")?.block_on(measure())
}

async fn measure() -> Result<Vec<Row>> {
    let ground = Ground::new()?;
    let mut rows = Vec::new();
    for (kind, tls) in [("", false), ("TLS, ", true)] {
        for (size, payload) in [("64 KiB", 64 * KIB), ("1 MiB", 1024 * KIB)] {
            let relay = Relay::start(&ground, &format!("{tls}{payload}"), tls)?;
            let home = relay.home(&ground, 1).await?;
            // One pipe that flows and goes makes what all pipes share.
            let mut first = relay.pipe(&ground, &home, [255; 32]).await?;
            let block = frames(payload, 0);
            exchange(&mut first, &block).await?;
            drop(first);
            tokio::time::sleep(SETTLE).await;
            let empty = usage::of(relay.id())?.resident_kib;
            let mut pipes = Vec::new();
            for number in 0..PIPES {
                pipes.push(relay.pipe(&ground, &home, [number; 32]).await?);
            }
            let each = |kib: u64| (kib.saturating_sub(empty)) as f64 / f64::from(PIPES);
            tokio::time::sleep(SETTLE).await;
            let fresh = each(usage::of(relay.id())?.resident_kib);
            for pipe in &mut pipes {
                exchange(pipe, &block).await?;
            }
            tokio::time::sleep(SETTLE).await;
            let rest = each(usage::of(relay.id())?.resident_kib);
            // Nobody reads: every pipe holds the most it ever holds, in both directions.
            for (one, other) in &mut pipes {
                stuff(one, &block).await;
                stuff(other, &block).await;
            }
            let full = each(usage::of(relay.id())?.resident_kib);
            let row = |variant: &str, value| {
                Row::new(SCENARIO.name, format!("{kind}{variant}"), value, "KiB a pipe")
            };
            if payload == 64 * KIB {
                rows.push(row("at rest, never used", fresh).at_most(32.0));
            }
            rows.push(row(&format!("at rest after {size} frames"), rest).at_most(32.0));
            rows.push(row(&format!("full both ways, {size} frames"), full).at_most(512.0));
        }
    }
    Ok(rows)
}

/// A few frames each way.
async fn exchange((one, other): &mut (Side, Side), block: &Bytes) -> Result<()> {
    const FRAMES: usize = 8;
    // A server's header is four bytes shorter.
    let mut come = vec![0; block.len() - 4];
    for _ in 0..FRAMES {
        let there = async {
            one.write_all(block).await?;
            one.flush().await
        };
        let (sent, read) = tokio::join!(there, other.read_exact(&mut come));
        sent?;
        read?;
        let back = async {
            other.write_all(block).await?;
            other.flush().await
        };
        let (sent, read) = tokio::join!(back, one.read_exact(&mut come));
        sent?;
        read?;
    }
    Ok(())
}

/// Writes until nothing more goes.
async fn stuff(side: &mut Side, block: &Bytes) {
    let full = async { while side.write_all(block).await.is_ok() && side.flush().await.is_ok() {} };
    let _ = timeout(Duration::from_millis(150), full).await;
}
