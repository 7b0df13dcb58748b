//! What outlives a restart: namespaces, clients and waiting messages, in SQLite.
//!
//! One task writes. It gathers whatever is waiting, up to 128 operations, into one transaction that is synced to disk,
//! and only then answers those who wait (relay-server "Delivery" 1). What other parts of the relay have to learn of a
//! commit they learn from that task, in the order of the commits: see [`AfterCommit`].

mod checkpoints;
mod fair;
mod mailbox;
mod operation;
mod operations;
mod queries;
mod reader;
mod room;
pub(crate) mod schema;
mod sweep;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upkeep_tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use skald_relay_common::frame::{AuthPairing, ClientPaired, Message, Platform};
use skald_relay_common::ids::{MessageNonce, NamespaceId, PublicKey};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::private;

pub(crate) use operations::{Store, WriterTask};
pub(crate) use reader::Waiting;

/// A message's place in the queue. Later messages have higher ones, across all recipients.
pub(crate) type Position = u64;

/// The database did not do what it was asked. The cause is in the log; peers learn `internal`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// SQLite or the disk failed.
    #[error("the database failed: {0}")]
    Database(Arc<sqlx::Error>),
    /// The writer has ended, for the relay is shutting down.
    #[error("the relay is shutting down")]
    Closed,
    /// Something stored is not what this version writes.
    #[error("the database holds a {0} of the wrong form")]
    Corrupt(&'static str),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder or a file in it is not usable.
    #[error("cannot use {path} ({cause}): name another data folder, or change its permissions")]
    Folder {
        /// Which folder or file.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// Another relay works on the same folder.
    #[error("another relay is using the data folder {0}: stop it first, or name another folder")]
    Locked(PathBuf),
    /// A newer relay has written it.
    #[error(
        "the database {path} was written by a newer relay (its version is {found}, this program knows {known}): install \
         that relay again, or restore the backup that was made before the upgrade"
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version that this program writes.
        known: i64,
    },
    /// It is a database, and not a relay's.
    #[error("{0} is not a relay's database: name another data folder")]
    Foreign(PathBuf),
    /// SQLite cannot open or migrate the database.
    #[error("cannot open the database {path}: {cause}")]
    Database {
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: sqlx::Error,
    },
}

/// The wall clock in milliseconds, replaceable for tests.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::from_fn(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    }

    /// Another clock.
    pub fn from_fn(now: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> i64 {
        (self.0)()
    }
}

/// A namespace as it is stored, without its queue.
#[derive(Debug, Clone)]
pub(crate) struct NamespaceRecord {
    pub(crate) id: NamespaceId,
    pub(crate) agent: PublicKey,
    pub(crate) authorized: Vec<PublicKey>,
    pub(crate) pending: Vec<ClientPaired>,
    /// The last position that was given when this was read.
    pub(crate) announced: Position,
}

/// A message to be queued for `to`.
#[derive(Clone)]
pub(crate) struct Envelope {
    pub(crate) namespace: NamespaceId,
    pub(crate) to: PublicKey,
    pub(crate) from: PublicKey,
    pub(crate) nonce: MessageNonce,
    pub(crate) ciphertext: Bytes,
}

impl Envelope {
    /// The message as its recipient gets it: `peer` says from whom (relay-protocol §6.2).
    pub(crate) fn delivered(&self) -> Message {
        Message { peer: self.from, nonce: self.nonce, ciphertext: self.ciphertext.clone(), live: false }
    }
}

/// What became of an [`Envelope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    /// It is on disk.
    Durable,
    /// The recipient is not in this namespace.
    NotFound,
    /// As many messages as are allowed wait for this recipient already.
    Full,
    /// This namespace has too much waiting to be written.
    Busy,
    /// The database is as large as it may be.
    NoRoom,
}

/// What became of an agent's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It existed.
    Known,
    /// It was made.
    Made,
    /// It does not exist and may not be made.
    Missing,
}

/// What became of a pairing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paired {
    /// The device is registered, and waits for the agent's decision unless that was given before.
    Registered,
    /// No window is open, or the token is wrong, spent or expired.
    Closed,
}

/// What the push side needs of an absent device.
pub(crate) struct AbsentDevice {
    pub(crate) token: String,
    pub(crate) platform: Platform,
    pub(crate) newest: Message,
    /// When that was queued, in milliseconds since 1970.
    pub(crate) queued_at: i64,
}

/// Told by the writer what was committed, in the order of the commits, before those who wait are answered.
pub(crate) trait AfterCommit: Send + Sync {
    /// Whether the key may receive messages in this namespace.
    fn is_member(&self, namespace: &NamespaceId, key: &PublicKey) -> bool;
    /// Whether anything is connected in this namespace, so that it must not be swept.
    fn is_alive(&self, namespace: &NamespaceId) -> bool;
    /// A message is durable and may be offered.
    fn queued(&self, position: Position, envelope: &Envelope);
    /// The agent's list is now this one, and these keys are on it no more.
    fn authorized(&self, namespace: &NamespaceId, list: &[PublicKey], revoked: &[PublicKey]);
    /// A device has paired.
    fn paired(&self, namespace: &NamespaceId, client: &ClientPaired);
    /// A namespace was opened.
    fn opened(&self, record: &NamespaceRecord);
}

/// A pairing device's claim, as the session checked it.
pub(crate) type Claim = AuthPairing;

/// The database's file in the data folder.
pub(crate) const DATABASE: &str = "relay.db";

/// Takes the data folder for this process alone, for as long as the file lives. The folder is made where it is missing.
pub(crate) fn lock_folder(folder: &Path) -> Result<std::fs::File, OpenError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |cause| OpenError::Folder { path, cause }
    };
    private::folder(folder).map_err(fail(folder))?;
    let path = folder.join("relay.lock");
    let lock = private::file(&path).map_err(fail(&path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => Err(OpenError::Locked(folder.to_owned())),
        Err(std::fs::TryLockError::Error(cause)) => Err(fail(&path)(cause)),
    }
}

/// Prepares the folder and gives the options with which every connection is opened.
fn prepare(folder: &Path) -> Result<(SqliteConnectOptions, std::fs::File), OpenError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |cause| OpenError::Folder { path, cause }
    };
    let lock = lock_folder(folder)?;
    let path = folder.join(DATABASE);
    // SQLite gives its journal the mode of the database, so that one is made first.
    private::file(&path).map_err(fail(&path))?;
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .statement_cache_capacity(64)
        // Checkpoints run beside the writer, never inside a commit.
        .pragma("wal_autocheckpoint", "0");
    Ok((options, lock))
}
