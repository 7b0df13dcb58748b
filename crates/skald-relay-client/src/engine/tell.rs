//! What the application hears of by the way: presence, failures, the link's state.

use std::collections::BTreeSet;
use std::sync::Arc;

use skald_relay_common::ids::PublicKey;

use super::Engine;
use crate::client::Shared;
use crate::event::RelayEvent;
use crate::outbox::Failed;
use crate::status::{LinkState, LinkStatus};
use crate::util;

/// However the engine ends, even by a panic, the application hears that it has.
pub(super) struct Ended(pub(super) Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.stop.cancel();
        self.0.status.send_if_modified(|status| {
            let changed = status.state != LinkState::Stopped;
            if changed {
                *status = LinkStatus { state: LinkState::Stopped, last_error: None, since: util::now_ms() };
            }
            changed
        });
    }
}

impl Engine {
    pub(super) fn failed(&mut self, failed: Failed) {
        match failed.pipe {
            Some(pipe) => self.signals.failed(&pipe, failed.why),
            None => self.pass(RelayEvent::SendFailed { peer: failed.peer, why: failed.why }),
        }
    }

    pub(super) fn pass(&self, event: RelayEvent) {
        if self.passing.try_send(event).is_err() {
            tracing::debug!("a passing event was dropped: the application does not read them");
        }
    }

    /// Replaces who is online, telling each change once.
    pub(super) fn set_online(&self, now: BTreeSet<PublicKey>) {
        let before = self.shared.online.borrow().clone();
        if *before == now {
            return;
        }
        for (peer, online) in
            before.difference(&now).map(|p| (*p, false)).chain(now.difference(&before).map(|p| (*p, true)))
        {
            self.pass(RelayEvent::PresenceChanged { peer, online });
        }
        self.shared.online.send_replace(Arc::new(now));
    }

    pub(super) fn tell_status(&self) {
        let (state, problem) = (self.machine.state(), self.machine.problem());
        self.shared.status.send_if_modified(|status| {
            if status.state == state && status.last_error.as_ref() == problem {
                return false;
            }
            let since = if status.state == state { status.since } else { util::now_ms() };
            *status = LinkStatus { state, last_error: problem.cloned(), since };
            true
        });
    }
}
