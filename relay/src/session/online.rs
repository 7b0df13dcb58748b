//! The phase in which a member is connected.

use std::time::Instant;

use bytes::Bytes;
use skald_relay_common::ErrorCode;
use skald_relay_common::frame::{FromPeer, FromRelay, Message, Refusal};

use super::delivery::{Delivery, Step};
use super::machine::{Answer, Effect, Event, NO_RECIPIENT, Request};
use super::rules::Rules;
use crate::bucket::TokenBucket;
use crate::store::{Position, Queued};
use crate::ws::CloseCode;

/// A connected agent or client.
pub(crate) struct Online {
    is_agent: bool,
    /// A request is with the store; the next frame waits for its answer.
    busy: bool,
    pub(super) delivery: Delivery,
    next_ping: Instant,
    /// Messages and presence requests.
    messages: TokenBucket,
    /// Everything else, malformed frames included.
    others: TokenBucket,
    /// Frames that were refused for want of a token: who uses these up as well is flooding.
    refusals: TokenBucket,
}

impl Online {
    pub(super) fn new(now: Instant, is_agent: bool, announced: Position, rules: &Rules) -> (Self, Step) {
        let (delivery, first) = Delivery::begin(announced, rules.pong_timeout);
        let bucket = || TokenBucket::new(rules.messages_per_minute, now);
        let online = Self {
            is_agent,
            busy: false,
            delivery,
            next_ping: now + rules.ping_interval,
            messages: bucket(),
            others: bucket(),
            refusals: bucket(),
        };
        (online, first)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    pub(super) fn deadline(&self, idle: Instant) -> Instant {
        let next = self.next_ping.min(idle);
        self.delivery.deadline().map_or(next, |patience| patience.min(next))
    }

    /// Takes an event; true if the session has ended with it.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        event: Event,
        rules: &Rules,
        out: &mut Vec<Effect>,
    ) -> bool {
        match event {
            Event::Binary(bytes) => return self.frame(now, bytes, rules, out),
            Event::Text => {
                return self.malformed(now, "frames must be binary".to_owned(), out);
            }
            Event::Pong(payload) => out.extend(self.delivery.pong(&payload).into_iter().map(Effect::from)),
            Event::Tick => self.tick(now, rules, out),
            Event::Answered(answer) => return self.answered(answer, out),
            Event::Batch(messages, more) => {
                out.extend(self.delivery.batch(now, messages, more).into_iter().map(Effect::from));
            }
            Event::Taken(taken) => out.extend(self.delivery.taken(now, taken).into_iter().map(Effect::from)),
            Event::Admitted(_) | Event::Paired(_) | Event::Broken(_) | Event::Evicted(_) | Event::Failed => {}
        }
        false
    }

    fn tick(&mut self, now: Instant, rules: &Rules, out: &mut Vec<Effect>) {
        if now >= self.next_ping {
            self.next_ping = now + rules.ping_interval;
            out.push(Effect::Ping(self.delivery.position()));
        }
        out.extend(self.delivery.tick(now).map(Effect::from));
    }

    fn frame(&mut self, now: Instant, bytes: Bytes, rules: &Rules, out: &mut Vec<Effect>) -> bool {
        let len = bytes.len();
        let parsed = FromPeer::parse(bytes);
        let is_live = matches!(&parsed, Ok(Some(FromPeer::Message(message))) if message.live);
        if len > rules.max_frame && !is_live {
            // Only a live message may be so large (relay-protocol §10).
            return fatal(ErrorCode::PayloadTooLarge, "the frame is too large", CloseCode::TooBig, out);
        }
        match parsed {
            Ok(Some(FromPeer::Message(message))) => self.message(now, message, out),
            Ok(Some(FromPeer::PresenceRequest)) => {
                if !self.messages.take(now) {
                    return self.over_quota(now, out);
                }
                out.push(Effect::ListPresence);
                false
            }
            Ok(Some(FromPeer::Auth(_))) => {
                self.malformed(now, "this connection is authenticated".to_owned(), out)
            }
            Ok(Some(frame)) => self.administration(now, frame, rules, out),
            // A frame from the future costs what a malformed one does, and gets no answer.
            Ok(None) if self.others.take(now) => false,
            Ok(None) => self.over_quota(now, out),
            Err(error) => self.malformed(now, error.to_string(), out),
        }
    }

