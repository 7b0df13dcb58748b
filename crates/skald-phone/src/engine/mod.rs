//! The one task that owns a device's state: it takes what the relay brings and what commands ask, makes durable what
//! must not be lost, and publishes how things stand.

mod answers;
mod inbound;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use skald_e2e::Identity;
use skald_payloads::{DeviceInfo, Envelope, Hello, Payload};
use skald_relay_client::{Class, Events, LinkState, RelayClient, SendError};
use skald_relay_common::ids::{NamespaceId, PublicKey};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::desk::Desk;
use crate::draft::Draft;
use crate::failure::{Failure, Outcome};
use crate::out::now_ms;
use crate::shelf::Shelf;
use crate::wire::{HostState, Link, PendingAnswer, View};

/// The first pause before the host is asked again for what it has not answered or confirmed; it doubles.
const ASK_AGAIN: Duration = Duration::from_secs(3);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(30);
/// How long the first request of a new device lets its hello go first.
const HELLO_FIRST: Duration = Duration::from_secs(2);

/// What commands ask of the engine.
pub enum Ask {
    /// A live snapshot, please.
    Refresh,
    /// A person saw this.
    Shown {
        /// Digest by item.
        digests: BTreeMap<String, String>,
        /// The first note that was not shown.
        notes_below: u64,
        /// Told when it is remembered.
        reply: oneshot::Sender<()>,
    },
    /// Keep and send an answer; the reply is its token once it is durable.
    Answer {
        /// The item.
        request_id: String,
        /// Its digest as the person saw it.
        digest: Option<String>,
        /// What was decided.
        draft: Draft,
        /// Where the token goes.
        reply: oneshot::Sender<Outcome<String>>,
    },
    /// Tell the host to forget this device. The reply comes once it did, or time is over.
    Leave {
        /// How long to wait for the host.
        wait: Duration,
        /// Where the result goes.
        reply: oneshot::Sender<Outcome<()>>,
    },
}

/// What the engine is made of.
pub struct Parts {
    /// Signs decisions.
    pub identity: Identity,
    /// The host's namespace.
    pub namespace: NamespaceId,
    /// The host.
    pub agent: PublicKey,
    /// What this device says of itself.
    pub info: DeviceInfo,
    /// Where things are kept.
    pub shelf: Shelf,
    /// What was kept.
    pub desk: Desk,
    /// The way to the relay.
    pub client: RelayClient,
}

/// The engine's task.
pub struct Engine {
    parts: Parts,
    view: watch::Sender<View>,
    link: Link,
    error: Option<String>,
    host: HostState,
    /// Whether a live snapshot came over this connection, so that the desk shows what is now.
    current: bool,
    /// Whether somebody waits for a live snapshot.
    wanted: bool,
    /// When the Inbox was last asked for over this connection, in this computer's unix milliseconds.
    asked_ms: Option<u64>,
    /// Whether this connection's relay says of anything that it came live. Some relays never do (fault 5).
    marked: bool,
    /// Whether a question over this connection had no live answer within its pause.
    unanswered: bool,
    ask_at: Option<Instant>,
    pause: Duration,
    /// Answers of earlier runs that nobody waits for now.
    earlier: BTreeSet<String>,
    leaving: Option<Leaving>,
}

struct Leaving {
    until: Instant,
    reply: oneshot::Sender<Outcome<()>>,
}

impl Engine {
    /// Prepares the task; the receiver shows how things stand.
    pub fn new(parts: Parts) -> (Self, watch::Receiver<View>) {
        let earlier = parts.desk.outbox.iter().map(|e| e.token.clone()).collect();
        let (view, seen) = watch::channel(View::default());
        let engine = Self {
            parts,
            view,
            link: Link::Connecting,
            error: None,
            host: HostState::Unknown,
            current: false,
            wanted: false,
            asked_ms: None,
            marked: false,
            unanswered: false,
            ask_at: None,
            pause: ASK_AGAIN,
            earlier,
            leaving: None,
        };
        engine.publish();
        (engine, seen)
    }

