//! The link's phases: `(now, input) → effects`, without a socket and without a clock.
//!
//! ```text
//! Idle ─▶ Dialing ─▶ Challenged? ─▶ Judged? ─▶ Live
//!           ▲  every step has a deadline        │
//!           └────────── Waiting ◀───────────────┘
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use skald_relay_common::codes::ErrorCode;
use skald_relay_common::frame::{FromRelay, Refusal, RelayInfo};
use skald_relay_common::ids::{ChallengeNonce, NamespaceId};

use crate::options::Timings;
use crate::status::{LinkProblem, LinkState};

/// What the link is for; it decides what `unauthorized` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The owner of the namespace.
    Agent,
    /// A device; `admitted` once it has been let in at least once.
    Device { admitted: bool },
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// Begin.
    Start,
    /// The WebSocket is open.
    Opened,
    /// A frame arrived.
    Frame(FromRelay),
    /// A frame arrived that is none, or of a kind unknown here.
    Unknown,
    /// A Ping arrived.
    Heard,
    /// A Pong arrived, with the number its Ping bore.
    Pong(Option<u64>),
    /// The socket is gone, or could not be opened.
    Lost(LinkProblem),
    /// Time passed.
    Tick,
    /// The application knows a reason to try at once, such as a new network.
    Nudge,
    /// End.
    Stop,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Open a socket.
    Dial,
    /// Drop the socket.
    Hangup,
    /// Sign this and send the `Auth`.
    Authenticate(ChallengeNonce),
    /// Authenticated.
    Up(RelayInfo),
    /// No longer.
    Down,
    /// A frame of a live session.
    Deliver(FromRelay),
    /// Send a Ping that bears this number.
    Ping(u64),
    /// The relay has read everything sent before this proof was asked for.
    Proved(u64),
}

#[derive(Debug)]
enum Phase {
    Idle,
    Dialing { until: Instant },
    Challenged { until: Instant },
    Judged { until: Instant },
    Live(Live),
    Waiting { until: Instant },
    Stopped,
}

#[derive(Debug)]
struct Live {
    since: Instant,
    heard: Instant,
    pinged: Instant,
    /// Proofs asked for, oldest first.
    proofs: VecDeque<(u64, Instant)>,
}

/// The link's state machine.
pub(crate) struct Machine {
    role: Role,
    namespace: NamespaceId,
    timings: Timings,
    /// Gives a number in `0.0..1.0`; injected, so that tests can repeat it.
    jitter: Box<dyn FnMut() -> f64 + Send + Sync>,
    phase: Phase,
    attempts: u32,
    problem: Option<LinkProblem>,
    next_proof: u64,
}

/// Pings without a proof bear this number.
const KEEPALIVE: u64 = 0;
/// The shortest pause after the relay said that there were too many connections.
const BUSY_PAUSE: Duration = Duration::from_secs(10);

impl Machine {
    pub(crate) fn new(
        role: Role,
        namespace: NamespaceId,
        timings: Timings,
        jitter: Box<dyn FnMut() -> f64 + Send + Sync>,
    ) -> Self {
        Self {
            role,
            namespace,
            timings,
            jitter,
            phase: Phase::Idle,
            attempts: 0,
            problem: None,
            next_proof: KEEPALIVE + 1,
        }
    }

    /// Where the link stands, for people.
    pub(crate) fn state(&self) -> LinkState {
        match (&self.phase, &self.problem) {
            (Phase::Stopped, _) => LinkState::Stopped,
            (Phase::Live(_), _) => LinkState::Connected,
            // Between two attempts the answer of the last one stands: it does not flicker.
            (_, Some(LinkProblem::NotAdmitted)) => LinkState::AwaitingAdmission,
            (_, Some(LinkProblem::Revoked)) => LinkState::Revoked,
            (Phase::Waiting { .. }, _) => LinkState::Waiting,
            _ => LinkState::Connecting,
        }
    }

