//! The task that owns a control socket and does what its machine says.

mod asking;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use skald_relay_common::frame::FromRelay;
use tokio_util::sync::CancellationToken;

use super::admission::{Membership, admit, pair};
use super::machine::{Effect, Event, Refused, SILENT, Session, Welcome, routed};
use super::tally::Tally;
use crate::hub::outbox::{Budget, Eviction, Outbox};
use crate::metrics::labels::Label as _;
use crate::metrics::names::{Direction, Limit, Role};
use crate::quota::Place;
use crate::shared::{Shared, challenge_nonce};
use crate::store::{Paired, Position};
use crate::stream::Stream;
use crate::ws::header::Opcode;
use crate::ws::socket::Reading;
use crate::ws::{self, CloseCode, Incoming, Io, Socket};

/// Below this many bytes waiting to be written there is room for more.
const MARK: usize = 64 * 1024;
/// How long a goodbye may take, and how much of what the peer still sends is read for it.
const PART: Duration = Duration::from_secs(2);
const PART_BYTES: usize = 16 * 1024 * 1024;

/// Runs one connection to its end.
pub(crate) async fn run(
    shared: Arc<Shared>,
    stream: Stream,
    early: Bytes,
    place: Place,
    stop: CancellationToken,
) {
    let nonce = match challenge_nonce() {
        Ok(nonce) => nonce,
        Err(error) => {
            tracing::error!(%error, "the operating system gives no randomness");
            return;
        }
    };
    let (session, first) = Session::start(now(), Arc::clone(&shared.rules), nonce);
    let mut driver = Driver {
        socket: Socket::new(stream, &early, shared.rules.max_frame),
        outbox: Arc::new(Outbox::new(shared.outbox_bytes, Arc::clone(&shared.budget))),
        unsent: 0,
        session,
        tally: Tally::new(&shared.counts),
        shared,
        place: Some(place),
        member: None,
        work: FuturesUnordered::new(),
        read: None,
        confirm: None,
        confirming: false,
        end: None,
    };
    driver.apply(first);
    driver.drive(&stop).await;
    driver.finish().await;
}

struct Driver {
    shared: Arc<Shared>,
    socket: Socket,
    /// What waits in the socket, as the budget knows it.
    unsent: usize,
    session: Session,
    tally: Tally,
    outbox: Arc<Outbox>,
    /// Given back when the peer authenticates.
    place: Option<Place>,
    member: Option<Membership>,
    /// What is being asked elsewhere: at most a request, a read and a confirmation.
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// A read that waits until the socket has room.
    read: Option<RangeInclusive<Position>>,
    /// The latest position to confirm that is not with the store yet.
    confirm: Option<Position>,
    confirming: bool,
    end: Option<End>,
}

/// The outcome of something that was asked elsewhere.
enum Done {
    Admitted(Role, Result<(Membership, Welcome), Refused>),
    Event(Event),
    Confirmed,
}

enum End {
    /// We say goodbye first.
    Ours(CloseCode, &'static str),
    /// The peer said goodbye.
    Theirs,
    /// Nobody is there any more.
    Gone,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.budget.give_back(self.unsent);
    }
}

