//! What can go wrong, sorted by who can do something about it.

use std::path::PathBuf;

use serde::Serialize;
use skald_core_api::InboxError;

/// One field of a request or of settings that does not hold, in one plain sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field, with dots below objects; empty where the whole body is meant.
    pub field: String,
    /// What is wrong and what to write instead. Never the value itself.
    pub message: String,
}

impl FieldError {
    /// A field error.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// Why a call to the host failed. Nothing was changed in any of these cases.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was sent does not hold: one entry per field.
    #[error("{}", sentences(.0))]
    Invalid(Vec<FieldError>),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// It contradicts what stands.
    #[error("{0}")]
    Conflict(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn sentences(errors: &[FieldError]) -> String {
    errors.iter().map(|e| e.message.as_str()).collect::<Vec<_>>().join(" ")
}

impl Error {
    /// One field that does not hold.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(field, message)])
    }
}

impl From<sqlx::Error> for Error {
    fn from(e: sqlx::Error) -> Self {
        Self::Store(e.into())
    }
}

impl From<Error> for InboxError {
    fn from(e: Error) -> Self {
        match e {
            Error::Store(s) => Self::Store(s.to_string()),
            other => Self::Invalid(other.to_string()),
        }
    }
}

/// Why the database could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No space left.
    #[error("The disk is full, so nothing was changed: free some space and try again.")]
    DiskFull,
    /// The file or its folder lost its write permission.
    #[error("The database cannot be written: give the data folder back to the user Skald runs as.")]
    ReadOnly,
    /// The host is on its way down.
    #[error("Skald is stopping: try again when it is back.")]
    Stopping,
    /// Something stored cannot be understood. It is not replaced by a default.
    #[error("{0} in the database cannot be read: restore the data folder from a backup.")]
    Unreadable(String),
    /// Anything else SQLite reports.
    #[error("The database failed ({0}): look at the disk, then start Skald again.")]
    Other(String),
}

impl From<sqlx::Error> for StoreError {
    fn from(e: sqlx::Error) -> Self {
        match &e {
            sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Self::Stopping,
            sqlx::Error::Database(db) => match primary_code(db.code().as_deref()) {
                Some(13) => Self::DiskFull,
                Some(8) => Self::ReadOnly,
                Some(11 | 26) => Self::Unreadable("A page".into()),
                // SQLite's own texts name tables and conditions, never values.
                _ => Self::Other(db.message().to_owned()),
            },
            sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::StorageFull => Self::DiskFull,
            sqlx::Error::Io(io) => Self::Other(io.to_string()),
            sqlx::Error::PoolTimedOut => Self::Other("it did not answer in time".into()),
            sqlx::Error::ColumnDecode { index, .. } => Self::Unreadable(format!("Column {index}")),
            _ => Self::Other("unexpected answer".into()),
        }
    }
}

/// SQLite's extended codes carry the primary one in their low byte.
pub(crate) fn primary_code(code: Option<&str>) -> Option<u32> {
    code.and_then(|c| c.parse::<u32>().ok()).map(|c| c & 0xff)
}

/// Why the host could not open its data folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder cannot be made or written.
    #[error("The data folder {} cannot be used ({cause}): choose another with --data or change its permissions.", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// A file with secrets can be read by others.
    #[error("{} can be read by other users (mode {mode:03o}): run `chmod {wanted:03o} {}` and consider its secrets known.", .path.display(), .path.display())]
    TooOpen {
        /// The file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The mode it should have.
        wanted: u32,
    },
    /// Another process holds the folder.
    #[error("Skald is already running with the data folder {}: stop it first, or choose another with --data.", .0.display())]
    Locked(PathBuf),
    /// The database was written by a newer program.
    #[error("The database in {} was written by a newer Skald (version {found}, this one knows {known}): update Skald.", .path.display())]
    Newer {
        /// The data folder.
        path: PathBuf,
        /// The schema version found.
        found: i64,
        /// The newest one this program knows.
        known: i64,
    },
    /// The file is not a database of ours.
    #[error("{} is not a Skald database: move it away or choose another data folder with --data.", .0.display())]
    NotOurs(PathBuf),
    /// A plugin is registered wrongly; a fault in the program.
    #[error("The plugin {id} is not usable: {cause}")]
    Plugin {
        /// Its id.
        id: String,
        /// What is wrong.
        cause: String,
    },
    /// Stored settings cannot be read. They are not replaced by defaults.
    #[error("The stored settings cannot be read ({0}): restore the data folder from a backup.")]
    Settings(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
