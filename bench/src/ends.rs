//! A whole pipe: two ends with their cipher and the relay between them, beside a plain TCP proxy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use skald_relay_client::{
    AgentOptions, DeviceOptions, PipeConnection, PipeReceiver, PipeSender, Platform, RelayClient, RelayEvent,
    device,
};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::baseline::{Baseline, Kind};
use crate::flow;
use crate::relay::{Ground, Relay};
use crate::rows::{Row, median};
use crate::{Bench, Scenario, cipher, usage};

/// Measures a pipe from end to end.
pub const SCENARIO: Scenario =
    Scenario { name: "pipe", title: "A pipe from end to end beside a plain TCP proxy", run };

const KIB: usize = 1024;
const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(300);
/// The threads of the ends are called so, and their CPU is read by that.
const ENDS: &str = "end";

/// What one run gave: megabytes a second, and seconds of CPU per gigabyte of the ends and of what is between them.
#[derive(Debug, Clone, Copy)]
struct Run {
    speed: f64,
    ends: f64,
    between: f64,
}

/// An agent and its device, connected.
struct Couple {
    agent: RelayClient,
    device: RelayClient,
}

fn run(bench: &Bench) -> Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name(ENDS).build();
    let runtime = Arc::new(runtime.context("no runtime")?);
    let mut rows = Vec::new();
    for tls in [false, true] {
        rows.extend(runtime.block_on(measure(bench, runtime.clone(), tls))?);
    }
    Ok(rows)
}

async fn measure(bench: &Bench, runtime: Arc<Runtime>, tls: bool) -> Result<Vec<Row>> {
    let ground = Ground::new()?;
    let relay = Relay::start(&ground, "relay", tls)?;
    let couple = couple(&ground, &relay).await?;
    let copy = Baseline::start(Kind::Copy, None)?;
    let kind = if tls { "TLS, " } else { "" };
    let seconds = bench.seconds / ROUNDS as f64;
    let mut rows = Vec::new();
    for (name, chunk) in [("64 KiB", 64 * KIB), ("1 MiB", 1024 * KIB)] {
        let (mut one_way, mut both, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let pair =
                (ground.connect(copy.address, false).await?, ground.connect(copy.address, false).await?);
            let block = vec![7; chunk].into();
            let task = runtime.spawn(flow::pass(copy.id(), vec![pair], block, false, seconds));
            let passed = task.await.context("the flow broke")??;
            plain.push(passed.bytes / passed.seconds / 1e6);
            for (both_ways, runs) in [(false, &mut one_way), (true, &mut both)] {
                let pipe = couple.pipe().await?;
                let task = runtime.spawn(carry(relay.id(), pipe, chunk, both_ways, seconds));
                runs.push(task.await.context("the pipe broke")??);
            }
        }
        let speeds = one_way.iter().zip(&plain).map(|(run, plain)| run.speed / plain).collect();
        let of = |runs: &[Run], pick: fn(&Run) -> f64| median(runs.iter().map(pick).collect());
        let row =
            |what: &str, value, unit| Row::new(SCENARIO.name, format!("{kind}{name} {what}"), value, unit);
        let speed = row("pieces", of(&one_way, |r| r.speed), "MB/s");
        let speed = speed.against("TCP proxy", median(plain)).ratio(median(speeds));
        // What TLS on both legs costs is stated, not promised.
        rows.push(if tls { speed } else { speed.at_least(0.8) });
        let all = |r: &Run| r.ends + r.between;
        let (once, twice) = (of(&one_way, all), of(&both, all));
        rows.push(row("both ways", twice, "s of CPU per GB, all three").against("one way", once));
        let (seal, open) = cipher::pipe(64 * KIB, 0.3)?;
        let ends = of(&one_way, |r| r.ends);
        rows.push(row("both ends", ends, "s of CPU per GB").against("cipher alone", 1e3 / seal + 1e3 / open));
        rows.push(row("the relay", of(&one_way, |r| r.between), "s of CPU per GB"));
    }
    couple.agent.shutdown().await;
    couple.device.shutdown().await;
    Ok(rows)
}

/// Sends pieces through a pipe for so many seconds.
async fn carry(
    relay: u32,
    (one, other): (PipeConnection, PipeConnection),
    chunk: usize,
    both_ways: bool,
    seconds: f64,
) -> Result<Run> {
    let received = Arc::new(AtomicU64::new(0));
    let ((one_out, one_in), (other_out, other_in)) = (one.split(), other.split());
    let mut tasks = JoinSet::new();
    tasks.spawn(send(one_out, chunk));
    tasks.spawn(receive(other_in, received.clone()));
    let mut idle = None;
    if both_ways {
        tasks.spawn(send(other_out, chunk));
    } else {
        idle = Some(other_out);
    }
    tasks.spawn(receive(one_in, received.clone()));
    tokio::time::sleep(WARM_UP).await;
    let used = || anyhow::Ok((usage::of_threads(ENDS)?, usage::of(relay)?.cpu));
    let (from, before, began) = (received.load(Ordering::Relaxed), used()?, Instant::now());
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let (bytes, after) = ((received.load(Ordering::Relaxed) - from) as f64, used()?);
    let taken = began.elapsed().as_secs_f64();
    tasks.shutdown().await;
    drop(idle);
    let per_gb = |cpu: f64| cpu / bytes * 1e9;
    Ok(Run {
        speed: bytes / taken / 1e6,
        ends: per_gb(after.0 - before.0),
        between: per_gb(after.1 - before.1),
    })
}

async fn send(mut sender: PipeSender, chunk: usize) {
    let data = vec![7; chunk];
    while sender.send(&data).await.is_ok() {}
}

async fn receive(mut receiver: PipeReceiver, received: Arc<AtomicU64>) {
    while let Ok(Some(bytes)) = receiver.recv_bytes().await {
        received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

impl Couple {
    async fn pipe(&self) -> Result<(PipeConnection, PipeConnection)> {
        let mut incoming = self.agent.incoming_pipes();
        let owner = self.device.agent().context("a device has an agent")?;
        let taken_up = async {
            let invitation = incoming.recv().await?;
            anyhow::Ok(self.agent.accept_pipe(&invitation).await?)
        };
        let opened = async { anyhow::Ok(self.device.open_pipe(&owner, "bench", BTreeMap::new()).await?) };
        tokio::try_join!(opened, taken_up)
    }
}

async fn couple(ground: &Ground, relay: &Relay) -> Result<Couple> {
    let trusted = Some(ground.trusted());
    let options = AgentOptions {
        extra_ca: trusted.clone(),
        ..AgentOptions::new(&relay.url, ground.scratch.join("agent"))
    };
    let (agent, mut events) = RelayClient::start_agent(options).await?;
    let window = agent.open_pairing(Duration::ZERO).await?;
    let qr = device::parse_qr(&window.qr.to_json())?;
    let options = || DeviceOptions {
        extra_ca: trusted.clone(),
        ..DeviceOptions::new(ground.scratch.join("device"), Platform::DESKTOP)
    };
    device::pair(&options(), &qr).await?;
    let key = loop {
        let Some(received) = events.next().await else { bail!("the agent has ended") };
        if let RelayEvent::Paired { key, .. } = received.event {
            received.ack().await?;
            break key;
        }
    };
    agent.authorize(&key).await?;
    let (device, _events) = device::start(options()).await?;
    let owner = device.agent().context("a device has an agent")?;
    device.online().wait_for(|online| online.contains(&owner)).await?;
    agent.online().wait_for(|online| online.contains(&key)).await?;
    Ok(Couple { agent, device })
}