impl Driver {
    async fn drive(&mut self, stop: &CancellationToken) {
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        // The timer may go off early: it is moved only when it would go off late, for moving it costs a lock.
        let mut armed: Option<Instant> = None;
        while self.end.is_none() {
            if stop.is_cancelled() {
                self.event(Event::Evicted(Eviction::Shutdown));
                continue;
            }
            if let Some(why) = self.outbox.evicted() {
                self.event(Event::Evicted(why));
                continue;
            }
            // While memory is scarce a peer gets more only when it has taken all that it was given.
            let mark = if self.shared.budget.is_used_up() { 1 } else { MARK };
            if self.socket.unsent() < mark {
                self.start_read();
                if self.session.is_flowing() {
                    let taken = self.outbox.take(MARK);
                    if !taken.items.is_empty() || taken.behind.is_some() {
                        self.event(Event::Taken(taken));
                        continue;
                    }
                }
            }
            let due = self.deadline();
            if due.is_some_and(|due| armed.is_none_or(|armed| due < armed)) {
                armed = due;
                if let Some(due) = due {
                    timer.as_mut().reset(due.into());
                }
            }
            let reading = if self.session.is_reading() { Reading::All } else { Reading::Paused };
            tokio::select! {
                io = budgeted(&mut self.socket, &mut self.unsent, &self.shared.budget, reading, mark) => self.io(io),
                Some(done) = self.work.next(), if !self.work.is_empty() => self.done(done),
                () = self.outbox.pushed() => {}
                () = &mut timer, if armed.is_some() => {
                    armed = None;
                    self.tick();
                }
                // A member is told through its outbox; before that there is only this.
                () = stop.cancelled(), if self.member.is_none() => {}
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let stalled = self.socket.stalled_since().map(|since| since + self.shared.write_timeout);
        let begun = self.socket.begun_since().map(|since| since + self.shared.frame_timeout);
        [self.session.deadline(), stalled, begun].into_iter().flatten().min()
    }

    fn tick(&mut self) {
        let now = now();
        if self.socket.stalled_since().is_some_and(|since| now >= since + self.shared.write_timeout) {
            tracing::debug!(key = self.short(), "a peer takes nothing any more");
            self.tally.limit(Limit::WriteTimeout);
            self.end = Some(End::Gone);
            return;
        }
        if self.socket.begun_since().is_some_and(|since| now >= since + self.shared.frame_timeout) {
            self.tally.limit(Limit::FrameTimeout);
            self.end = Some(End::Ours(CloseCode::Policy, "a message took too long"));
            return;
        }
        self.session.heard(self.socket.heard());
        self.event(Event::Tick);
    }

    fn io(&mut self, io: Io) {
        self.session.heard(self.socket.heard());
        match io {
            Io::Message(Incoming::Binary(bytes)) => {
                self.tally.bytes(Direction::In, bytes.len());
                self.event(Event::Binary(bytes));
            }
            Io::Message(Incoming::Text) => self.event(Event::Text),
            Io::Message(Incoming::Pong(payload)) => self.event(Event::Pong(payload)),
            Io::Message(Incoming::Close) => self.end = Some(End::Theirs),
            Io::Broken(error) => self.event(Event::Broken(error)),
            Io::Message(Incoming::Ping(_)) | Io::Data | Io::Room => {}
            Io::Gone => self.end = Some(End::Gone),
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Admitted(role, Ok((member, welcome))) => {
                if let Some(place) = self.place.as_ref().filter(|_| role == Role::Agent && !member.made) {
                    place.made_none(now());
                }
                self.authenticated(role);
                tracing::Span::current()
                    .record("role", role.value())
                    .record("namespace", tracing::field::display(welcome.namespace.short()));
                tracing::debug!(key = %member.key.short(), "connected");
                self.member = Some(member);
                self.event(Event::Admitted(Ok(welcome)));
            }
            Done::Admitted(_, Err(refused)) => {
                self.tally.denied(refused);
                self.event(Event::Admitted(Err(refused)));
            }
            Done::Event(event) => {
                if matches!(event, Event::Paired(Ok(Paired::Registered))) {
                    self.authenticated(Role::Pairing);
                }
                self.event(event);
            }
            Done::Confirmed => {
                self.confirming = false;
                self.start_confirm();
            }
        }
    }

    fn authenticated(&mut self, role: Role) {
        self.tally.accepted(role);
        if let Some(place) = self.place.take() {
            place.give_back();
        }
    }

    fn event(&mut self, event: Event) {
        let effects = self.session.handle(now(), event);
        self.apply(effects);
        if self.session.is_closed() && self.end.is_none() {
            self.end = Some(End::Gone);
        }
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(frame) => self.send(&frame),
                Effect::Write(frame) => self.write(frame),
                Effect::Ping(position) => {
                    self.socket.push(ws::server_frame(Opcode::Ping, &position.to_be_bytes()));
                }
                Effect::Admit(role) => {
                    let kind = Role::from(&role);
                    let may_make = kind == Role::Agent
                        && self.place.as_ref().is_some_and(|place| place.may_make_namespace(now()));
                    let outbox = Arc::clone(&self.outbox);
                    let admitted = admit(Arc::clone(&self.shared), role, outbox, may_make);
                    self.work.push(Box::pin(async move { Done::Admitted(kind, admitted.await) }));
                }
                Effect::Pair(claim) => {
                    let paired = pair(Arc::clone(&self.shared), claim);
                    self.work.push(Box::pin(async { Done::Event(Event::Paired(paired.await)) }));
                }
                Effect::RaiseLimit => self.socket.set_limit(self.shared.rules.max_live_frame),
                Effect::Ask(request) => self.ask(request),
                Effect::Route(message) => {
                    let Some(member) = &self.member else { continue };
                    let to = message.peer;
                    let from = member.key;
                    let route = member.namespace.route(&to, move || {
                        let mut message = message;
                        message.peer = from;
                        ws::binary(&FromRelay::Message(message).encode())
                    });
                    self.tally.routed(route);
                    if let Some(answer) = routed(&to, route) {
                        self.send(&answer);
                    }
                }
                Effect::RateLimited { live } => self.tally.rate_limited(live),
                Effect::ListPresence => {
                    let Some(member) = &self.member else { continue };
                    let present = member.namespace.present();
                    self.send(&FromRelay::PresenceList(present));
                }
                Effect::Read(after, through) => self.read = Some(after + 1..=through),
                Effect::Confirm(through) => {
                    self.confirm = Some(through);
                    self.start_confirm();
                }
                Effect::Suspect(suspect) => {
                    self.outbox.set_suspect(suspect);
                    if suspect {
                        self.tally.unconfirming();
                    }
                    if let Some(member) = self.member.as_ref().filter(|_| suspect) {
                        self.shared.hub.absent(member.namespace.id(), &member.key);
                    }
                }
                Effect::Close(code, reason) => {
                    if reason == SILENT {
                        self.tally.limit(Limit::IdleTimeout);
                    }
                    self.end = Some(End::Ours(code, reason));
                }
            }
        }
    }

