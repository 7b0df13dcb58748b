//! Pairing windows (relay-protocol §9).
//!
//! A window is in memory alone, and so is its token. `ClientPaired` counts only while a window that *this* process opened
//! is neither used nor expired, whatever the relay says (fault 13). The relay repeats `ClientPaired` to an agent that was
//! away when the device came; the window outlives a reconnection for that, and not a restart, after which the person
//! scans a new code. Half a minute of grace covers a device that came in the window's last second.
//!
//! After a reconnection `PairingStart` is not repeated for a window that was shown: the relay keeps windows, and repeating
//! the token could make a spent one good again.

use std::time::{Duration, Instant};

use skald_e2e::QrPayload;
use skald_relay_common::frame::{ClientPaired, FromPeer};
use skald_relay_common::ids::{PairingToken, PublicKey};
use tokio::sync::oneshot;

use super::Engine;
use crate::client::reply;
use crate::error::PairingError;
use crate::status::LinkProblem;
use crate::store::{Admission, PeerState, Store};
use crate::types::PairingWindow;
use crate::util;

const GRACE_MS: u64 = 30_000;
const LONGEST: Duration = Duration::from_secs(600);
/// What a ttl of 0 means to a relay, in seconds.
const DEFAULT_TTL: u32 = 300;

type Reply = oneshot::Sender<Result<PairingWindow, PairingError>>;

#[derive(Default)]
pub(super) struct Pairing {
    windows: u64,
    asking: Option<Asking>,
    open: Option<Window>,
}

struct Asking {
    token: PairingToken,
    ttl: u32,
    until: Instant,
    reply: Reply,
}

struct Window {
    id: u64,
    expires_at: u64,
    used_by: Option<PublicKey>,
}

impl Pairing {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.asking.as_ref().map(|asking| asking.until)
    }

    pub(super) fn expire(&mut self, now: Instant, problem: Option<&LinkProblem>) {
        if self.asking.as_ref().is_some_and(|asking| asking.until <= now)
            && let Some(asking) = self.asking.take()
        {
            reply(asking.reply, Err(PairingError::NotConnected(problem.cloned())));
        }
    }

    /// What a fresh connection must be asked for.
    pub(super) fn start_frame(&self) -> Option<FromPeer> {
        self.asking.as_ref().map(|a| FromPeer::PairingStart { token: a.token, ttl: a.ttl })
    }

    /// The relay refused something, and it was the window.
    pub(super) fn refused(&mut self, code: &str) -> bool {
        let Some(asking) = self.asking.take() else { return false };
        reply(asking.reply, Err(PairingError::Refused(code.chars().take(40).collect())));
        true
    }

    fn expects(&self, key: &PublicKey, now_ms: u64) -> Option<&Window> {
        self.open.as_ref().filter(|window| {
            now_ms <= window.expires_at + GRACE_MS && window.used_by.as_ref().is_none_or(|used| used == key)
        })
    }
}

impl Engine {
    pub(super) async fn open_pairing(&mut self, ttl: Duration, to: Reply) {
        if !self.is_agent() {
            return reply(to, Err(PairingError::NotAgent));
        }
        let Ok(token) = util::random::<32>() else { return reply(to, Err(PairingError::Random)) };
        if let Some(earlier) = self.pairing.asking.take() {
            reply(earlier.reply, Err(PairingError::Superseded));
        }
        // The new token replaces the old one at the relay; from here on the old window counts for nothing either.
        self.pairing.open = None;
        let ttl = ttl.min(LONGEST).as_secs() as u32;
        let token = PairingToken::from_bytes(token);
        let until = Instant::now() + self.shared.dialer.timings.pairing;
        self.pairing.asking = Some(Asking { token, ttl, until, reply: to });
        if self.machine.is_live() {
            self.attempt_write(&FromPeer::PairingStart { token, ttl }).await;
        }
    }

    pub(super) async fn pairing_ready(&mut self, ttl: u32) -> Result<(), LinkProblem> {
        let Some(asking) = self.pairing.asking.take() else { return Ok(()) };
        self.pairing.windows += 1;
        let id = self.pairing.windows;
        // The relay may shorten a window and never lengthen it: for as long as it is open here, `ClientPaired` counts.
        let longest = if asking.ttl == 0 { DEFAULT_TTL } else { asking.ttl };
        let expires_at = util::now_ms() + u64::from(ttl.min(longest)) * 1_000;
        let keys = &self.shared.keys;
        let qr = QrPayload {
            relay_url: self.shared.dialer.url.to_string(),
            namespace_id: keys.namespace,
            agent_ed25519_pub: keys.me(),
            agent_x25519_pub: keys.identity.x_public_key(),
            pairing_token: asking.token,
        };
        if asking.reply.send(Ok(PairingWindow { id, qr, expires_at })).is_err() {
            // Nobody will show the code, so nobody may use it.
            return self.write(&FromPeer::PairingStop);
        }
        self.pairing.open = Some(Window { id, expires_at, used_by: None });
        Ok(())
    }

    pub(super) async fn close_pairing(&mut self) -> Result<(), PairingError> {
        if !self.is_agent() {
            return Err(PairingError::NotAgent);
        }
        if let Some(asking) = self.pairing.asking.take() {
            reply(asking.reply, Err(PairingError::Superseded));
        }
        self.pairing.open = None;
        if self.machine.is_live() {
            self.attempt_write(&FromPeer::PairingStop).await;
        }
        Ok(())
    }

    /// A device used the token, says the relay.
    pub(super) async fn client_paired(&mut self, paired: ClientPaired) -> Result<(), LinkProblem> {
        let now_ms = util::now_ms();
        let Some((id, used)) = self.pairing.expects(&paired.key, now_ms).map(|w| (w.id, w.used_by.is_some()))
        else {
            tracing::warn!(code = "unexpected_client_paired", device = %paired.key.short(), "pairing ignored");
            return Ok(());
        };
        if used || !self.is_agent() {
            // The relay's repetition of what was taken in already.
            return Ok(());
        }
        if self.shared.keys.identity.session(&paired.x_key).is_err() || paired.key == self.shared.keys.me() {
            tracing::warn!(code = "unusable_key", device = %paired.key.short(), "pairing ignored");
            return Ok(());
        }
        let mut tx = self.shared.store.begin().await?;
        let platform = paired.platform.code();
        let admission =
            Store::admit(&mut tx, &paired.key, &paired.x_key, PeerState::Pending, platform, now_ms).await?;
        Store::keep_paired(&mut tx, &paired.key, id, now_ms).await?;
        tx.commit().await.map_err(crate::error::StoreError::from)?;
        if let Some(window) = &mut self.pairing.open {
            window.used_by = Some(paired.key);
        }
        self.shared.arrived.notify_waiters();
        if admission == Admission::NewKey {
            self.outbox.forget(&paired.key);
            self.shared.end_pipes(&paired.key);
        }
        self.write(&FromPeer::PairingStop)?;
        match admission {
            Admission::New => Ok(()),
            // The relay made it pending; if it is authorised here, the list says so again. Under a new key it no longer
            // is, and the list says that.
            Admission::Again | Admission::NewKey => self.send_authorize().await,
        }
    }
}
