//! Errors of the library's operations.

use std::path::PathBuf;
use std::sync::Arc;

use crate::net::RelayUrlError;
use crate::seed::SeedError;
use crate::status::LinkProblem;

/// The client cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is not one of a relay.
    #[error(transparent)]
    RelayUrl(#[from] RelayUrlError),
    /// The folder cannot be made or used.
    #[error("the folder {dir} cannot be used: {source}", dir = dir.display())]
    Folder {
        /// Which folder.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process uses the folder. Two would use the same counters twice.
    #[error("the folder {} is in use by another process; stop it first", .0.display())]
    InUse(PathBuf),
    /// The seed is missing, damaged or readable by others.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file of certificate authorities cannot be read.
    #[error("the certificate authority file {path} cannot be used: {reason}", path = path.display())]
    Ca {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Device: nothing was paired in this folder.
    #[error("this device is not paired yet; scan the host's pairing code first")]
    NotPaired,
    /// The folder is an agent's and was opened as a device's, or the other way round.
    #[error("the folder {} belongs to the other role", .0.display())]
    OtherRole(PathBuf),
}

/// The store failed. Nothing was changed by the operation that reports it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the store of the relay connection failed: {0}")]
pub struct StoreError(pub(crate) Arc<sqlx::Error>);

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        Self(Arc::new(sqlx::Error::Migrate(Box::new(error))))
    }
}

/// A message could not be taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A live message needs a connection.
    #[error("there is no connection to the relay at the moment")]
    NotConnected,
    /// A live message needs its recipient.
    #[error("the recipient is not connected at the moment")]
    PeerOffline,
    /// No authorised peer of that key.
    #[error("the recipient is not an authorised device")]
    UnknownPeer,
    /// It does not fit, even compressed. Shrink or split it.
    #[error("the message is too large: {len} bytes sealed, at most {max} fit")]
    TooLarge {
        /// Its length, sealed.
        len: usize,
        /// What fits.
        max: usize,
    },
    /// Too much waits for this recipient already.
    #[error("too many messages wait for this recipient")]
    QueueFull,
    /// Random numbers are not to be had.
    #[error("the operating system gives no random numbers")]
    Random,
    /// The store failed; the message was not taken over.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client was shut down.
    #[error("the relay connection was shut down")]
    Stopped,
}

/// A pairing window could not be opened or closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairingError {
    /// Pairing needs the relay.
    #[error("pairing needs a connection to the relay, and there is none: {}", .0.as_ref().map_or_else(|| "it is being set up; try again in a moment".to_owned(), ToString::to_string))]
    NotConnected(Option<LinkProblem>),
    /// The relay refused.
    #[error("the relay refused to open a pairing window ({0}); try again in a minute")]
    Refused(String),
    /// Another call opened a window meanwhile, and this one is void.
    #[error("another pairing window was opened in its place")]
    Superseded,
    /// Only an agent pairs.
    #[error("only the host opens a pairing window")]
    NotAgent,
    /// Random numbers are not to be had.
    #[error("the operating system gives no random numbers")]
    Random,
    /// The client was shut down.
    #[error("the relay connection was shut down")]
    Stopped,
}

/// A device could not be listed, authorised or revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No device of that key.
    #[error("no device of this key was paired")]
    Unknown,
    /// Only an agent decides about devices.
    #[error("only the host decides about devices")]
    NotAgent,
    /// The store failed; nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client was shut down.
    #[error("the relay connection was shut down")]
    Stopped,
}

/// A pipe could not be opened, or broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipeError {
    /// The invitation or the answer could not be sent.
    #[error(transparent)]
    Signal(#[from] SendError),
    /// The peer said no.
    #[error("the other end refused the pipe: {0}")]
    Rejected(String),
    /// The peer did not answer.
    #[error("the other end did not answer the invitation in time")]
    NoAnswer,
    /// The relay refused the invitation with this code.
    #[error("the relay did not pass the invitation on ({0})")]
    Refused(String),
    /// So many messages were sent in the last minute that the invitation had to wait, in vain.
    #[error("too many messages were sent in the last minute; the pipe can be opened in a moment")]
    Paced,
    /// The invitation is no longer open.
    #[error("the invitation has expired or was answered already")]
    Expired,
    /// The data connection could not be made.
    #[error("{0}")]
    Connect(LinkProblem),
    /// A key of the other end is not usable, or a frame did not open.
    #[error("the pipe's encryption failed, and the pipe is closed")]
    Cipher,
    /// The connection broke, or went silent.
    #[error("the pipe broke: {0}")]
    Broken(&'static str),
    /// The connection ended before the other end had finished what it was sending. Only where `half-close` was agreed.
    #[error("the pipe ended before the other end had finished")]
    Truncated,
    /// [`crate::RelayClient::accept_streams`] on an invitation that does not offer them.
    #[error("the other end offers no pipe of many streams")]
    NotOffered,
    /// This end closed it, or the device was revoked.
    #[error("the pipe is closed")]
    Closed,
}

impl From<PipeError> for std::io::Error {
    fn from(error: PipeError) -> Self {
        let kind = match error {
            PipeError::Closed => std::io::ErrorKind::BrokenPipe,
            PipeError::Cipher => std::io::ErrorKind::InvalidData,
            PipeError::Truncated => std::io::ErrorKind::UnexpectedEof,
            _ => std::io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, error)
    }
}
