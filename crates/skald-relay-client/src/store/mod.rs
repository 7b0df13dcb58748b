//! The client's SQLite store: peers and counters, messages on their way out, events not yet acknowledged.
//!
//! WAL with `synchronous=FULL`: what a call reports as written outlasts a power cut. One connection, so transactions
//! queue up instead of failing. Nothing here is a payload in clear.

mod inbound;
mod outbound;
mod peers;

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use skald_relay_common::ids::PublicKey;
use sqlx::Row as _;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Connection as _, Sqlite, Transaction};

use crate::error::StoreError;

pub(crate) use inbound::{InboundRow, InboundWhat};
pub(crate) use outbound::{NewRow, context as outbound_context};
pub(crate) use peers::{Admission, Peer, PeerState};

/// Facts in `meta`.
pub(crate) mod fact {
    /// `agent` or `device`.
    pub(crate) const ROLE: &str = "role";
    /// Rises with every change of the list of authorised devices.
    pub(crate) const REVISION: &str = "authorize_revision";
    /// Device: the relay of its agent.
    pub(crate) const RELAY_URL: &str = "relay_url";
    /// Device: its agent's signing key.
    pub(crate) const AGENT: &str = "agent";
    /// Device: the relay took the pairing token.
    pub(crate) const PAIRED: &str = "paired";
    /// Device: it was let in at least once.
    pub(crate) const ADMITTED: &str = "admitted";
}

pub(crate) type Tx<'a> = Transaction<'a, Sqlite>;

/// The store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Store {
    pool: SqlitePool,
}

impl Store {
    /// Opens the store, making it (readable by the owner alone) and migrating it as needed.
    pub(crate) async fn open(path: &Path) -> Result<Self, StoreError> {
        // Made here so that it never exists with a wider mode; SQLite gives its companions the same one.
        let mut create = OpenOptions::new();
        create.create(true).truncate(false).write(true).mode(0o600);
        let file = create.open(path).map_err(|e| StoreError::from(sqlx::Error::Io(e)))?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))
            .map_err(|e| StoreError::from(sqlx::Error::Io(e)))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(std::time::Duration::from_secs(5))
            .pragma("secure_delete", "ON");
        let pool = SqlitePoolOptions::new()
            .min_connections(1)
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            // SQLite itself undoes a transaction that meets a full disk. What then undoes it again fails, and the
            // connection counts as inside a transaction for ever: such a one is replaced.
            .before_acquire(|connection, _| Box::pin(async { Ok(!connection.is_in_transaction()) }))
            .connect_with(options)
            .await?;
        sqlx::migrate!("./migrations").run(&pool).await?;
        Ok(Self { pool })
    }

    pub(crate) async fn begin(&self) -> Result<Tx<'static>, StoreError> {
        Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?)
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) async fn fact(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let row =
            sqlx::query("SELECT value FROM meta WHERE key = ?").bind(key).fetch_optional(&self.pool).await?;
        Ok(row.map(|r| r.try_get(0)).transpose()?)
    }

    pub(crate) async fn set_fact(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        set_fact(&mut tx, key, value).await?;
        Ok(tx.commit().await?)
    }

    /// Notes the role on first use and says whether it is this one.
    pub(crate) async fn claim_role(&self, role: &str) -> Result<bool, StoreError> {
        match self.fact(fact::ROLE).await? {
            Some(found) => Ok(found == role.as_bytes()),
            None => {
                self.set_fact(fact::ROLE, role.as_bytes()).await?;
                Ok(true)
            }
        }
    }
}

pub(crate) async fn set_fact(tx: &mut Tx<'_>, key: &str, value: &[u8]) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    )
    .bind(key)
    .bind(value)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A 32-byte column as a key. The table's checks make another length impossible, and a damaged file an error.
fn key<T: for<'a> TryFrom<&'a [u8]>>(row: &SqliteRow, column: &str) -> Result<T, sqlx::Error> {
    let bytes: Vec<u8> = row.try_get(column)?;
    T::try_from(&bytes).map_err(|_| sqlx::Error::Decode("a key of a wrong length".into()))
}

fn bytes(key: &PublicKey) -> &[u8] {
    key.as_bytes().as_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_disk_is_over_once_there_is_room_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("peers.db")).await.unwrap();
        for _ in 0..3 {
            let mut tx = store.begin().await.unwrap();
            // The file may not grow by a page: SQLite meets that as it does a full disk.
            sqlx::query("PRAGMA max_page_count = 1").execute(&mut *tx).await.unwrap();
            set_fact(&mut tx, "big", &[0; 1_000_000]).await.unwrap_err();
        }
        store.set_fact("big", &[1; 1_000_000]).await.unwrap();
        assert_eq!(store.fact("big").await.unwrap().map(|v| v.len()), Some(1_000_000));
    }
}
