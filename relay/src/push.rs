//! Waking absent devices: the driver of the push scheduler.
//!
//! The queue holds the message; a push only makes its device look. What is pushed is therefore read from the queue
//! when the push leaves: if several messages came within the window the newest goes, and if the device has connected
//! and confirmed meanwhile nothing goes (relay-server "Push"). When that is, is decided by
//! [`skald_relay_push::schedule`]; here are the clock, the database and the tasks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use skald_relay_common::ids::{NamespaceId, PublicKey};
use skald_relay_push::schedule::{Device, Effect, Event, Found, Note, Rules, Scheduler};
use skald_relay_push::{Bridges, Content, Provider, Push, PushMetrics, Token, UnixMillis, Verdict};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;
use crate::store::{Clock, Store};

/// How many reports may wait for the scheduler. When it is full a push is left out: the message is still queued.
const MAILBOX: usize = 4096;
/// How many reports are taken at a time.
const REPORTS: usize = 256;
/// How often the gauges are brought up to date.
const GAUGES: Duration = Duration::from_secs(5);

/// Where absent devices are reported.
#[derive(Clone)]
pub(crate) struct PushQueue {
    reports: mpsc::Sender<Device>,
    metrics: PushMetrics,
}

impl PushQueue {
    pub(crate) fn new(metrics: PushMetrics) -> (Self, mpsc::Receiver<Device>) {
        let (send, receive) = mpsc::channel(MAILBOX);
        (Self { reports: send, metrics }, receive)
    }

    /// A message waits for a device that is absent.
    pub(crate) fn absent(&self, namespace: NamespaceId, device: PublicKey) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.reports.try_send((namespace, device)) {
            self.metrics.left_out();
        }
    }
}

/// What the pushes are made of.
pub(crate) struct Source {
    pub(crate) store: Store,
    pub(crate) hub: Arc<Hub>,
    pub(crate) bridges: Arc<Bridges>,
    pub(crate) clock: Clock,
    pub(crate) queue_ttl: Duration,
}

/// Runs the scheduler, until stopped.
pub(crate) async fn run(
    reports: mpsc::Receiver<Device>,
    source: Source,
    window: Duration,
    stop: CancellationToken,
) {
    let mut seed = [0; 8];
    if let Err(error) = getrandom::fill(&mut seed) {
        // It only spreads retries.
        tracing::warn!(%error, "the operating system gives no randomness");
    }
    let rules = Rules { window, ..Rules::default() };
    let driver = Driver {
        machine: Scheduler::new(rules, u64::from_be_bytes(seed)),
        source: Arc::new(source),
        held: HashMap::new(),
        tasks: JoinSet::new(),
        running: HashMap::new(),
    };
    driver.run(reports, stop).await;
}

struct Driver {
    machine: Scheduler,
    source: Arc<Source>,
    /// What was read and not sent yet, and what was sent and is being judged.
    held: HashMap<Device, Push>,
    tasks: JoinSet<Outcome>,
    /// Whose task each is, for one that ends badly.
    running: HashMap<Id, (Device, Job)>,
}

#[derive(Clone, Copy)]
enum Job {
    Look,
    Send,
}

enum Outcome {
    Looked(Device, Found, Option<Push>),
    Sent(Device, Push, Verdict),
}

