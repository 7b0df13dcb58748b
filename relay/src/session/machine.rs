//! The protocol of one connection, from the challenge to the goodbye.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use skald_relay_common::frame::{
    Auth, AuthOk, AuthPairing, ClientPaired, FrameError, FromPeer, FromRelay, Message, Refusal, Role,
};
use skald_relay_common::ids::{ChallengeNonce, NamespaceId, PairingToken, PublicKey};
use skald_relay_common::{ErrorCode, challenge};

use super::delivery::Step;
use super::online::Online;
use super::rules::Rules;
use crate::hub::outbox::{Eviction, Taken};
use crate::hub::{Denied, Route};
use crate::store::{Paired, Position, Queued};
use crate::ws::{CloseCode, DecodeError};

/// What happens to a session.
pub(crate) enum Event {
    /// A binary message.
    Binary(Bytes),
    /// A text message.
    Text,
    /// A Pong with its payload.
    Pong(Bytes),
    /// Something that cannot be read.
    Broken(DecodeError),
    /// Time has passed.
    Tick,
    /// The answer to [`Effect::Admit`].
    Admitted(Result<Welcome, Refused>),
    /// The answer to [`Effect::Pair`].
    Paired(Result<Paired, Refused>),
    /// The answer to [`Effect::Ask`].
    Answered(Answer),
    /// The answer to [`Effect::Read`].
    Batch(Vec<(Position, Bytes)>, bool),
    /// The outbox was taken from.
    Taken(Taken),
    /// The hub ends this connection.
    Evicted(Eviction),
    /// The relay failed at something that this connection needs.
    Failed,
}

/// What a member learns when it is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) namespace: NamespaceId,
    pub(crate) pending: Vec<ClientPaired>,
    /// Up to here messages were offered before it was let in.
    pub(crate) announced: Position,
}

/// Why a peer that proved its key is still not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no such namespace.
    NoNamespace,
    /// The hub says no.
    Denied(Denied),
    /// The relay failed.
    Failed,
}

/// Something that a member asks of the store. One at a time: the next frame is not read before the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Authorize(Vec<PublicKey>),
    StartPairing(PairingToken, u32),
    StopPairing,
    Enqueue(Message),
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Authorized(u32),
    PairingStarted(u32),
    PairingStopped,
    Queued(Queued),
    Failed,
}

/// What the machine wants done, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Send a frame.
    Send(FromRelay),
    /// Write a frame that is encoded already.
    Write(Bytes),
    /// Send a Ping that bears this position.
    Ping(Position),
    /// Let this agent or client in. Its signature is good.
    Admit(Role),
    /// Register this device. Its signature is good.
    Pair(AuthPairing),
    /// Larger frames may come from now on.
    RaiseLimit,
    /// Ask the store.
    Ask(Request),
    /// Hand on a live message and say at once what became of it.
    Route(Message),
    /// A message, live or stored, was refused for want of a token.
    RateLimited { live: bool },
    /// Send the list of who is connected.
    ListPresence,
    /// Read what waits after the first position, through the second.
    Read(Position, Position),
    /// Delete what waits up to this position.
    Confirm(Position),
    /// The peer counts as absent for push, or no more.
    Suspect(bool),
    /// Send what is due, say goodbye and end.
    Close(CloseCode, &'static str),
}

/// A session in one of its phases.
pub(crate) struct Session {
    rules: Arc<Rules>,
    phase: Phase,
    /// When anything last came from the peer.
    heard: Instant,
}

enum Phase {
    AwaitAuth {
        nonce: ChallengeNonce,
        until: Instant,
    },
    /// The signature is good; whether the peer may enter is being found out.
    Admitting {
        role: Role,
    },
    /// A pairing device has its answer and should say goodbye.
    Paired {
        until: Instant,
    },
    Online(Box<Online>),
    Closed,
}

/// How long a pairing device may stay after its answer.
const PAIRED_STAY: Duration = Duration::from_secs(10);

impl Session {
    /// Begins with the relay's word (relay-protocol §4).
    pub(crate) fn start(now: Instant, rules: Arc<Rules>, nonce: ChallengeNonce) -> (Self, Vec<Effect>) {
        let until = now + rules.challenge_timeout;
        let session = Self { rules, phase: Phase::AwaitAuth { nonce, until }, heard: now };
        (session, vec![Effect::Send(FromRelay::Challenge(nonce))])
    }

    /// Whether the peer's next frame may be read.
    pub(crate) fn is_reading(&self) -> bool {
        match &self.phase {
            Phase::AwaitAuth { .. } | Phase::Paired { .. } => true,
            Phase::Online(online) => !online.is_busy(),
            Phase::Admitting { .. } | Phase::Closed => false,
        }
    }

