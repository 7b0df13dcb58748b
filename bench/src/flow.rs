//! Bytes that flow from one side to another through a process whose CPU is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::task::JoinSet;

use crate::relay::Side;
use crate::usage;

/// How long bytes flow before anything is counted: windows and buffers grow first.
const WARM_UP: Duration = Duration::from_millis(300);
const READ: usize = 256 * 1024;

/// What passed, and what it took.
#[derive(Debug, Clone, Copy)]
pub struct Passed {
    /// Bytes on the wire in both directions.
    pub bytes: f64,
    /// Seconds on the wall's clock.
    pub seconds: f64,
    /// Seconds of the process's CPU.
    pub cpu: f64,
}

impl Passed {
    /// Seconds of CPU per gigabyte.
    pub fn cpu_per_gb(&self) -> f64 {
        self.cpu / self.bytes * 1e9
    }
}

/// Lets `block` be written again and again, `at_once` bytes at a time, and counts what arrives for so many seconds.
pub async fn pass(
    process: u32,
    pairs: Vec<(Side, Side)>,
    block: Bytes,
    both_ways: bool,
    seconds: f64,
) -> Result<Passed> {
    let received = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for (first, second) in pairs {
        let ((first_in, first_out), (second_in, second_out)) =
            (tokio::io::split(first), tokio::io::split(second));
        tasks.spawn(send(first_out, block.clone()));
        tasks.spawn(receive(second_in, received.clone()));
        if both_ways {
            tasks.spawn(send(second_out, block.clone()));
        } else {
            // Kept, for a dropped half would not end anything, and clippy would call it forgotten.
            tasks.spawn(keep(second_out));
        }
        tasks.spawn(receive(first_in, received.clone()));
    }
    tokio::time::sleep(WARM_UP).await;
    let (began, before) = (Instant::now(), usage::of(process)?);
    let from = received.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let (taken, after) = (began.elapsed().as_secs_f64(), usage::of(process)?);
    let bytes = (received.load(Ordering::Relaxed) - from) as f64;
    tasks.shutdown().await;
    ensure!(bytes > 0.0, "nothing has passed");
    Ok(Passed { bytes, seconds: taken, cpu: after.cpu - before.cpu })
}

async fn send(mut to: WriteHalf<Side>, block: Bytes) {
    while to.write_all(&block).await.is_ok() && to.flush().await.is_ok() {}
}

async fn keep(to: WriteHalf<Side>) {
    let _to = to;
    std::future::pending::<()>().await;
}

async fn receive(mut from: ReadHalf<Side>, received: Arc<AtomicU64>) {
    let mut buffer = vec![0; READ];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        received.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// Masked binary frames of one size, as many as make about `bytes`. A sender of small frames gathers them, so that the
/// process under test is what limits the flow.
pub fn frames(payload: usize, bytes: usize) -> Bytes {
    let mut frame = vec![0x82];
    match payload {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        medium @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((medium as u16).to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend([0x5a, 0x17, 0xc3, 0x88]);
    frame.extend((0..payload).map(|at| (at * 31 + 7) as u8));
    let count = (bytes / frame.len()).max(1);
    frame.repeat(count).into()
}

/// What a frame of so many bytes of payload takes as a server sends it.
pub fn server_frame(payload: usize) -> f64 {
    let header = match payload {
        0..=125 => 2,
        126..=0xffff => 4,
        _ => 10,
    };
    (header + payload) as f64
}