    /// Runs until it is stopped or the relay connection is shut down.
    pub async fn run(mut self, mut events: Events, mut asks: mpsc::Receiver<Ask>, stop: CancellationToken) {
        let mut status = self.parts.client.status();
        status.mark_changed();
        self.reconcile().await;
        loop {
            let due = [self.ask_at, self.leaving.as_ref().map(|l| l.until)].into_iter().flatten().min();
            tokio::select! {
                () = stop.cancelled() => break,
                changed = status.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    let now = status.borrow_and_update().clone();
                    self.link_changed(now.state, now.last_error.map(|e| crate::explain::link(&e))).await;
                }
                received = events.next() => match received {
                    Some(received) => {
                        // A store that cannot be written must not lose the event: it comes again at the next start.
                        if self.event(&received.event).await
                            && let Err(error) = received.ack().await
                        {
                            self.error = Some(crate::explain::sentence(&error.to_string()));
                        }
                    }
                    None => break,
                },
                ask = asks.recv() => match ask {
                    Some(ask) => self.ask(ask).await,
                    None => break,
                },
                () = until(due) => self.timer().await,
            }
            self.publish();
        }
    }

    async fn link_changed(&mut self, state: LinkState, error: Option<String>) {
        let before = self.link;
        self.link = match state {
            LinkState::Connected => Link::Connected,
            LinkState::AwaitingAdmission | LinkState::Revoked => Link::NotAdmitted,
            LinkState::Stopped => Link::Stopped,
            _ => Link::Connecting,
        };
        self.error = error;
        if self.link == Link::Connected && before != Link::Connected {
            self.pause = ASK_AGAIN;
            self.greet().await;
            self.request().await;
        } else if self.link != Link::Connected {
            self.current = false;
            self.host = HostState::Unknown;
            self.asked_ms = None;
            (self.marked, self.unanswered) = (false, false);
            self.ask_at = None;
        }
        if self.link == Link::NotAdmitted {
            // The host let go of this device: that is what a logout waits for.
            self.left(Ok(()));
        }
    }

    async fn host_changed(&mut self) {
        match self.host {
            HostState::Online => {
                self.pause = ASK_AGAIN;
                self.request().await;
            }
            HostState::Offline | HostState::Unknown => self.host_is_offline().await,
        }
    }

    async fn host_is_offline(&mut self) {
        self.host = HostState::Offline;
        self.current = false;
        // Its return is told by the relay; should that be missed, asking finds out.
        self.ask_at = Some(Instant::now() + ASK_AGAIN_MAX);
        // Nobody can say whether these items still stand; the relay keeps the answers for the host.
        self.send_waiting().await;
    }

    async fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Refresh => {
                self.pause = ASK_AGAIN;
                self.request().await;
            }
            Ask::Shown { digests, notes_below, reply } => {
                if self.parts.desk.shown(&digests, notes_below) {
                    self.remember();
                }
                let _ = reply.send(());
            }
            Ask::Answer { request_id, digest, draft, reply } => {
                let taken = self.take(&request_id, digest.as_deref(), &draft);
                let done = taken.is_ok();
                let _ = reply.send(taken);
                if done && (self.current || self.host == HostState::Offline) {
                    self.send_waiting().await;
                } else if done {
                    self.request().await;
                }
            }
            Ask::Leave { wait, reply } => {
                if self.link == Link::NotAdmitted {
                    let _ = reply.send(Ok(()));
                    return;
                }
                let body = Envelope::new(Uuid::new_v4(), now_ms(), Payload::Logout).encode();
                let told =
                    self.parts.client.send_latest(&self.parts.agent, "logout", body, Class::Stored).await;
                if let Err(error) = told {
                    let _ = reply.send(Err(Failure::refused(format!("The host cannot be told ({error})."))));
                    return;
                }
                self.leaving = Some(Leaving { until: Instant::now() + wait, reply });
            }
        }
    }

    /// Tells the host what this device is, once for each content.
    async fn greet(&mut self) {
        let Ok(info) = serde_json::to_string(&self.parts.info) else { return };
        if self.parts.desk.memory.greeted.as_deref() == Some(info.as_str()) {
            return;
        }
        let hello = Payload::Hello(Hello { device_info: self.parts.info.clone() });
        // Taken over means durable; a crash before the memory is written repeats it, which does no harm.
        if self.send(hello, Class::Stored).await.is_ok() {
            self.parts.desk.memory.greeted = Some(info);
            self.remember();
            // Live messages overtake stored ones in the queue; the host shall know who asks.
            self.parts.client.flush(HELLO_FIRST).await;
        }
    }

    /// Asks the host for its Inbox.
    async fn request(&mut self) {
        self.wanted = true;
        if self.link != Link::Connected {
            return;
        }
        // Noted before the question leaves: its answer may be here before the send returns.
        self.asked_ms.get_or_insert(u64::try_from(now_ms()).unwrap_or(0));
        match self.send(Payload::InboxRequest, Class::Live).await {
            Ok(()) => self.ask_later(),
            Err(SendError::PeerOffline) => self.host_is_offline().await,
            Err(SendError::NotConnected) => {}
            Err(error) => {
                self.error = Some(crate::explain::sentence(&error.to_string()));
                self.ask_later();
            }
        }
    }

    fn ask_later(&mut self) {
        let at = Instant::now() + self.pause;
        self.ask_at = Some(self.ask_at.map_or(at, |earlier| earlier.min(at)));
    }

    async fn timer(&mut self) {
        let now = Instant::now();
        if self.leaving.as_ref().is_some_and(|l| l.until <= now) {
            let told = self.link == Link::Connected;
            self.left(Err(Failure::unreachable(if told {
                "The host has not confirmed the logout yet and will get it when it is back; run it again then, or add --force to delete the keys now."
            } else {
                "The relay cannot be reached, so the host does not know yet; run it again later, or add --force to delete the keys now."
            })));
        }
        if self.ask_at.is_some_and(|at| at <= now) {
            self.ask_at = None;
            self.pause = (self.pause * 2).min(ASK_AGAIN_MAX);
            self.unanswered |= self.wanted && self.link == Link::Connected;
            if self.wanted || !self.parts.desk.outbox.is_empty() {
                self.request().await;
            }
        }
    }

    fn left(&mut self, result: Outcome<()>) {
        if let Some(leaving) = self.leaving.take() {
            let _ = leaving.reply.send(result);
        }
    }

    async fn send(&self, payload: Payload, class: Class) -> Result<(), SendError> {
        let body = Envelope::new(Uuid::new_v4(), now_ms(), payload).encode();
        self.parts.client.send(&self.parts.agent, body, class).await
    }

    /// Makes the memory durable; a failure shows in the view.
    fn remember(&mut self) -> bool {
        match self.parts.shelf.remember(&self.parts.desk.memory) {
            Ok(()) => true,
            Err(error) => {
                self.error =
                    Some(format!("This device's folder cannot be written ({}).", crate::home::why(&error)));
                false
            }
        }
    }

    fn publish(&self) {
        let desk = &self.parts.desk;
        let pending = desk.outbox.iter().map(|e| PendingAnswer {
            request_id: e.request_id.clone(),
            what: e.draft.what().into(),
            title: e.title.clone(),
        });
        let view = View {
            link: self.link,
            error: self.error.clone(),
            host: self.host,
            inbox: desk.memory.inbox.clone(),
            received_at: desk.memory.received_at,
            fresh: desk.fresh,
            pending: pending.collect(),
            concluded: desk.concluded.iter().cloned().collect(),
            notes: desk.memory.notes.iter().cloned().collect(),
            changed: desk.changed_since_shown(),
        };
        self.view.send_if_modified(|before| {
            let changed = *before != view;
            if changed {
                *before = view;
            }
            changed
        });
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
