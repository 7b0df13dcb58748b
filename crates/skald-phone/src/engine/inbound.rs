//! What the relay brings.

use serde_json::Value;
use skald_payloads::{Discard, Envelope, Payload};
use skald_relay_client::{RelayEvent, SendFailure};

use super::Engine;
use crate::desk::Verdict;
use crate::out::now_ms;
use crate::wire::HostState;

impl Engine {
    /// Gives back whether the event may be acknowledged.
    pub(super) async fn event(&mut self, event: &RelayEvent) -> bool {
        match event {
            RelayEvent::Message { peer, body, live, received_at } if *peer == self.parts.agent => {
                // A live snapshot that an earlier run did not come to acknowledge is delivered again at the start. It
                // answered a question of then, so it is no news of now.
                let since = self.asked_ms.is_some_and(|asked| *received_at >= asked);
                self.marked |= *live && since;
                // A relay that marks nothing as live is known by a question that had no answer: from then on whatever
                // comes counts as one. A stale snapshot would do no harm, for the host knows what still stands.
                let answers = since && (*live || (self.unanswered && !self.marked));
                self.payload(body, answers).await
            }
            RelayEvent::PresenceChanged { peer, online } if *peer == self.parts.agent => {
                let before = self.host;
                self.host = if *online { HostState::Online } else { HostState::Offline };
                if self.host != before {
                    self.host_changed().await;
                }
                true
            }
            RelayEvent::SendFailed { peer, why } if *peer == self.parts.agent => {
                match why {
                    SendFailure::PeerOffline => self.host_is_offline().await,
                    // The connection's state tells the rest, and what is stored goes again by itself.
                    SendFailure::Disconnected => {}
                    other => self.error = Some(crate::explain::sentence(&other.to_string())),
                }
                true
            }
            _ => true,
        }
    }

    /// Checks a payload in the order of spec/payloads.md (the counter was checked below) and acts on it.
    pub(super) async fn payload(&mut self, body: &[u8], live: bool) -> bool {
        let now = now_ms();
        let (payload, ts) = match Envelope::parse(body, now) {
            Ok(envelope) if envelope.payload.is_from_agent() => (envelope.payload, envelope.ts),
            Ok(envelope) => {
                tracing::warn!(
                    kind = envelope.payload.kind(),
                    "a payload that only devices send was discarded"
                );
                return true;
            }
            Err(discard) => {
                tracing::warn!("{discard}");
                if discard == Discard::Age && live {
                    self.error = Some(
                        "This computer's clock and the host's are more than seven days apart; set the clock."
                            .into(),
                    );
                }
                return true;
            }
        };
        match payload {
            Payload::InboxUpdate(_) => {
                // Members that this version does not know belong to what is shown, digested and signed.
                let Ok(update) = serde_json::from_slice::<Value>(body) else { return true };
                self.snapshot(&update, live, now).await
            }
            Payload::Notification(note) => {
                self.parts.desk.note(&note.title, &note.body, now);
                if !self.remember() {
                    return false;
                }
                // It may stand for a snapshot that was too large to wake a phone with.
                self.request().await;
                true
            }
            Payload::Ack(ack) => {
                // What the Inbox says from now on tells whether the answer was taken.
                if self.parts.desk.read(&ack.ref_id, ts) {
                    self.request().await;
                }
                true
            }
            _ => true,
        }
    }

    pub(super) async fn snapshot(&mut self, update: &Value, live: bool, now: i64) -> bool {
        let before = self.parts.desk.outbox.clone();
        let settled = self.parts.desk.snapshot(update, live, now);
        for entry in before.iter().filter(|e| settled.over.contains(&e.request_id)) {
            if self.earlier.remove(&entry.token) {
                let verdict = self.parts.desk.concluded.iter().rev().find(|c| c.token == entry.token);
                let text = match verdict.map(|c| c.verdict) {
                    Some(Verdict::Done) => "Your earlier answer reached the host",
                    Some(Verdict::Changed) => {
                        "The request changed before your earlier answer arrived: decide anew"
                    }
                    Some(Verdict::Refused) => "Your earlier answer did not fit what was asked: answer anew",
                    _ => "Your earlier answer came too late",
                };
                self.parts.desk.note(text, &format!("{} ({})", entry.title, entry.draft.what()), now);
            }
        }
        if !self.remember() {
            return false;
        }
        for entry in before.iter().filter(|e| settled.over.contains(&e.request_id)) {
            self.confirm(&entry.token).await;
        }
        for request_id in &settled.over {
            // An entry that stays on disk is found to be over again at the next start.
            if let Err(error) = self.parts.shelf.drop_answer(request_id) {
                tracing::warn!(kind = ?error.kind(), "a confirmed answer could not be removed from the outbox");
            }
        }
        if live {
            self.host = HostState::Online;
            self.error = None;
            self.current = true;
            self.wanted = false;
            self.ask_at = None;
            self.send_waiting().await;
            if self.parts.desk.outbox.iter().any(|e| e.left) {
                self.ask_later();
            }
        } else if settled.ask_again {
            self.request().await;
        }
        true
    }
}
