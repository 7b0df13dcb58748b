//! What becomes of an arriving message (relay-protocol §6.2).

use std::sync::Arc;

use skald_e2e::ReplayWindow;
use skald_e2e::framing::{self, Framed};
use skald_e2e::session::counter_of;
use skald_e2e::signal::PipeSignal;
use skald_relay_common::frame::Message;

use crate::error::StoreError;
use crate::keyring::Keyring;
use crate::store::{PeerState, Store};

/// So many events may wait for the application before no more is taken from the relay, which keeps them.
pub(crate) const MAX_BACKLOG: i64 = 2_000;

/// The verdict on a message.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is in the store and waits for the application.
    Kept,
    /// A pipe signal, for the pipe layer.
    Signal(PipeSignal),
    /// It is of no use. The word is for the log; it names no content, and failures to open all look alike.
    Dropped(&'static str),
    /// The application is too far behind; the message was not taken.
    Backlog,
}

/// Opens messages, checks their counters, and stores them together with the new mark.
pub(crate) struct Receiver {
    store: Store,
    keys: Arc<Keyring>,
}

impl Receiver {
    pub(crate) fn new(store: Store, keys: Arc<Keyring>) -> Self {
        Self { store, keys }
    }

    /// Judges one message. On an error nothing was taken, and the relay must not be told otherwise.
    pub(crate) async fn take(&self, message: &Message, now_ms: u64) -> Result<Verdict, StoreError> {
        let Some(peer) = self.store.peer(&message.peer).await? else {
            return Ok(Verdict::Dropped("unknown_peer"));
        };
        if peer.state != PeerState::Authorized {
            return Ok(Verdict::Dropped("not_authorised"));
        }
        let direction = self.keys.incoming();
        let nonce = message.nonce.as_bytes();
        let window = ReplayWindow::new(peer.recv_high);
        // Before the cipher: a repetition costs nothing.
        if counter_of(direction, nonce).is_none_or(|counter| window.check(counter).is_err()) {
            return Ok(Verdict::Dropped("not_opened"));
        }
        let Some(session) = self.keys.session(&peer.ed, &peer.x) else {
            return Ok(Verdict::Dropped("not_opened"));
        };
        let aad = self.keys.aad_from(&peer.ed);
        let Ok((counter, plaintext)) = session.open(direction, nonce, &aad, &message.ciphertext) else {
            return Ok(Verdict::Dropped("not_opened"));
        };
        let framed = framing::decode(plaintext);
        if matches!(framed, Ok(Framed::Json(_))) && self.store.backlog().await? >= MAX_BACKLOG {
            return Ok(Verdict::Backlog);
        }
        let mut tx = self.store.begin().await?;
        if !Store::raise_mark(&mut tx, &peer.ed, counter, now_ms).await? {
            return Ok(Verdict::Dropped("not_opened"));
        }
        let verdict = match framed {
            Ok(Framed::Json(_)) => {
                Store::keep_message(&mut tx, &peer.ed, nonce, &message.ciphertext, message.live, now_ms)
                    .await?;
                Verdict::Kept
            }
            Ok(Framed::Signal(signal)) => Verdict::Signal(signal),
            Err(_) => Verdict::Dropped("framing"),
        };
        tx.commit().await?;
        Ok(verdict)
    }
}
