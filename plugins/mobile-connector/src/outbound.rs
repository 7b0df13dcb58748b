//! The thin driver around the [`Machine`]: it reads, sends, remembers and waits; it decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skald_core_api::PluginStatus;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::DeviceKey;
use crate::connector::{Connector, Poke};
use crate::health::{Health, Part};
use crate::http::sentence;
use crate::machine::{Effect, Input, Known, Lane, Machine};
use crate::relay::How;

/// The pause after a read that failed.
const RETRY: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(2) };
/// The longest sleep: the wall clock may be set, and a machine that slept did not count the time.
const NAP: Duration = Duration::from_secs(30);
/// Notifications read at a time.
const LOG_PART: u32 = 100;

type Ended = (DeviceKey, Lane, bool);

/// What must be read again, and has not been.
#[derive(Default)]
struct Dirty {
    devices: bool,
    inbox: bool,
    log: bool,
}

struct Outbound {
    connector: Arc<Connector>,
    health: Arc<Health>,
    machine: Machine,
    sends: JoinSet<Ended>,
    dirty: Dirty,
    retry_at: Option<Instant>,
    /// Who waits for the true state, and whether it is stored for them. One entry a device.
    waiting: BTreeMap<DeviceKey, bool>,
}

/// Runs until `stop` is cancelled.
pub(crate) async fn run(
    connector: Arc<Connector>,
    health: Arc<Health>,
    mut mailbox: mpsc::Receiver<Poke>,
    stop: CancellationToken,
) {
    let mut revisions = connector.inbox.revisions();
    let mut heads = connector.inbox.notification_head();
    let mut link = connector.relay.link();
    let machine = Machine::new(connector.settings.notify_delay_ms, Box::new(new_id));
    let dirty = Dirty { devices: true, inbox: true, log: true };
    let mut this = Outbound {
        connector,
        health,
        machine,
        sends: JoinSet::new(),
        dirty,
        retry_at: None,
        waiting: BTreeMap::new(),
    };
    // Seen before the first read: a change between the two is read twice rather than missed.
    revisions.mark_unchanged();
    heads.mark_unchanged();
    link.mark_changed();
    loop {
        this.read().await;
        let wake = this.wake();
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = changed(&mut link) => {
                let now = link.borrow_and_update().clone();
                let up = now.up;
                this.health.link(now);
                this.input(Input::Link(up)).await;
            }
            poke = mailbox.recv() => match poke {
                Some(poke) => this.poked(poke).await,
                None => break,
            },
            Some(ended) = this.sends.join_next() => {
                // A send that panicked took its lane with it; the panic is a bug and ends the plugin with its cause.
                let (to, lane, ok) = match ended {
                    Ok(ended) => ended,
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => continue,
                };
                this.input(Input::Sent { to, lane, ok }).await;
            }
            () = changed(&mut revisions) => {
                revisions.mark_unchanged();
                this.dirty.inbox = true;
            }
            () = changed(&mut heads) => {
                heads.mark_unchanged();
                this.dirty.log = true;
            }
            () = tokio::time::sleep_until(wake) => this.input(Input::Tick).await,
        }
    }
    this.sends.shutdown().await;
}

