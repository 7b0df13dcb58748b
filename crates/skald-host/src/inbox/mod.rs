//! The Inbox.
mod types;

use std::time::Duration;

use async_trait::async_trait;
use skald_core_api::{
    Actor, Answer, AnswerOutcome, Inbox, InboxError, InboxSnapshot, Notification, Principal, RequestId,
};
use tokio::sync::watch;
pub use types::*;

use crate::{Error, StoreError};

/// The Inbox: questions that wait, their answers and what became of them. Cheap to clone.
#[derive(Clone)]
pub struct InboxService(watch::Receiver<u64>, watch::Receiver<i64>);

fn later<T>() -> Result<T, Error> {
    Err(Error::Store(StoreError::Stopping))
}

impl InboxService {
    /// Asks for an approval. `source` is who asks: only it reads content back and withdraws.
    pub async fn create_approval(&self, _source: &Actor, _new: NewApproval) -> Result<Created, Error> {
        later()
    }
    /// Asks a question.
    pub async fn create_clarification(
        &self,
        _source: &Actor,
        _new: NewClarification,
    ) -> Result<Created, Error> {
        later()
    }
    /// Asks for input.
    pub async fn create_elicitation(&self, _source: &Actor, _new: NewElicitation) -> Result<Created, Error> {
        later()
    }
    /// Where a request stands now. An elicitation's content is given to its source once, here or in [`Self::wait`].
    pub async fn status(&self, _id: RequestId, _waiter: &Principal) -> Result<RequestStatus, Error> {
        later()
    }
    /// The same, but waits up to `limit` for the end. Returns early when the host stops. Cancelling it loses nothing.
    pub async fn wait(
        &self,
        _id: RequestId,
        _waiter: &Principal,
        _limit: Duration,
    ) -> Result<RequestStatus, Error> {
        later()
    }
    /// The source (or the owner) takes the question back. `Conflict` where it has ended, `NotFound` where it never was
    /// or another asked it.
    pub async fn withdraw(&self, _id: RequestId, _by: &Principal) -> Result<(), Error> {
        later()
    }
    /// One item with what became of it, pending or ended.
    pub async fn get(&self, _id: RequestId) -> Result<HistoryEntry, Error> {
        later()
    }
    /// Ended items, newest end first, at most `limit` (1 to 200), before the position `before`.
    pub async fn history(&self, _before: Option<i64>, _limit: u32) -> Result<HistoryPage, Error> {
        later()
    }
    /// Tells people something.
    pub async fn notify(&self, _source: &Actor, _title: &str, _body: &str) -> Result<Notification, Error> {
        later()
    }
}

#[async_trait]
impl Inbox for InboxService {
    async fn snapshot(&self) -> Result<InboxSnapshot, InboxError> {
        Ok(later()?)
    }
    async fn answer(
        &self,
        _id: RequestId,
        _answer: Answer,
        _by: &Actor,
    ) -> Result<AnswerOutcome, InboxError> {
        Ok(later()?)
    }
    fn revisions(&self) -> watch::Receiver<u64> {
        self.0.clone()
    }
    async fn notifications_after(&self, _seq: i64, _limit: u32) -> Result<Vec<Notification>, InboxError> {
        Ok(later()?)
    }
    fn notification_head(&self) -> watch::Receiver<i64> {
        self.1.clone()
    }
}
