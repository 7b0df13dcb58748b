//! One application with its client: it sends its script, writes down what arrives, and survives being killed anywhere.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use skald_relay_client::{
    AgentOptions, Class, DeviceOptions, Events, Platform, Received, RelayClient, RelayEvent, SendError,
    SendFailure, Timings, device,
};
use skald_relay_common::ids::PublicKey;
use skald_testkit::Rng;
use tokio::sync::watch;

use crate::journal::{Entry, Journal, Memory, read};
use crate::progress::{Tick, Ticker};
use crate::script::{Script, Stream, named};

/// Everything a peer must know to go on where it was; passed to a process as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PeerConfig {
    /// Of the whole run.
    pub seed: u64,
    /// Its number.
    pub index: usize,
    /// An agent rather than a device.
    pub agent: bool,
    /// The folder of its client.
    pub dir: PathBuf,
    /// Its journal.
    pub journal: PathBuf,
    /// Its way to the relay.
    pub relay_url: String,
    /// Who signed the relay's certificate.
    pub ca: PathBuf,
    /// With whom it speaks.
    pub peers: Vec<Neighbour>,
    /// How many messages before the closing rounds.
    pub length: u64,
    /// The so many-th start.
    pub times: u32,
}

/// A peer as another one knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its number.
    pub index: usize,
    /// Its key.
    pub key: [u8; 32],
    /// To whom it sends, which its script depends on.
    pub sends_to: Vec<usize>,
}

/// What the conductor wants of a running peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    /// So many closing rounds.
    pub rounds: u32,
    /// Shut down in order.
    pub leave: bool,
}

/// Short enough for faults to be noticed soon, long enough for a busy machine.
pub fn timings() -> Timings {
    let ms = Duration::from_millis;
    Timings {
        dns: ms(3_000),
        connect: ms(3_000),
        tls: ms(6_000),
        upgrade: ms(4_000),
        challenge: ms(4_000),
        verdict: ms(6_000),
        write: ms(3_000),
        ping_after: ms(1_000),
        dead_after: ms(4_000),
        proof: ms(3_000),
        backoff_min: ms(20),
        backoff_max: ms(300),
        held_after: ms(1_000),
        admission_max: ms(200),
        queue_full_pause: ms(100),
        pairing: ms(10_000),
        ..Timings::default()
    }
}

/// How a device presents itself.
pub fn device_options(dir: PathBuf, ca: PathBuf) -> DeviceOptions {
    DeviceOptions { extra_ca: Some(ca), timings: timings(), ..DeviceOptions::new(dir, Platform::DESKTOP) }
}

/// How an agent does.
pub fn agent_options(url: &str, dir: PathBuf, ca: PathBuf) -> AgentOptions {
    AgentOptions { extra_ca: Some(ca), timings: timings(), ..AgentOptions::new(url, dir) }
}

/// Runs a peer until it is told to leave. An error is a broken promise, or a broken test.
pub async fn run(config: PeerConfig, wish: watch::Receiver<Wish>, ticker: Ticker) -> Result<()> {
    let script = config.script();
    let memory = config.memory()?;
    let mut journal = Journal::open(&config.journal)?;
    journal.write(&Entry::Up(config.times))?;
    let (client, events) = if config.agent {
        let options = agent_options(&config.relay_url, config.dir.clone(), config.ca.clone());
        RelayClient::start_agent(options).await.context("the agent does not start")?
    } else {
        let options = device_options(config.dir.clone(), config.ca.clone());
        device::start(options).await.context("the device does not start")?
    };
    let keys = config.peers.iter().map(|peer| (peer.index, PublicKey::from_bytes(peer.key))).collect();
    let mut receiver = Receiver::new(&config, &keys, memory, Journal::open(&config.journal)?, ticker.clone());
    let sender = Sender { script: &script, keys: &keys, client: &client, next: receiver.memory.next, ticker };
    let mut left = wish.clone();
    let outcome = tokio::select! {
        outcome = sender.run(&mut journal, wish) => outcome,
        outcome = receiver.run(events) => outcome,
        gone = left.wait_for(|wish| wish.leave) => gone.map(drop).context("nobody conducts"),
    };
    if let Err(error) = &outcome {
        journal.write(&Entry::Wrong(format!("{error:#}")))?;
    }
    client.shutdown().await;
    outcome
}

impl PeerConfig {
    /// What it sends.
    pub fn script(&self) -> Script {
        let to = self.peers.iter().map(|peer| peer.index).collect();
        Script { seed: self.seed, from: self.index, to, length: self.length }
    }

    /// What one of its peers sends.
    fn script_of(&self, from: usize) -> Option<Script> {
        let peer = self.peers.iter().find(|peer| peer.index == from)?;
        Some(Script { seed: self.seed, from, to: peer.sends_to.clone(), length: self.length })
    }

    fn memory(&self) -> Result<Memory> {
        let mut memory = Memory::default();
        for (_, entry) in read(&self.journal)? {
            match entry {
                Entry::Try(number) => memory.next = memory.next.max(number + 1),
                Entry::Got(from, number) => {
                    memory.got.insert((from, number));
                    let stream = self.script_of(from).context("a stranger")?.stream(number);
                    memory.last.insert((from, stream), number);
                }
                Entry::Acked(from, number) => drop(memory.acked.insert((from, number))),
                _ => {}
            }
        }
        Ok(memory)
    }
}

struct Sender<'a> {
    script: &'a Script,
    keys: &'a HashMap<usize, PublicKey>,
    client: &'a RelayClient,
    next: u64,
    ticker: Ticker,
}