impl Driver {
    async fn run(mut self, mut reports: mpsc::Receiver<Device>, stop: CancellationToken) {
        let mut gauges = tokio::time::interval(GAUGES);
        let mut devices = Vec::with_capacity(REPORTS);
        loop {
            let due = self.machine.deadline();
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                count = reports.recv_many(&mut devices, REPORTS) => {
                    if count == 0 {
                        break;
                    }
                    for device in devices.drain(..) {
                        self.event(Event::Absent(device));
                    }
                }
                () = due => self.event(Event::Tick),
                Some(done) = self.tasks.join_next_with_id() => self.ended(done),
                _ = gauges.tick() => self.gauges(),
            }
        }
        self.tasks.shutdown().await;
    }

    fn ended(&mut self, done: Result<(Id, Outcome), tokio::task::JoinError>) {
        let (id, outcome) = match done {
            Ok((id, outcome)) => (id, Some(outcome)),
            Err(error) => {
                tracing::error!(%error, "a push ended badly");
                (error.id(), None)
            }
        };
        let Some((device, job)) = self.running.remove(&id) else { return };
        match (outcome, job) {
            (Some(Outcome::Looked(device, found, push)), _) => {
                self.held.extend(push.map(|push| (device, push)));
                self.event(Event::Looked(device, found));
            }
            (Some(Outcome::Sent(device, push, verdict)), _) => {
                self.held.insert(device, push);
                self.event(Event::Done(device, verdict));
                // Unless it is being sent again already, which took it out.
                self.held.remove(&device);
            }
            (None, Job::Look) => self.event(Event::Looked(device, Found::Unreadable)),
            (None, Job::Send) => self.event(Event::Done(device, Verdict::ours("the bridge failed"))),
        }
    }

    fn event(&mut self, event: Event) {
        let now = Instant::now().into_std();
        for effect in self.machine.handle(now, event) {
            self.effect(effect);
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Look(device) => {
                let source = Arc::clone(&self.source);
                let task = self.tasks.spawn(async move { source.look(device).await });
                self.running.insert(task.id(), (device, Job::Look));
            }
            Effect::Send { device, wake } => {
                let Some(push) = self.held.remove(&device) else { return };
                let push = if wake { push.as_wake() } else { push };
                let bridges = Arc::clone(&self.source.bridges);
                let task = self.tasks.spawn(async move {
                    let verdict = bridges.send(&push).await;
                    Outcome::Sent(device, push, verdict)
                });
                self.running.insert(task.id(), (device, Job::Send));
            }
            Effect::Discard(device) => {
                self.held.remove(&device);
            }
            Effect::Forget(device, since) => {
                let Some(push) = self.held.remove(&device) else { return };
                let source = Arc::clone(&self.source);
                // Nobody waits for it, and at the end it is cut off like the pushes: the provider will say so again.
                self.tasks.spawn(async move { source.forget(device, push, since).await });
            }
            Effect::Note(note) => self.note(note),
        }
    }

    fn note(&self, note: Note) {
        let metrics = self.source.bridges.metrics();
        match note {
            Note::Suspended { provider, span, reason, alarm: true } => tracing::error!(
                provider = provider.name(),
                reason = &*reason,
                "a push provider refuses every push: check its keys and settings; it is tried again in {} s",
                span.as_secs()
            ),
            Note::Suspended { provider, span, reason, .. } => tracing::warn!(
                provider = provider.name(),
                reason = &*reason,
                "a push provider takes nothing for now; it is tried again in {} s",
                span.as_secs().max(1)
            ),
            Note::Recovered(provider) => {
                tracing::info!(provider = provider.name(), "a push provider works again");
            }
            Note::GivenUp((_, device), reason) => {
                tracing::error!(device = %device.short(), reason = &*reason, "a push was given up");
            }
            Note::LeftOut((_, device)) => {
                metrics.left_out();
                tracing::debug!(device = %device.short(), "too many devices wait for a push; this one is left out");
            }
            Note::Expired(provider) => metrics.expired(provider),
            _ => {}
        }
    }

    fn gauges(&self) {
        let metrics = self.source.bridges.metrics();
        metrics.devices(self.machine.waiting(), self.machine.backing_off());
        for provider in Provider::ALL {
            metrics.suspended(provider, self.machine.suspended(provider));
        }
    }
}

impl Source {
    /// Reads what waits for a device.
    async fn look(&self, device: Device) -> Outcome {
        let (namespace, key) = device;
        if self.hub.reaches(&namespace, &key) {
            // It has connected; should it confirm nothing it is reported again.
            return Outcome::Looked(device, Found::Nothing, None);
        }
        let absent = match self.store.absent_device(&namespace, &key).await {
            Ok(Some(absent)) => absent,
            Ok(None) => return Outcome::Looked(device, Found::Nothing, None),
            Err(error) => {
                tracing::error!(%error, "a push cannot be read from the database");
                return Outcome::Looked(device, Found::Unreadable, None);
            }
        };
        let expires = UnixMillis(absent.queued_at).plus(self.queue_ttl);
        let message = absent.newest;
        let push = Push {
            namespace,
            device: key,
            platform: absent.platform,
            token: Token::new(absent.token),
            expires,
            content: Content::Sealed {
                sender: message.peer,
                nonce: message.nonce,
                ciphertext: message.ciphertext,
            },
        };
        let left = UnixMillis(self.clock.now()).until(expires);
        let lane = self.bridges.lane(&push);
        let found = Found::Message { lane, expires: (Instant::now() + left).into_std() };
        Outcome::Looked(device, found, Some(push))
    }

    async fn forget(&self, (namespace, key): Device, push: Push, since: Option<UnixMillis>) -> Outcome {
        tracing::info!(device = %key.short(), platform = push.platform.name(), "a push token is dead");
        let token = push.token.as_str().to_owned();
        if self.store.forget_token(namespace, key, token, since.map(|at| at.0)).await.is_err() {
            tracing::warn!(device = %key.short(), "a dead push token could not be forgotten");
        }
        // Should the device bring it again, it is written down again.
        self.hub.forget_device(&namespace, &key);
        Outcome::Looked((namespace, key), Found::Nothing, None)
    }
}
