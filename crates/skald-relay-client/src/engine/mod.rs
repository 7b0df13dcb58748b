//! The one task behind a client. It feeds the link's machine, carries out what it says, and owns everything that must
//! have one owner: the outbox, the list of devices, pairing, pipe signals.

mod authorize;
mod commands;
mod frames;
mod pairing;
mod signals;
mod tell;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use skald_relay_common::frame::{
    Auth, AuthClient, FromPeer, FromRelay, Platform, RelayInfo, Role as WireRole,
};
use skald_relay_common::ids::{ChallengeNonce, NamespaceId, PublicKey};
use tokio::sync::{mpsc, oneshot};

use crate::client::Shared;
use crate::error::StoreError;
use crate::event::RelayEvent;
use crate::link::{Effect, Input, Machine, Pacer, Role, Urgency};
use crate::outbox::{Outbox, Outgoing};
use crate::receive::Receiver;
use crate::seed::Folder;
use crate::status::LinkProblem;
use crate::store::fact;
use crate::util;
use crate::wire::{Report, Wire, WireCommand, WireEvent};

use authorize::Authorize;
pub(crate) use commands::Command;
use pairing::Pairing;
use signals::Signals;

/// As whom this client authenticates.
pub(crate) enum AuthAs {
    Agent,
    Device { device_token: String, platform: Platform },
}

/// Reports of the socket wait here for the engine; the socket waits in turn.
const REPORTS: usize = 8;

pub(crate) struct Engine {
    shared: Arc<Shared>,
    role: Role,
    auth: AuthAs,
    machine: Machine,
    pacer: Pacer,
    outbox: Outbox,
    receiver: Receiver,
    wire: Option<Wire>,
    attempt: u64,
    reports: mpsc::Receiver<Report>,
    reporter: mpsc::Sender<Report>,
    passing: mpsc::Sender<RelayEvent>,
    /// The proof that what is under way was read.
    proof: Option<u64>,
    authorize: Authorize,
    pairing: Pairing,
    signals: Signals,
    flushers: Vec<oneshot::Sender<()>>,
    /// Peers of whom the relay said that they are not there; nothing live goes to them until they come (§6.5).
    absent: HashSet<PublicKey>,
    /// Held to the end, so that no other process takes the folder while this one still writes.
    _folder: Folder,
}

