//! The Inbox as a plugin sees it.

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{Actor, Answer, Approval, Clarification, Elicitation, Outcome, RequestId};

/// All that is pending, oldest first, and the revision it shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InboxSnapshot {
    /// Rises with every change; equal revisions mean equal content.
    pub revision: u64,
    /// Pending approvals.
    pub approvals: Vec<Approval>,
    /// Pending clarifications.
    pub clarifications: Vec<Clarification>,
    /// Pending elicitations.
    pub elicitations: Vec<Elicitation>,
}

impl InboxSnapshot {
    /// How many items are pending.
    pub fn badge(&self) -> usize {
        self.approvals.len() + self.clarifications.len() + self.elicitations.len()
    }
}

/// Something a source told the person. Kept until its retention ends, numbered without reuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Position in the log of notifications; rises by at least 1.
    pub seq: i64,
    /// One line.
    pub title: String,
    /// More text, perhaps empty.
    pub body: String,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerOutcome {
    /// It resolved the item.
    Resolved,
    /// The item had ended before; the answer was recorded as late and changed nothing.
    Late {
        /// The outcome that stands; `None` where the item expired or was withdrawn.
        standing: Option<Outcome>,
        /// `resolved`, `expired` or `cancelled`.
        state: String,
    },
    /// No such item.
    Unknown,
}

/// Why the Inbox could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The answer is not of the item's kind, or its content does not fit; the text says what to send instead.
    #[error("{0}")]
    Invalid(String),
    /// The store failed. Nothing was changed.
    #[error("the Inbox could not be read or written: {0}")]
    Store(String),
}

/// The Inbox. Changes are announced by a counter, never by a message that could be lost: whoever sees it move takes
/// a new snapshot.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// All that is pending now.
    async fn snapshot(&self) -> Result<InboxSnapshot, InboxError>;
    /// Answers an item; the first answer wins, durably.
    async fn answer(&self, id: RequestId, answer: Answer, by: &Actor) -> Result<AnswerOutcome, InboxError>;
    /// Moves whenever the pending items change.
    fn revisions(&self) -> watch::Receiver<u64>;
    /// Notifications after `seq`, oldest first, at most `limit`.
    async fn notifications_after(&self, seq: i64, limit: u32) -> Result<Vec<Notification>, InboxError>;
    /// The newest notification's position, 0 where there is none. Moves with every notification.
    fn notification_head(&self) -> watch::Receiver<i64>;
}
