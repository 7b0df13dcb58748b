//! What one control connection adds to the metrics.

use std::sync::Arc;

use skald_relay_common::ErrorCode;
use skald_relay_common::frame::{FromRelay, Refusal, Role as AuthRole};

use super::machine::Refused;
use crate::hub::{Denied, Route};
use crate::metrics::Counts;
use crate::metrics::labels::Held;
use crate::metrics::names::{Class, Direction, Handshake, Kind, Limit, Message, Protocol, Role};
use crate::store::{Queued, StoreError};

/// Counts for one connection. Dropping it counts the connection as gone.
pub(super) struct Tally {
    counts: Arc<Counts>,
    /// What it is, once that is known; until then its place at the gate counts it.
    role: Option<Held>,
    /// The handshake has been counted.
    settled: bool,
}

impl Tally {
    pub(super) fn new(counts: &Arc<Counts>) -> Self {
        Self { counts: Arc::clone(counts), role: None, settled: false }
    }

    /// The peer was let in.
    pub(super) fn accepted(&mut self, role: Role) {
        self.role = Some(self.counts.connections.hold(role));
        self.settle(Handshake::Accepted);
    }

    fn settle(&mut self, outcome: Handshake) {
        if !std::mem::replace(&mut self.settled, true) {
            self.counts.handshakes.count(Protocol::Control, outcome);
        }
    }

    /// A frame goes to the peer.
    pub(super) fn sends(&mut self, frame: &FromRelay) {
        let (refusal, authenticating) = match frame {
            FromRelay::AuthError(refusal) => (refusal, true),
            FromRelay::Error(refusal) => (refusal, false),
            _ => return,
        };
        let Some(code) = Refusal::code(refusal) else { return };
        self.counts.refusals.count(code.into());
        if authenticating {
            self.settle(code.into());
        }
        match code {
            ErrorCode::PayloadTooLarge => self.limit(Limit::FrameSize),
            ErrorCode::RateLimited if !authenticating => self.limit(Limit::MessagesPerMinute),
            _ => {}
        }
    }

    /// The peer proved its key and is not let in all the same.
    pub(super) fn denied(&self, refused: Refused) {
        match refused {
            Refused::Denied(Denied::TooMany) => self.limit(Limit::ConnectionsPerNamespace),
            Refused::Denied(Denied::TooManyNamespaces) => self.limit(Limit::NewNamespacesPerIp),
            _ => {}
        }
    }

    pub(super) fn limit(&self, limit: Limit) {
        self.counts.limits.count(limit);
    }

    pub(super) fn bytes(&self, direction: Direction, bytes: usize) {
        self.counts.bytes.of(direction, Kind::Control).inc_by(bytes as u64);
    }

    /// A live message was handed on, or not.
    pub(super) fn routed(&self, route: Route) {
        let outcome = match route {
            Route::Taken => Message::Delivered,
            Route::Offline => Message::Offline,
            Route::NotFound => Message::NotFound,
        };
        self.counts.messages.count(Class::Live, outcome);
    }

    /// A message was refused for want of a token.
    pub(super) fn rate_limited(&self, live: bool) {
        let class = if live { Class::Live } else { Class::Stored };
        self.counts.messages.count(class, Message::RateLimited);
    }

    /// The peer has confirmed nothing for too long.
    pub(super) fn unconfirming(&self) {
        self.counts.unconfirming.inc();
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.settle(Handshake::Gone);
    }
}

/// A message was queued, or not.
pub(super) fn queued(counts: &Counts, outcome: &Result<Queued, StoreError>) {
    let outcome = match outcome {
        Ok(Queued::Durable) => Message::Queued,
        Ok(Queued::NotFound) => Message::NotFound,
        Ok(Queued::Full) => {
            counts.limits.count(Limit::QueuePerClient);
            Message::QueueFull
        }
        Ok(Queued::Busy) => Message::RateLimited,
        Ok(Queued::NoRoom) => Message::NoRoom,
        Err(_) => Message::Internal,
    };
    counts.messages.count(Class::Stored, outcome);
}

impl From<&AuthRole> for Role {
    fn from(role: &AuthRole) -> Self {
        match role {
            AuthRole::Agent(_) => Self::Agent,
            AuthRole::Client(_) => Self::Client,
            AuthRole::Pairing(_) => Self::Pairing,
        }
    }
}