    /// What ended the last attempt.
    pub(crate) fn problem(&self) -> Option<&LinkProblem> {
        self.problem.as_ref()
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live(_))
    }

    /// When a [`Input::Tick`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Idle | Phase::Stopped => None,
            Phase::Dialing { until }
            | Phase::Challenged { until }
            | Phase::Judged { until }
            | Phase::Waiting { until } => Some(*until),
            Phase::Live(live) => {
                let dead = live.heard + self.timings.dead_after;
                let ping = live.heard.max(live.pinged) + self.timings.ping_after;
                let proof = live.proofs.front().map(|(_, at)| *at + self.timings.proof);
                Some(proof.map_or(dead.min(ping), |p| dead.min(ping).min(p)))
            }
        }
    }

    /// Asks for proof that everything sent so far was read: a number, and the Ping to send after it.
    pub(crate) fn ask_proof(&mut self, now: Instant) -> Option<(u64, Effect)> {
        let Phase::Live(live) = &mut self.phase else { return None };
        let number = self.next_proof;
        self.next_proof += 1;
        live.proofs.push_back((number, now));
        live.pinged = now;
        Some((number, Effect::Ping(number)))
    }

    /// Takes an input.
    pub(crate) fn handle(&mut self, now: Instant, input: Input) -> Vec<Effect> {
        match input {
            Input::Stop => {
                let was_live = self.is_live();
                self.phase = Phase::Stopped;
                if was_live { vec![Effect::Hangup, Effect::Down] } else { vec![Effect::Hangup] }
            }
            Input::Start if matches!(self.phase, Phase::Idle) => self.dial(now),
            Input::Nudge if matches!(self.phase, Phase::Waiting { .. }) => self.dial(now),
            Input::Lost(problem) => self.lost(now, problem),
            Input::Opened => {
                if matches!(self.phase, Phase::Dialing { .. }) {
                    self.phase = Phase::Challenged { until: now + self.timings.challenge };
                }
                vec![]
            }
            Input::Frame(frame) => self.frame(now, frame),
            Input::Unknown => match &mut self.phase {
                // A live session outlasts what it does not understand; a handshake cannot.
                Phase::Live(live) => {
                    live.heard = now;
                    vec![]
                }
                _ => self.lost(now, LinkProblem::Protocol),
            },
            Input::Heard => {
                if let Phase::Live(live) = &mut self.phase {
                    live.heard = now;
                }
                vec![]
            }
            Input::Pong(number) => self.pong(now, number),
            Input::Tick => self.tick(now),
            Input::Start | Input::Nudge => vec![],
        }
    }

    fn dial(&mut self, now: Instant) -> Vec<Effect> {
        let t = &self.timings;
        // Each step of dialing has its own deadline; this one is for a driver that never comes back.
        let until = now + t.dns + t.connect * 4 + t.tls + t.upgrade;
        self.phase = Phase::Dialing { until };
        vec![Effect::Dial]
    }

    fn frame(&mut self, now: Instant, frame: FromRelay) -> Vec<Effect> {
        match (&mut self.phase, frame) {
            (Phase::Live(live), FromRelay::Challenge(_) | FromRelay::AuthOk(_) | FromRelay::AuthError(_)) => {
                // Out of place, and harmless.
                live.heard = now;
                vec![]
            }
            (Phase::Live(live), frame) => {
                live.heard = now;
                vec![Effect::Deliver(frame)]
            }
            (Phase::Challenged { .. }, FromRelay::Challenge(nonce)) => {
                self.phase = Phase::Judged { until: now + self.timings.verdict };
                vec![Effect::Authenticate(nonce)]
            }
            (Phase::Judged { .. }, FromRelay::AuthOk(ok)) => {
                if ok.namespace != self.namespace {
                    return self.lost(now, LinkProblem::WrongNamespace);
                }
                if let Role::Device { admitted } = &mut self.role {
                    *admitted = true;
                }
                self.problem = None;
                let proofs = VecDeque::new();
                self.phase = Phase::Live(Live { since: now, heard: now, pinged: now, proofs });
                vec![Effect::Up(ok.info)]
            }
            (
                Phase::Challenged { .. } | Phase::Judged { .. },
                FromRelay::AuthError(r) | FromRelay::Error(r),
            ) => {
                let problem = self.refused(&r);
                self.lost(now, problem)
            }
            (Phase::Challenged { .. } | Phase::Judged { .. }, _) => self.lost(now, LinkProblem::Protocol),
            // The last words of a socket that was dropped.
            _ => vec![],
        }
    }

    fn refused(&self, refusal: &Refusal) -> LinkProblem {
        match (refusal.code(), self.role) {
            (Some(ErrorCode::Unauthorized), Role::Device { admitted: false }) => LinkProblem::NotAdmitted,
            (Some(ErrorCode::Unauthorized), Role::Device { admitted: true }) => LinkProblem::Revoked,
            (Some(ErrorCode::RateLimited), _) => LinkProblem::Busy,
            (Some(code), _) => LinkProblem::Refused(code.to_string()),
            // An unknown code is the relay's text; it is shown only if it looks like a code.
            (None, _) => {
                let plain = |c: char| c.is_ascii_lowercase() || c == '_';
                let known = refusal.wire_code.len() <= 40 && refusal.wire_code.chars().all(plain);
                LinkProblem::Refused(if known { refusal.wire_code.clone() } else { "no known reason".into() })
            }
        }
    }

    fn pong(&mut self, now: Instant, number: Option<u64>) -> Vec<Effect> {
        let Phase::Live(live) = &mut self.phase else { return vec![] };
        live.heard = now;
        let Some(number) = number else { return vec![] };
        // A later proof covers the earlier ones, and one that was not asked for proves nothing.
        if !live.proofs.iter().any(|(n, _)| *n == number) {
            return vec![];
        }
        let mut effects = Vec::new();
        while let Some((n, _)) = live.proofs.front().copied()
            && n <= number
        {
            live.proofs.pop_front();
            effects.push(Effect::Proved(n));
        }
        effects
    }

    fn tick(&mut self, now: Instant) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Dialing { until } if *until <= now => self.late(now, "connecting"),
            Phase::Challenged { until } if *until <= now => self.late(now, "greeting"),
            Phase::Judged { until } if *until <= now => self.late(now, "proving who this is"),
            Phase::Waiting { until } if *until <= now => self.dial(now),
            Phase::Live(live) => {
                let silent = now >= live.heard + self.timings.dead_after;
                let stuck = live.proofs.front().is_some_and(|(_, at)| now >= *at + self.timings.proof);
                if silent || stuck {
                    return self.lost(now, LinkProblem::Silent);
                }
                if now >= live.heard.max(live.pinged) + self.timings.ping_after {
                    live.pinged = now;
                    return vec![Effect::Ping(KEEPALIVE)];
                }
                vec![]
            }
            _ => vec![],
        }
    }

    fn late(&mut self, now: Instant, step: &'static str) -> Vec<Effect> {
        self.lost(now, LinkProblem::TimedOut { host: "its address".into(), step })
    }

    fn lost(&mut self, now: Instant, problem: LinkProblem) -> Vec<Effect> {
        let mut effects = vec![Effect::Hangup];
        match &self.phase {
            Phase::Idle | Phase::Stopped | Phase::Waiting { .. } => return vec![],
            Phase::Live(live) => {
                effects.push(Effect::Down);
                // A session that held proves the relay well, however it ended (fault 18).
                if now.saturating_duration_since(live.since) >= self.timings.held_after {
                    self.attempts = 0;
                }
            }
            _ => {}
        }
        let pause = self.pause(&problem);
        self.attempts = self.attempts.saturating_add(1);
        self.problem = Some(problem);
        self.phase = Phase::Waiting { until: now + pause };
        effects
    }

    /// 1, 2, 4 … 60 s, each shortened by up to 30 % at random so that a relay that restarts is not met by all at once.
    fn pause(&mut self, problem: &LinkProblem) -> Duration {
        let longest = match problem {
            LinkProblem::NotAdmitted => self.timings.admission_max.min(self.timings.backoff_max),
            _ => self.timings.backoff_max,
        };
        let doubled = self.timings.backoff_min.saturating_mul(1 << self.attempts.min(16));
        let pause = doubled.min(longest).mul_f64(1.0 - 0.3 * (self.jitter)().clamp(0.0, 1.0));
        match problem {
            LinkProblem::Busy => pause.max(BUSY_PAUSE.min(self.timings.backoff_max)),
            _ => pause,
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
