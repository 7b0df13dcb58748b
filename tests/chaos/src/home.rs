//! The world of a run: a relay, and peers in namespaces, each behind a proxy of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use skald_relay_client::{RelayClient, RelayEvent, device};
use skald_testkit::{Authority, ChaosProxy, FaultCounts, RelayProcess, Rng};
use tokio::runtime::Runtime;

use crate::Options;
use crate::peer::{Neighbour, PeerConfig, agent_options, device_options};

/// How long the relay keeps a message in these runs. Longer than any run; the check compares every arrival with it.
pub const TTL_SECS: u64 = 3 * 60 * 60;

/// A peer as the conductor knows it.
pub struct Member {
    /// How it is started.
    pub config: PeerConfig,
    /// Its way to the relay.
    pub proxy: ChaosProxy,
    /// Lives in a process of its own.
    pub process: bool,
}

/// A relay that sends and forgets as the protocol says, with quotas that let a run finish.
pub fn relay(folder: &Path, authority: &Authority, options: &Options) -> Result<RelayProcess> {
    let ttl = TTL_SECS.to_string();
    let settings = [
        ("RELAY_LIMIT_MESSAGES_PER_MINUTE", "6000000"),
        ("RELAY_LIMIT_CONNECTIONS_PER_IP_PER_MINUTE", "1000000"),
        ("RELAY_LIMIT_CONNECTIONS_PER_NAMESPACE_PER_MINUTE", "1000000"),
        ("RELAY_LIMIT_CHALLENGE_TIMEOUT_SECS", "5"),
        ("RELAY_LIMIT_IDLE_TIMEOUT_SECS", "6"),
        ("RELAY_LIMIT_PING_INTERVAL_SECS", "1"),
        ("RELAY_LIMIT_PONG_TIMEOUT_SECS", "1"),
        ("RELAY_LIMIT_WRITE_TIMEOUT_SECS", "4"),
        ("RELAY_LIMIT_QUEUE_TTL_SECS", ttl.as_str()),
        ("RELAY_SWEEP_INTERVAL_SECS", "2"),
        ("RELAY_LOG", "warn"),
    ];
    // Beneath the ports that systems hand out by themselves, so that nobody takes it while the relay is down.
    let listen = format!("127.0.0.1:{}", quiet_port()?);
    RelayProcess::start_binary(&options.relay, &listen, folder, authority, &settings)
}

/// Pairs everybody, over proxies that are still calm. Nobody runs when this returns.
pub fn settle(
    runtime: &Runtime,
    scratch: &Path,
    relay: &RelayProcess,
    authority: &Authority,
    options: &Options,
    length: u64,
    counts: &Arc<FaultCounts>,
) -> Result<Vec<Member>> {
    let target = relay.address().parse().context("the relay's address")?;
    let mut members = Vec::new();
    let mut seeds = Rng::new(options.seed ^ 0x70_72_6f_78_79);
    for namespace in 0..options.namespaces {
        let first = members.len();
        let mut configs = Vec::new();
        let mut proxies = Vec::new();
        for index in first..=first + options.devices {
            let proxy = ChaosProxy::start(target, seeds.next_u64(), Arc::clone(counts));
            let proxy = runtime.block_on(proxy)?;
            let dir = scratch.join(format!("peer{index}"));
            configs.push(PeerConfig {
                seed: options.seed,
                index,
                agent: index == first,
                journal: scratch.join(format!("journal{index}")),
                relay_url: format!("wss://{}/v1/ws", proxy.address()),
                dir,
                ca: authority.certificate(),
                peers: Vec::new(),
                length,
                times: 0,
            });
            proxies.push(proxy);
        }
        let pairing = Box::pin(pair(&mut configs));
        runtime.block_on(pairing).with_context(|| format!("namespace {namespace} is not set up"))?;
        members.extend(configs.into_iter().zip(proxies).map(|(config, proxy)| {
            // A third of the peers are processes, agents among them.
            let process = config.index % 3 == 2;
            Member { config, proxy, process }
        }));
    }
    Ok(members)
}

/// Makes the first of these an agent and the others its devices.
async fn pair(configs: &mut [PeerConfig]) -> Result<()> {
    let Some((agent, devices)) = configs.split_first_mut() else { bail!("there is nobody to pair") };
    let options = agent_options(&agent.relay_url, agent.dir.clone(), agent.ca.clone());
    let (client, mut events) = RelayClient::start_agent(options).await?;
    let me = Neighbour {
        index: agent.index,
        key: *client.identity().ed25519_pub.as_bytes(),
        sends_to: devices.iter().map(|device| device.index).collect(),
    };
    for config in devices {
        let window = client.open_pairing(Duration::ZERO).await?;
        let mut qr = device::parse_qr(&window.qr.to_json())?;
        // Each device has a way of its own to the relay.
        qr.relay_url.clone_from(&config.relay_url);
        let paired = device::pair(&device_options(config.dir.clone(), config.ca.clone()), &qr).await?;
        loop {
            let received = events.next().await.context("the agent stopped")?;
            let found = matches!(&received.event, RelayEvent::Paired { key, .. } if *key == paired.device);
            received.ack().await?;
            if found {
                break;
            }
        }
        client.authorize(&paired.device).await?;
        config.peers = vec![me.clone()];
        let key = *paired.device.as_bytes();
        agent.peers.push(Neighbour { index: config.index, key, sends_to: vec![me.index] });
    }
    client.shutdown().await;
    Ok(())
}

fn quiet_port() -> Result<u16> {
    let first = 12_000 + (std::process::id() % 18_000) as u16;
    (first..30_500)
        .find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no free port on loopback")
}

/// Where the peers' stores are best kept: in memory, where a sync costs nothing. A kill -9 loses neither there nor on a disk
/// what was written; the relay's own folder is on the disk all the same.
pub fn fast_folder() -> Option<PathBuf> {
    let shared = PathBuf::from("/dev/shm");
    std::fs::metadata(&shared).is_ok_and(|meta| meta.is_dir()).then_some(shared)
}