    fn message(&mut self, now: Instant, message: Message, out: &mut Vec<Effect>) -> bool {
        if !self.messages.take(now) {
            out.push(Effect::RateLimited { live: message.live });
            return self.over_quota(now, out);
        }
        if message.live {
            out.push(Effect::Route(message));
        } else {
            self.ask(Request::Enqueue(message), out);
        }
        false
    }

    /// What only the agent may ask (relay-protocol §5, §9).
    fn administration(
        &mut self,
        now: Instant,
        frame: FromPeer,
        rules: &Rules,
        out: &mut Vec<Effect>,
    ) -> bool {
        if !self.is_agent {
            return self.malformed(now, "only the agent may do this".to_owned(), out);
        }
        if !self.others.take(now) {
            return self.over_quota(now, out);
        }
        match frame {
            FromPeer::Authorize(list) => self.ask(Request::Authorize(list), out),
            FromPeer::PairingStart { token, ttl } => {
                let ttl = if ttl == 0 { rules.pairing_ttl } else { ttl.min(rules.pairing_ttl_max) };
                self.ask(Request::StartPairing(token, ttl), out);
            }
            FromPeer::PairingStop => self.ask(Request::StopPairing, out),
            FromPeer::Auth(_) | FromPeer::Message(_) | FromPeer::PresenceRequest => {}
        }
        false
    }

    fn ask(&mut self, request: Request, out: &mut Vec<Effect>) {
        self.busy = true;
        out.push(Effect::Ask(request));
    }

    fn answered(&mut self, answer: Answer, out: &mut Vec<Effect>) -> bool {
        self.busy = false;
        let frame = match answer {
            Answer::Authorized(count) => FromRelay::AuthorizeOk(count),
            Answer::PairingStarted(ttl) => FromRelay::PairingReady(ttl),
            Answer::PairingStopped => FromRelay::PairingStopOk,
            Answer::Queued(Queued::Durable) => return false,
            Answer::Queued(Queued::NotFound) => error(ErrorCode::NotFound, NO_RECIPIENT),
            Answer::Queued(Queued::Full) => {
                error(ErrorCode::QueueFull, "too many messages wait for this recipient")
            }
            Answer::Queued(Queued::Busy) => error(
                ErrorCode::RateLimited,
                "this namespace has too much waiting to be written: wait a moment",
            ),
            Answer::Queued(Queued::NoRoom) => {
                error(ErrorCode::QueueFull, "the relay has no room for more stored messages")
            }
            Answer::Failed => {
                return fatal(
                    ErrorCode::Internal,
                    "the relay failed; try again later",
                    CloseCode::Internal,
                    out,
                );
            }
        };
        out.push(Effect::Send(frame));
        false
    }

    fn malformed(&mut self, now: Instant, message: String, out: &mut Vec<Effect>) -> bool {
        if !self.others.take(now) {
            return self.over_quota(now, out);
        }
        out.push(Effect::Send(FromRelay::Error(Refusal::new(ErrorCode::BadRequest, message))));
        false
    }

    fn over_quota(&mut self, now: Instant, out: &mut Vec<Effect>) -> bool {
        if !self.refusals.take(now) {
            return fatal(ErrorCode::RateLimited, "too many frames went on coming", CloseCode::Policy, out);
        }
        out.push(Effect::Send(error(ErrorCode::RateLimited, "too many frames: wait a moment")));
        false
    }
}

fn error(code: ErrorCode, message: &str) -> FromRelay {
    FromRelay::Error(Refusal::new(code, message))
}

fn fatal(code: ErrorCode, message: &str, close: CloseCode, out: &mut Vec<Effect>) -> bool {
    out.push(Effect::Send(error(code, message)));
    out.push(Effect::Close(close, code.as_str()));
    true
}