impl Sender<'_> {
    async fn run(mut self, journal: &mut Journal, mut wish: watch::Receiver<Wish>) -> Result<()> {
        let mut done = false;
        loop {
            let end = self.script.end(wish.borrow_and_update().rounds);
            while self.next < end {
                self.send(journal).await?;
            }
            if !std::mem::replace(&mut done, true) {
                self.ticker.tick(Tick::Done);
            }
            wish.changed().await.context("nobody conducts")?;
        }
    }

    async fn send(&mut self, journal: &mut Journal) -> Result<()> {
        let message = self.script.message(self.next);
        let to = self.keys.get(&message.to).context("the script names a stranger")?;
        self.next += 1;
        journal.write(&Entry::Try(message.number))?;
        loop {
            let sent = match message.stream {
                Stream::Stored => self.client.send(to, &message.body, Class::Stored).await,
                Stream::Live => self.client.send(to, &message.body, Class::Live).await,
                Stream::Latest(slot) => {
                    self.client.send_latest(to, &slot.to_string(), &message.body, Class::Stored).await
                }
            };
            match sent {
                Ok(()) => break,
                // The outbox is full: once some of it has been handed on there is room again.
                Err(SendError::QueueFull) if message.stream != Stream::Live => {
                    self.client.flush(Duration::from_millis(100)).await;
                }
                Err(SendError::NotConnected | SendError::PeerOffline | SendError::QueueFull) => {
                    return journal.write(&Entry::Refused(message.number, "not now".into()));
                }
                Err(error) => {
                    bail!("{} {} was refused: {error}", message.stream.name(), message.number);
                }
            }
        }
        journal.write(&Entry::Taken(message.number))?;
        if message.stream == Stream::Stored && message.number < self.script.length {
            self.ticker.tick(Tick::Taken);
        }
        if message.breath {
            self.client.flush(Duration::from_secs(2)).await;
        }
        Ok(())
    }
}

struct Receiver<'a> {
    config: &'a PeerConfig,
    names: HashMap<PublicKey, usize>,
    memory: Memory,
    /// What this start of the application has seen.
    seen: std::collections::HashSet<(usize, u64)>,
    journal: Journal,
    ticker: Ticker,
    /// Acknowledgements come one by one or a few together.
    rng: Rng,
    unacknowledged: Vec<(usize, u64, Received)>,
}

impl<'a> Receiver<'a> {
    fn new(
        config: &'a PeerConfig,
        keys: &HashMap<usize, PublicKey>,
        memory: Memory,
        journal: Journal,
        ticker: Ticker,
    ) -> Self {
        let rng = Rng::new(config.seed ^ (config.index as u64) << 32 ^ u64::from(config.times));
        let names = keys.iter().map(|(index, key)| (*key, *index)).collect();
        let unacknowledged = Vec::new();
        let seen = std::collections::HashSet::new();
        Self { config, names, memory, seen, journal, ticker, rng, unacknowledged }
    }

    async fn run(&mut self, mut events: Events) -> Result<()> {
        while let Some(received) = events.next().await {
            match &received.event {
                RelayEvent::Message { peer, body, live, .. } => {
                    let from = *self.names.get(peer).context("a message of a stranger")?;
                    let (said, number) = named(body).context("a payload that nobody sent")?;
                    if said != from {
                        bail!("a message of {from} says that it is from {said}");
                    }
                    let script = self.config.script_of(from).context("a message of a stranger")?;
                    let stream = script.stream(number);
                    if *live != (stream == Stream::Live) {
                        bail!("{} {number} of {from} came as live={live}", stream.name());
                    }
                    let planned = script.message(number);
                    if planned.body != *body || planned.to != self.config.index {
                        bail!("{} {number} of {from} is not what was sent", stream.name());
                    }
                    self.judge(from, number, stream)?;
                    self.unacknowledged.push((from, number, received));
                    if self.unacknowledged.len() > 3 || self.rng.one_in(2) {
                        self.acknowledge().await?;
                    }
                }
                RelayEvent::SendFailed {
                    why: SendFailure::PeerOffline | SendFailure::Disconnected, ..
                } => {}
                RelayEvent::SendFailed { why, .. } => bail!("a message was given up: {why}"),
                _ => received.ack().await?,
            }
        }
        bail!("the client stopped by itself")
    }

    fn judge(&mut self, from: usize, number: u64, stream: Stream) -> Result<()> {
        let name = (from, number);
        if !self.seen.insert(name) || self.memory.acked.contains(&name) {
            bail!("{} {number} of {from} was seen twice", stream.name());
        }
        if self.memory.got.contains(&name) {
            return self.journal.write(&Entry::Again(from, number));
        }
        if let Some(last) = self.memory.last.get(&(from, stream)).filter(|last| **last >= number) {
            bail!("{} {number} of {from} came after {last}", stream.name());
        }
        self.journal.write(&Entry::Got(from, number))?;
        self.memory.got.insert(name);
        self.memory.last.insert((from, stream), number);
        if number >= self.config.length {
            self.ticker.tick(Tick::Closing);
        } else if stream == Stream::Stored {
            self.ticker.tick(Tick::Got);
        }
        Ok(())
    }

    async fn acknowledge(&mut self) -> Result<()> {
        for (from, number, received) in self.unacknowledged.drain(..) {
            received.ack().await?;
            self.journal.write(&Entry::Acked(from, number))?;
        }
        Ok(())
    }
}