    fn send(&mut self, frame: &FromRelay) {
        if let FromRelay::Error(refusal) | FromRelay::AuthError(refusal) = frame {
            tracing::debug!(key = self.short(), code = refusal.wire_code, "refused");
        }
        self.tally.sends(frame);
        self.write(ws::binary(&frame.encode()));
    }

    fn write(&mut self, frame: Bytes) {
        self.tally.bytes(Direction::Out, frame.len());
        self.socket.push(frame);
    }

    async fn finish(&mut self) {
        let owes = self.session.owes();
        let outcome = self.goodbye();
        // Presence first: the others need not wait for a peer that is slow to part.
        let member = self.member.take();
        let namespace = member.as_ref().map(|member| Arc::clone(&member.namespace));
        let key = member.as_ref().map(|member| member.key);
        drop(member);
        let socket = &mut self.socket;
        let part = async {
            if outcome.is_ok() {
                socket.part(PART_BYTES).await?;
            } else {
                socket.flush().await?;
            }
            socket.shutdown().await
        };
        // What goes wrong with a goodbye changes nothing: the connection ends here.
        let _ = tokio::time::timeout(PART, part).await;
        // A confirmation that is under way still counts.
        while self.confirming && !self.work.is_empty() {
            if let Some(Done::Confirmed) = self.work.next().await {
                self.confirming = false;
            }
        }
        if let (Some(namespace), Some(key)) = (&namespace, key)
            && owes
        {
            // It was connected when they came, so nobody has thought of a push yet.
            self.shared.hub.absent(namespace.id(), &key);
        }
        if let Some(namespace) = namespace
            && namespace.wants_touch(now(), self.shared.touch_every)
            && self.shared.store.touch(*namespace.id()).await.is_err()
        {
            tracing::debug!("the namespace could not be marked as used");
        }
    }

    /// Queues the goodbye; `Err` where there is nobody to wait for.
    fn goodbye(&mut self) -> Result<(), ()> {
        match self.end {
            Some(End::Ours(code, reason)) => {
                self.socket.push(ws::close(code, reason));
                Ok(())
            }
            Some(End::Theirs) => {
                self.socket.push(ws::close(CloseCode::Normal, ""));
                Err(())
            }
            Some(End::Gone) | None => Err(()),
        }
    }

    fn short(&self) -> Option<String> {
        self.member.as_ref().map(|member| member.key.short().to_string())
    }
}

/// The socket's next event. Whenever it has written what it could, the budget learns how much still waits.
async fn budgeted(
    socket: &mut Socket,
    known: &mut usize,
    budget: &Budget,
    reading: Reading,
    mark: usize,
) -> Io {
    std::future::poll_fn(|cx| {
        let io = socket.poll_next(cx, reading, mark);
        let unsent = socket.unsent();
        if unsent > *known {
            budget.take(unsent - *known);
        } else if unsent < *known {
            budget.give_back(*known - unsent);
        }
        *known = unsent;
        io
    })
    .await
}

/// Tokio's clock, so that tests can pause it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
