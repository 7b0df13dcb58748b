//! What a connection asks of the store, one thing of a kind at a time.

use std::sync::Arc;

use super::{Done, Driver};
use crate::session::machine::{Answer, Event, Request};
use crate::session::tally;
use crate::store::Envelope;

impl Driver {
    pub(super) fn ask(&mut self, request: Request) {
        let Some(member) = &self.member else { return };
        let (store, namespace) = (self.shared.store.clone(), *member.namespace.id());
        let counts = Arc::clone(&self.shared.counts);
        let (me, agent) = (member.key, *member.namespace.agent());
        self.work.push(Box::pin(async move {
            let answer = match request {
                Request::Authorize(mut list) => {
                    // The agent is a member by its key and never one of its own clients.
                    list.retain(|key| *key != agent);
                    store.authorize(namespace, list).await.map(Answer::Authorized)
                }
                Request::StartPairing(token, ttl) => {
                    store.start_pairing(namespace, token, ttl).await.map(|()| Answer::PairingStarted(ttl))
                }
                Request::StopPairing => store.stop_pairing(namespace).await.map(|()| Answer::PairingStopped),
                Request::Enqueue(message) => {
                    let (to, nonce, ciphertext) = (message.peer, message.nonce, message.ciphertext);
                    let envelope = Envelope { namespace, to, from: me, nonce, ciphertext };
                    let queued = store.enqueue(envelope).await;
                    tally::queued(&counts, &queued);
                    queued.map(Answer::Queued)
                }
            };
            Done::Event(Event::Answered(answer.unwrap_or(Answer::Failed)))
        }));
    }

    pub(super) fn start_read(&mut self) {
        let (Some(member), Some(range)) = (&self.member, self.read.take()) else { return };
        let (store, namespace, key) = (self.shared.store.clone(), *member.namespace.id(), member.key);
        let members = Arc::clone(&member.namespace);
        self.work.push(Box::pin(async move {
            // It is never closed; members of a namespace wait for one another, not for other namespaces.
            let _turn = members.reads.acquire().await;
            Done::Event(match store.waiting(&namespace, &key, range).await {
                Ok(waiting) => Event::Batch(waiting.messages, waiting.more),
                Err(error) => {
                    tracing::error!(%error, "a queue cannot be read");
                    Event::Failed
                }
            })
        }));
    }

    pub(super) fn start_confirm(&mut self) {
        if self.confirming {
            return;
        }
        let (Some(member), Some(through)) = (&self.member, self.confirm.take()) else { return };
        self.confirming = true;
        let (store, namespace, key) = (self.shared.store.clone(), *member.namespace.id(), member.key);
        self.work.push(Box::pin(async move {
            match store.confirm(namespace, key, through).await {
                Ok(()) => Done::Confirmed,
                Err(_) => Done::Event(Event::Failed),
            }
        }));
    }
}