    /// Whether the outbox may be taken from.
    pub(crate) fn is_flowing(&self) -> bool {
        matches!(&self.phase, Phase::Online(online) if online.delivery.is_flowing())
    }

    /// Whether the peer may lack messages that are stored for it.
    pub(crate) fn owes(&self) -> bool {
        matches!(&self.phase, Phase::Online(online) if online.delivery.owes())
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Notes that bytes came from the peer.
    pub(crate) fn heard(&mut self, at: Instant) {
        self.heard = self.heard.max(at);
    }

    /// When [`Event::Tick`] is next wanted.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::AwaitAuth { until, .. } | Phase::Paired { until } => Some(*until),
            Phase::Online(online) => Some(online.deadline(self.heard + self.rules.idle_timeout)),
            Phase::Admitting { .. } | Phase::Closed => None,
        }
    }

    /// Takes an event and says what is to be done.
    pub(crate) fn handle(&mut self, now: Instant, event: Event) -> Vec<Effect> {
        match event {
            Event::Broken(DecodeError::TooLarge) => {
                return self.fatal(ErrorCode::PayloadTooLarge, "the frame is too large", CloseCode::TooBig);
            }
            Event::Broken(DecodeError::Violation(_)) => {
                return self.close(CloseCode::Protocol, "not a proper WebSocket frame");
            }
            Event::Evicted(why) => return self.evicted(why),
            Event::Failed => {
                return self.fatal(
                    ErrorCode::Internal,
                    "the relay failed; try again later",
                    CloseCode::Internal,
                );
            }
            _ => {}
        }
        match &mut self.phase {
            Phase::AwaitAuth { .. } => self.await_auth(now, event),
            Phase::Admitting { .. } => self.admitting(now, event),
            Phase::Paired { until } => match event {
                Event::Tick if now < *until => Vec::new(),
                Event::Tick => self.close(CloseCode::Normal, "paired"),
                Event::Binary(_) | Event::Text => self.fatal(
                    ErrorCode::BadRequest,
                    "pairing is done: connect as a client",
                    CloseCode::Policy,
                ),
                _ => Vec::new(),
            },
            Phase::Online(online) => {
                if matches!(event, Event::Tick) && now >= self.heard + self.rules.idle_timeout {
                    return self.close(CloseCode::Normal, SILENT);
                }
                let mut out = Vec::new();
                let ended = online.handle(now, event, &self.rules, &mut out);
                if ended {
                    self.phase = Phase::Closed;
                }
                out
            }
            Phase::Closed => Vec::new(),
        }
    }

    /// Until `AuthOk` the only frame accepted is `Auth` (relay-protocol §4).
    fn await_auth(&mut self, now: Instant, event: Event) -> Vec<Effect> {
        let Phase::AwaitAuth { nonce, until } = &self.phase else { return Vec::new() };
        match event {
            Event::Tick if now < *until => Vec::new(),
            Event::Tick => self.fatal(ErrorCode::ChallengeTimeout, "no Auth came in time", CloseCode::Policy),
            Event::Text => self.fatal(ErrorCode::BadRequest, "frames must be binary", CloseCode::Policy),
            Event::Binary(bytes) => match FromPeer::parse(bytes) {
                Ok(Some(FromPeer::Auth(auth))) => {
                    let nonce = *nonce;
                    self.authenticate(&nonce, auth)
                }
                Ok(_) => {
                    self.fatal(ErrorCode::BadRequest, "the first frame must be an Auth", CloseCode::Policy)
                }
                Err(error) => self.malformed(&error),
            },
            _ => Vec::new(),
        }
    }

    /// The signature is judged before anything else (relay-protocol §4).
    fn authenticate(&mut self, nonce: &ChallengeNonce, auth: Auth) -> Vec<Effect> {
        if challenge::verify_auth(auth.role.key(), nonce, &auth.signature).is_err() {
            return self.fatal(ErrorCode::InvalidSignature, "the signature is not valid", CloseCode::Policy);
        }
        self.phase = Phase::Admitting { role: auth.role.clone() };
        vec![match auth.role {
            Role::Pairing(pairing) => Effect::Pair(pairing),
            role => Effect::Admit(role),
        }]
    }

    fn admitting(&mut self, now: Instant, event: Event) -> Vec<Effect> {
        match event {
            Event::Admitted(Ok(welcome)) => self.admitted(now, welcome),
            Event::Paired(Ok(Paired::Registered)) => {
                let Phase::Admitting { role: Role::Pairing(pairing) } = &self.phase else {
                    return Vec::new();
                };
                let ok = AuthOk { namespace: pairing.namespace, info: self.rules.info.clone() };
                self.phase = Phase::Paired { until: now + PAIRED_STAY };
                vec![Effect::Send(FromRelay::AuthOk(ok))]
            }
            Event::Paired(Ok(Paired::Closed)) => self.fatal(
                ErrorCode::PairingClosed,
                "no pairing window is open for this token",
                CloseCode::Policy,
            ),
            Event::Admitted(Err(refused)) | Event::Paired(Err(refused)) => {
                let (code, message) = match refused {
                    Refused::NoNamespace => (ErrorCode::NotFound, "there is no such namespace"),
                    Refused::Denied(Denied::Unauthorized) => {
                        (ErrorCode::Unauthorized, "the agent has not authorised this device")
                    }
                    Refused::Denied(Denied::TooManyNamespaces) => {
                        (ErrorCode::RateLimited, "too many new namespaces come from this address")
                    }
                    Refused::Denied(Denied::TooMany) => {
                        (ErrorCode::RateLimited, "this namespace opens too many connections")
                    }
                    Refused::Failed => (ErrorCode::Internal, "the relay failed; try again later"),
                };
                let close = if code == ErrorCode::Internal { CloseCode::Internal } else { CloseCode::Policy };
                self.fatal(code, message, close)
            }
            _ => Vec::new(),
        }
    }

    fn admitted(&mut self, now: Instant, welcome: Welcome) -> Vec<Effect> {
        let Phase::Admitting { role } = &self.phase else { return Vec::new() };
        let is_agent = matches!(role, Role::Agent(_));
        let (online, first) = Online::new(now, is_agent, welcome.announced, &self.rules);
        self.phase = Phase::Online(Box::new(online));
        self.heard(now);
        let ok = AuthOk { namespace: welcome.namespace, info: self.rules.info.clone() };
        let mut out = vec![Effect::RaiseLimit, Effect::Send(FromRelay::AuthOk(ok))];
        // Devices that paired while the agent was away (relay-protocol §9.4).
        out.extend(welcome.pending.into_iter().map(|client| Effect::Send(FromRelay::ClientPaired(client))));
        out.push(first.into());
        out
    }

    fn evicted(&mut self, why: Eviction) -> Vec<Effect> {
        match why {
            Eviction::Displaced => self.close(CloseCode::Policy, "displaced by a newer connection"),
            Eviction::Revoked => self.fatal(
                ErrorCode::Unauthorized,
                "the agent no longer authorises this device",
                CloseCode::Policy,
            ),
            Eviction::Overflow => self.close(CloseCode::Policy, "too slow to take its messages"),
            Eviction::Shutdown => self.close(CloseCode::GoingAway, "the relay is shutting down"),
        }
    }

    fn malformed(&mut self, error: &FrameError) -> Vec<Effect> {
        self.refuse(error.code(), error.to_string(), CloseCode::Policy)
    }

    fn fatal(&mut self, code: ErrorCode, message: &'static str, close: CloseCode) -> Vec<Effect> {
        self.refuse(code, message.to_owned(), close)
    }

    /// Tells the peer what is wrong, by the frame that its phase expects, and ends.
    fn refuse(&mut self, code: ErrorCode, message: String, close: CloseCode) -> Vec<Effect> {
        let refusal = Refusal::new(code, message);
        let frame = match &self.phase {
            Phase::Closed => return Vec::new(),
            Phase::AwaitAuth { .. } | Phase::Admitting { .. } => FromRelay::AuthError(refusal),
            Phase::Paired { .. } | Phase::Online(_) => FromRelay::Error(refusal),
        };
        self.phase = Phase::Closed;
        vec![Effect::Send(frame), Effect::Close(close, code.as_str())]
    }

    fn close(&mut self, code: CloseCode, reason: &'static str) -> Vec<Effect> {
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Closed => Vec::new(),
            _ => vec![Effect::Close(code, reason)],
        }
    }
}

impl From<Step> for Effect {
    fn from(step: Step) -> Self {
        match step {
            Step::Write(frame) => Self::Write(frame),
            Step::Probe(position) => Self::Ping(position),
            Step::Read(after, through) => Self::Read(after, through),
            Step::Confirm(through) => Self::Confirm(through),
            Step::Suspect(suspect) => Self::Suspect(suspect),
        }
    }
}

/// The answer to a live message, for its sender.
pub(crate) fn routed(to: &PublicKey, route: Route) -> Option<FromRelay> {
    match route {
        Route::Taken => None,
        Route::Offline => Some(FromRelay::PeerOffline(*to)),
        Route::NotFound => Some(FromRelay::Error(Refusal::new(ErrorCode::NotFound, NO_RECIPIENT))),
    }
}

/// The goodbye to a peer that said nothing for too long.
pub(super) const SILENT: &str = "silent for too long";
pub(super) const NO_RECIPIENT: &str = "the recipient is not in this namespace";
