//! The list of devices at the relay (relay-protocol §5): replaced as a whole, numbered, one at a time under way.

use std::time::{Duration, Instant};

use skald_relay_common::frame::FromPeer;

use super::Engine;
use crate::status::LinkProblem;

/// What the relay knows of the list, for this connection.
#[derive(Debug, Default)]
pub(super) struct Authorize {
    /// The revision that was sent and not confirmed, and when.
    sent: Option<(u64, Instant)>,
    confirmed: bool,
    /// The list changed while one was under way.
    again: bool,
}

impl Authorize {
    pub(super) fn settled(&self) -> bool {
        self.confirmed && self.sent.is_none()
    }

    pub(super) fn deadline(&self, verdict: Duration) -> Option<Instant> {
        self.sent.map(|(_, at)| at + verdict)
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.sent.is_some()
    }
}

impl Engine {
    /// Sends the list as it stands. If it cannot be read, nothing is sent: an empty list would revoke every device
    /// (fault 7).
    pub(super) async fn send_authorize(&mut self) -> Result<(), LinkProblem> {
        if self.authorize.sent.is_some() {
            self.authorize.again = true;
            return Ok(());
        }
        let (revision, list) = self.shared.store.authorized().await?;
        tracing::debug!(revision, devices = list.len(), "telling the relay the list of devices");
        self.write(&FromPeer::Authorize(list))?;
        self.authorize.sent = Some((revision, Instant::now()));
        self.authorize.again = false;
        Ok(())
    }

    pub(super) async fn authorize_confirmed(&mut self) -> Result<(), LinkProblem> {
        // One that nobody asked for confirms nothing.
        if self.authorize.sent.take().is_none() {
            return Ok(());
        }
        self.authorize.confirmed = true;
        if self.authorize.again {
            return self.send_authorize().await;
        }
        self.outbox.stored_changed();
        Ok(())
    }
}
