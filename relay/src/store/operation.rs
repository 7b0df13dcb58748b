//! What can be asked of the writer, and its answers.

use skald_relay_common::frame::Platform;
use skald_relay_common::ids::{NamespaceId, PairingToken, PublicKey};
use tokio::sync::oneshot;

use super::fair::Then;
use super::{AfterCommit, Claim, Envelope, Opened, Paired, Position, Queued, StoreError};

/// About what a row takes beside a ciphertext: keys, nonce, times, and their share of the indices.
pub(super) const ROW: usize = 256;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Something to be written, with where the answer goes.
pub(super) enum Operation {
    Open {
        id: NamespaceId,
        reply: Reply<bool>,
    },
    /// `may_make`: a namespace that does not exist is made.
    OpenForAgent {
        id: NamespaceId,
        agent: PublicKey,
        may_make: bool,
        reply: Reply<Opened>,
    },
    Touch {
        id: NamespaceId,
        reply: Reply<()>,
    },
    DeviceSeen {
        namespace: NamespaceId,
        key: PublicKey,
        token: String,
        platform: Platform,
        reply: Reply<()>,
    },
    ForgetToken {
        namespace: NamespaceId,
        key: PublicKey,
        token: String,
        dead_since: Option<i64>,
        reply: Reply<()>,
    },
    StartPairing {
        namespace: NamespaceId,
        token: PairingToken,
        ttl_secs: u32,
        reply: Reply<()>,
    },
    StopPairing {
        namespace: NamespaceId,
        reply: Reply<()>,
    },
    Pair {
        claim: Box<Claim>,
        reply: Reply<Paired>,
    },
    Authorize {
        namespace: NamespaceId,
        list: Vec<PublicKey>,
        reply: Reply<u32>,
    },
    Enqueue {
        envelope: Envelope,
        reply: Reply<Queued>,
    },
    Confirm {
        namespace: NamespaceId,
        recipient: PublicKey,
        through: Position,
        reply: Reply<()>,
    },
    Sweep {
        reply: Reply<bool>,
    },
}

impl Operation {
    /// Whose turn it takes; `None` for the relay's own chores.
    pub(super) fn namespace(&self) -> Option<NamespaceId> {
        match self {
            Self::Open { id, .. } | Self::OpenForAgent { id, .. } | Self::Touch { id, .. } => Some(*id),
            Self::DeviceSeen { namespace, .. }
            | Self::ForgetToken { namespace, .. }
            | Self::StartPairing { namespace, .. }
            | Self::StopPairing { namespace, .. }
            | Self::Authorize { namespace, .. }
            | Self::Confirm { namespace, .. } => Some(*namespace),
            Self::Pair { claim, .. } => Some(claim.namespace),
            Self::Enqueue { envelope, .. } => Some(envelope.namespace),
            Self::Sweep { .. } => None,
        }
    }

    /// About how much it writes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Enqueue { envelope, .. } => ROW + envelope.ciphertext.len(),
            Self::Authorize { list, .. } => ROW * (1 + list.len()),
            _ => ROW,
        }
    }

    /// After an operation by which membership changes, what follows must be judged by the new one.
    pub(super) fn then(&self) -> Then {
        match self {
            Self::Authorize { .. } => Then::OtherLanes,
            Self::Sweep { .. } => Then::Nothing,
            _ => Then::Anything,
        }
    }

    /// Whether a namespace that has more waiting than its share may be told to come again.
    pub(super) fn may_be_refused(&self) -> bool {
        matches!(self, Self::Enqueue { .. })
    }

    /// Answers that its namespace has too much waiting.
    pub(super) fn refuse(self) {
        match self {
            Self::Enqueue { reply, .. } => drop(reply.send(Ok(Queued::Busy))),
            other => other.fail(StoreError::Corrupt("operation")),
        }
    }

    /// Answers that it failed.
    pub(super) fn fail(self, error: StoreError) {
        fn tell<T>(reply: Reply<T>, error: StoreError) {
            // Who no longer listens needs no answer.
            let _ = reply.send(Err(error));
        }
        match self {
            Self::Open { reply, .. } | Self::Sweep { reply } => tell(reply, error),
            Self::OpenForAgent { reply, .. } => tell(reply, error),
            Self::Touch { reply, .. }
            | Self::DeviceSeen { reply, .. }
            | Self::ForgetToken { reply, .. }
            | Self::StartPairing { reply, .. }
            | Self::StopPairing { reply, .. }
            | Self::Confirm { reply, .. } => tell(reply, error),
            Self::Pair { reply, .. } => tell(reply, error),
            Self::Authorize { reply, .. } => tell(reply, error),
            Self::Enqueue { reply, .. } => tell(reply, error),
        }
    }
}

/// What is told once the commit is on disk.
pub(super) type Told = Box<dyn FnOnce(&dyn AfterCommit) + Send>;

/// What an operation gives back.
pub(super) enum Answer {
    Done,
    Found(bool),
    Opened(Opened),
    Paired(Paired),
    Authorized(u32),
    Queued(Queued),
    More(bool),
}

impl Answer {
    pub(super) fn reply_to(self, operation: Operation) -> Told {
        fn tell<T>(reply: Reply<T>, value: T) {
            let _ = reply.send(Ok(value));
        }
        Box::new(move |_| match (operation, self) {
            (Operation::Open { reply, .. }, Self::Found(found)) => tell(reply, found),
            (Operation::OpenForAgent { reply, .. }, Self::Opened(opened)) => tell(reply, opened),
            (Operation::Sweep { reply }, Self::More(more)) => tell(reply, more),
            (Operation::Pair { reply, .. }, Self::Paired(paired)) => tell(reply, paired),
            (Operation::Authorize { reply, .. }, Self::Authorized(count)) => tell(reply, count),
            (Operation::Enqueue { reply, .. }, Self::Queued(queued)) => tell(reply, queued),
            (
                Operation::Touch { reply, .. }
                | Operation::DeviceSeen { reply, .. }
                | Operation::ForgetToken { reply, .. }
                | Operation::StartPairing { reply, .. }
                | Operation::StopPairing { reply, .. }
                | Operation::Confirm { reply, .. },
                Self::Done,
            ) => tell(reply, ()),
            // `apply` gives each operation its own kind of answer.
            (operation, _) => operation.fail(StoreError::Corrupt("answer")),
        })
    }
}