/// Waits for a change; for ever where nobody can make one any more.
async fn changed<T>(watched: &mut watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn new_id() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

impl Outbound {
    async fn poked(&mut self, poke: Poke) {
        match poke {
            Poke::Devices => self.dirty.devices = true,
            Poke::Request(key) => self.wants(key, false),
            Poke::Refresh(key) => self.wants(key, true),
            Poke::Refused(key) => self.input(Input::Refused(key)).await,
            Poke::Ack { to, ref_id } => self.input(Input::Ack { to, ref_id }).await,
        }
    }

    /// Remembers who asks until the true state has been read: what was seen last may be older than the question.
    fn wants(&mut self, key: DeviceKey, stored: bool) {
        self.dirty.inbox = true;
        *self.waiting.entry(key).or_default() |= stored;
    }

    /// Reads what has changed. What cannot be read stays dirty and is read again after a pause.
    async fn read(&mut self) {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.retry_at = None;
        if self.dirty.devices {
            self.read_devices().await;
        }
        if self.dirty.inbox {
            match self.connector.inbox.snapshot().await {
                Ok(inbox) => {
                    self.dirty.inbox = false;
                    self.health.part(Part::Inbox, None);
                    self.input(Input::Inbox(inbox)).await;
                    for (key, stored) in std::mem::take(&mut self.waiting) {
                        let input = if stored { Input::Refresh(key) } else { Input::Request(key) };
                        self.input(input).await;
                    }
                }
                Err(error) => self.failed(Part::Inbox, error.to_string()),
            }
        }
        while self.dirty.log && !self.dirty.devices {
            // What is not wanted now is read once something has left; the machine says from where.
            let Some(after) = self.machine.log_after() else { break };
            match self.connector.inbox.notifications_after(after, LOG_PART).await {
                Ok(entries) => {
                    self.health.part(Part::Inbox, None);
                    self.dirty.log = entries.len() == LOG_PART as usize;
                    if !entries.is_empty() {
                        self.input(Input::Log(entries)).await;
                    }
                }
                Err(error) => {
                    self.failed(Part::Inbox, error.to_string());
                    break;
                }
            }
        }
    }

    async fn read_devices(&mut self) {
        let peers = match self.connector.relay.devices().await {
            Ok(peers) => peers,
            // A list that cannot be read is no empty list (spec faults 7): the last one stands.
            Err(error) => return self.failed(Part::Devices, error.to_string()),
        };
        let head = self.connector.log_head();
        let mut known = Vec::new();
        for peer in peers.into_iter().filter(|p| p.admitted) {
            match self.connector.store.memory(peer.key, head).await {
                Ok(memory) => known.push(Known { key: peer.key, memory, online: peer.online }),
                Err(error) => return self.failed(Part::Store, error.to_string()),
            }
        }
        self.dirty.devices = false;
        // A device that came needs the log from where it stands.
        self.dirty.log = true;
        self.health.part(Part::Devices, None);
        self.health.part(Part::Store, None);
        self.input(Input::Devices(known)).await;
    }

    fn failed(&mut self, part: Part, text: String) {
        tracing::warn!(?part, error = %text, "the connector could not read what it needs; it tries again");
        self.health.part(
            part,
            Some(sentence(&format!("{}; it is tried again every few seconds", text.trim_end_matches('.')))),
        );
        self.retry_at = Some(Instant::now() + RETRY);
    }

    async fn input(&mut self, input: Input) {
        for effect in self.machine.handle(PluginStatus::now_ms(), input) {
            match effect {
                Effect::Send { to, lane, live, bodies } => {
                    let relay = self.connector.relay.clone();
                    self.sends.spawn(async move {
                        for body in bodies {
                            let how = if live { How::Live } else { How::Stored(body.slot) };
                            if let Err(error) = relay.send(to, &body.json, how).await {
                                tracing::debug!(device = ?to, ?lane, %error, "a message did not leave");
                                return (to, lane, false);
                            }
                        }
                        (to, lane, true)
                    });
                }
                Effect::Remember { device, memory } => {
                    let remembered = self.connector.store.remember(device, &memory).await;
                    // The machine knows it for this run; the next success makes it durable again.
                    let trouble = remembered.err().map(|e| sentence(&e.to_string()));
                    if let Some(text) = &trouble {
                        tracing::warn!(error = %text, "what a device was told could not be kept");
                    }
                    self.health.part(Part::Store, trouble);
                }
            }
        }
    }

    fn wake(&self) -> Instant {
        let now = PluginStatus::now_ms();
        let due = self
            .machine
            .wake_at(now)
            .map(|at| Duration::from_millis(at.saturating_sub(now).max(0).unsigned_abs()));
        let at = Instant::now() + due.unwrap_or(NAP).min(NAP);
        self.retry_at.map_or(at, |retry| retry.min(at))
    }
}