impl Engine {
    pub(crate) fn new(
        shared: Arc<Shared>,
        folder: Folder,
        role: Role,
        auth: AuthAs,
        passing: mpsc::Sender<RelayEvent>,
    ) -> Self {
        let timings = shared.dialer.timings.clone();
        let (reporter, reports) = mpsc::channel(REPORTS);
        let outbox = Outbox::new(shared.store.clone(), shared.keys.clone(), timings.queue_full_pause);
        let receiver = Receiver::new(shared.store.clone(), shared.keys.clone());
        Self {
            machine: Machine::new(role, shared.keys.namespace, timings, Box::new(util::unit)),
            pacer: Pacer::new(Instant::now(), 0),
            outbox,
            receiver,
            wire: None,
            attempt: 0,
            reports,
            reporter,
            passing,
            proof: None,
            authorize: Authorize::default(),
            pairing: Pairing::default(),
            signals: Signals::default(),
            flushers: Vec::new(),
            absent: HashSet::new(),
            _folder: folder,
            shared,
            role,
            auth,
        }
    }

    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let _ended = tell::Ended(self.shared.clone());
        let stop = self.shared.stop.clone();
        self.input(Input::Start).await;
        loop {
            let deadline = self.deadline();
            let timer = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            // Each arm only takes the next thing to do; what it does is never cancelled half-way.
            tokio::select! {
                () = stop.cancelled() => break,
                Some(report) = self.reports.recv() => self.on_report(report).await,
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command).await,
                    None => break,
                },
                () = timer => self.on_time().await,
            }
            self.pump().await;
        }
        // What waits for answers hears that there are none: the senders are dropped with the engine.
        self.input(Input::Stop).await;
        stop.cancel();
        self.shared.store.close().await;
    }

    fn deadline(&self) -> Option<Instant> {
        let ready = self.ready();
        [
            self.machine.deadline(),
            self.outbox.wake().filter(|_| ready),
            self.authorize.deadline(self.shared.dialer.timings.verdict),
            self.pairing.deadline(),
            self.signals.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    async fn on_time(&mut self) {
        let now = Instant::now();
        self.input(Input::Tick).await;
        if self.authorize.deadline(self.shared.dialer.timings.verdict).is_some_and(|at| at <= now) {
            let host = self.shared.dialer.url.host().to_owned();
            self.input(Input::Lost(LinkProblem::TimedOut { host, step: "taking the list of devices" })).await;
        }
        self.pairing.expire(now, self.machine.problem());
        self.signals.expire(now, &self.outbox);
    }

    async fn on_report(&mut self, report: Report) {
        // The last words of a socket that was given up.
        if self.wire.as_ref().is_none_or(|wire| wire.attempt != report.attempt) {
            return;
        }
        match report.event {
            WireEvent::Opened => self.input(Input::Opened).await,
            WireEvent::Ping => self.input(Input::Heard).await,
            WireEvent::Pong(payload) => {
                let number = <[u8; 8]>::try_from(payload.as_ref()).ok().map(u64::from_be_bytes);
                self.input(Input::Pong(number)).await;
            }
            WireEvent::Lost(problem) => self.input(Input::Lost(problem)).await,
            WireEvent::Frame { bytes, done } => {
                let input = match FromRelay::parse(bytes) {
                    Ok(Some(frame)) => Input::Frame(frame),
                    Ok(None) => Input::Unknown,
                    Err(error) => {
                        tracing::warn!(%error, "the relay sent a frame that cannot be read");
                        Input::Unknown
                    }
                };
                self.input(input).await;
                // Only a socket that is still wanted reads on. Where the store failed, it is not, and the relay keeps the
                // message.
                if self.wire.as_ref().is_some_and(|wire| wire.attempt == report.attempt) {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Feeds the machine and carries out what it says. A failure of the store ends the session: nothing is acknowledged
    /// that was not written.
    async fn input(&mut self, input: Input) {
        let mut effects: VecDeque<Effect> = self.machine.handle(Instant::now(), input).into();
        while let Some(effect) = effects.pop_front() {
            if let Err(problem) = self.effect(effect).await {
                if let LinkProblem::Store(error) = &problem {
                    tracing::error!(%error, "the store failed");
                }
                effects.extend(self.machine.handle(Instant::now(), Input::Lost(problem)));
            }
        }
        self.tell_status();
    }

    async fn effect(&mut self, effect: Effect) -> Result<(), LinkProblem> {
        match effect {
            Effect::Dial => {
                self.attempt += 1;
                let (wire, task) = Wire::new(
                    self.attempt,
                    self.shared.dialer.clone(),
                    self.reporter.clone(),
                    &self.shared.stop,
                );
                self.wire = Some(wire);
                self.shared.tasks.spawn(task);
                Ok(())
            }
            Effect::Hangup => {
                if let Some(wire) = self.wire.take() {
                    wire.cancel.cancel();
                }
                Ok(())
            }
            Effect::Authenticate(nonce) => {
                let auth = self.auth_frame(&nonce);
                self.write(&FromPeer::Auth(auth))
            }
            Effect::Ping(number) => self.command(WireCommand::Ping(number.to_be_bytes())),
            Effect::Up(info) => self.up(&info).await,
            Effect::Down => {
                self.down();
                Ok(())
            }
            Effect::Deliver(frame) => self.deliver(frame).await,
            Effect::Proved(number) => {
                if self.proof == Some(number) {
                    self.proof = None;
                    self.outbox.proved(util::now_ms()).await?;
                }
                Ok(())
            }
        }
    }

    fn auth_frame(&self, nonce: &ChallengeNonce) -> Auth {
        let keys = &self.shared.keys;
        let role = match &self.auth {
            AuthAs::Agent => WireRole::Agent(keys.me()),
            AuthAs::Device { device_token, platform } => WireRole::Client(AuthClient {
                namespace: self.namespace(),
                key: keys.me(),
                device_token: device_token.clone(),
                platform: *platform,
            }),
        };
        Auth { role, signature: keys.identity.sign_challenge(nonce) }
    }

    fn namespace(&self) -> NamespaceId {
        self.shared.keys.namespace
    }

    fn is_agent(&self) -> bool {
        matches!(self.role, Role::Agent)
    }

    fn write(&self, frame: &FromPeer) -> Result<(), LinkProblem> {
        self.command(WireCommand::Frame(frame.encode()))
    }

    fn command(&self, command: WireCommand) -> Result<(), LinkProblem> {
        match &self.wire {
            Some(wire) => wire.commands.try_send(command).map_err(|_| LinkProblem::Silent),
            None => Err(LinkProblem::Closed),
        }
    }

    async fn up(&mut self, info: &RelayInfo) -> Result<(), LinkProblem> {
        self.pacer = Pacer::new(Instant::now(), info.messages_per_minute);
        self.absent.clear();
        self.proof = None;
        if self.is_agent() {
            self.authorize = Authorize::default();
            self.send_authorize().await?;
            if let Some(start) = self.pairing.start_frame() {
                self.write(&start)?;
            }
        } else {
            self.shared.store.set_fact(fact::ADMITTED, b"1").await?;
            self.shared.store.repeat_kept(util::now_ms()).await?;
        }
        self.outbox.stored_changed();
        // Who connected while this client was away is told by nobody unasked.
        self.outbox.ask_presence();
        Ok(())
    }

    fn down(&mut self) {
        self.proof = None;
        self.authorize = Authorize::default();
        for failed in self.outbox.disconnected() {
            self.failed(failed);
        }
        self.signals.disconnected();
        self.set_online(BTreeSet::new());
    }

    /// Messages leave once the session stands and the relay knows the devices they go to.
    fn ready(&self) -> bool {
        self.machine.is_live() && (!self.is_agent() || self.authorize.settled())
    }

    /// Lets leave what may.
    async fn pump(&mut self) {
        while self.ready() {
            match self.next().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(problem) => {
                    self.input(Input::Lost(problem)).await;
                    return;
                }
            }
        }
        if !self.flushers.is_empty() && self.outbox.is_idle() {
            for flusher in self.flushers.drain(..) {
                let _ = flusher.send(());
            }
        }
    }

    async fn next(&mut self) -> Result<bool, LinkProblem> {
        let now = Instant::now();
        let Some(out) = self.outbox.next(now, util::now_ms(), &mut self.pacer).await? else {
            return Ok(false);
        };
        let frame = match out {
            Outgoing::Message(message) => FromPeer::Message(message),
            Outgoing::PresenceRequest => FromPeer::PresenceRequest,
        };
        self.pacer.spend(now);
        self.write(&frame)?;
        if let Some((number, Effect::Ping(n))) = self.machine.ask_proof(now) {
            self.proof = Some(number);
            self.command(WireCommand::Ping(n.to_be_bytes()))?;
        }
        Ok(true)
    }

    /// Whether the pace is what holds live messages up.
    fn paced(&mut self) -> bool {
        !self.pacer.allows(Instant::now(), Urgency::Now)
    }
}

impl From<StoreError> for LinkProblem {
    fn from(error: StoreError) -> Self {
        Self::Store(error.0.to_string())
    }
}
