//! Answers: checked, made durable, then sent, and sent again until a snapshot confirms them.

use skald_payloads::{Digest, Envelope};
use uuid::Uuid;

use super::Engine;
use crate::desk::{Entry, title};
use crate::draft::Draft;
use crate::failure::{Failure, Outcome};
use crate::out::now_ms;
use crate::wire::Link;

impl Engine {
    /// Checks an answer and makes it durable. Nothing is sent before.
    pub(super) fn take(&mut self, request_id: &str, digest: Option<&str>, draft: &Draft) -> Outcome<String> {
        let parts = &mut self.parts;
        let Some(item) = parts.desk.check(request_id, digest, draft)? else {
            // The same answer is on its way already; whoever asks now waits for it.
            let token =
                parts.desk.outbox.iter().find(|e| e.request_id == request_id).map(|e| e.token.clone());
            let token = token.ok_or_else(crate::desk::gone)?;
            self.earlier.remove(&token);
            return Ok(token);
        };
        let id = Uuid::new_v4();
        let own: Option<Digest> = item.digest();
        let payload = draft.payload(request_id, own, &parts.identity, &parts.namespace);
        let body = Envelope::new(id, now_ms(), payload).encode();
        if !fits(&body) {
            return Err(Failure::usage("The answer is too long to be sent; shorten it."));
        }
        let entry = Entry {
            token: id.to_string(),
            request_id: request_id.to_owned(),
            draft: draft.clone(),
            digest: own.map(|d| d.to_string()),
            payload: String::from_utf8(body).unwrap_or_default(),
            title: title(item),
            expires_at: item.time("expires_at"),
            left: false,
        };
        parts.shelf.keep(&entry)?;
        let token = entry.token.clone();
        parts.desk.take(entry);
        Ok(token)
    }

    /// Sends every answer that has not left yet. That it may have left is durable before it can.
    pub(super) async fn send_waiting(&mut self) {
        if self.link != Link::Connected {
            return;
        }
        let waiting: Vec<Entry> = self.parts.desk.outbox.iter().filter(|e| !e.left).cloned().collect();
        for mut entry in waiting {
            entry.left = true;
            if let Err(failure) = self.parts.shelf.keep(&entry) {
                self.error = Some(failure.sentence);
                return;
            }
            self.dispatch(&entry).await;
            self.parts.desk.take(entry);
        }
    }

    /// Brings the client's outbox and this one together after a start: a crash may have come between the two.
    pub(super) async fn reconcile(&mut self) {
        let known = match self.parts.client.outbox().await {
            Ok(known) => known,
            Err(error) => {
                self.error = Some(crate::explain::sentence(&error.to_string()));
                return;
            }
        };
        let lost: Vec<Entry> =
            self.parts.desk.outbox.iter().filter(|e| e.left && !known.contains(&e.token)).cloned().collect();
        for entry in lost {
            self.dispatch(&entry).await;
        }
        for token in known {
            if !self.parts.desk.outbox.iter().any(|e| e.token == token) {
                self.confirm(&token).await;
            }
        }
    }

    /// The client sends it no more.
    pub(super) async fn confirm(&self, token: &str) {
        if let Err(error) = self.parts.client.outbox_confirm(token).await {
            tracing::warn!(%error, "a confirmed answer stays in the relay connection's outbox until the next start");
        }
    }

    pub(super) async fn dispatch(&mut self, entry: &Entry) {
        let body = entry.payload.clone().into_bytes();
        // From here on the client keeps it too, and sends it again after reconnections until it is confirmed. The host
        // knows it by its payload's id.
        match self.parts.client.outbox_put(&entry.token, body).await {
            Ok(()) => self.ask_later(),
            Err(error) => self.error = Some(crate::explain::sentence(&error.to_string())),
        }
    }
}

/// Whether a stored message can carry `body`, as framing and sealing leave it (spec framing).
fn fits(body: &[u8]) -> bool {
    skald_payloads::fits_stored(skald_e2e::framing::encode_json(body).len())
}
