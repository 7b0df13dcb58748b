//! The database: one file, one writer at a time, durable before anything is announced.

mod folder;
mod migrate;

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection as _, Sqlite, SqliteConnection, Transaction};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;

use crate::{Error, OpenError, StoreError};

const CLOSE: Duration = Duration::from_secs(10);

/// The database and the tasks that write to it.
pub(crate) struct Store {
    pool: SqlitePool,
    /// SQLite has one writer; waiting here is fair and wakes at once, where its own busy handler sleeps.
    writer: Mutex<()>,
    tasks: TaskTracker,
}

/// The data folder, held by this process.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    lock: std::sync::Mutex<Option<std::fs::File>>,
}

impl Folder {
    /// Lets another process have the folder.
    pub(crate) fn release(&self) {
        // Closing the file gives up the lock.
        drop(self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
    }
}

/// A write under way; without [`WriteTx::commit`] nothing of it happened.
pub(crate) struct WriteTx<'a> {
    tx: Transaction<'static, Sqlite>,
    _turn: MutexGuard<'a, ()>,
}

impl Deref for WriteTx<'_> {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        &self.tx
    }
}

impl DerefMut for WriteTx<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}

impl WriteTx<'_> {
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        Ok(self.tx.commit().await?)
    }
}

impl Store {
    /// Takes the folder and opens the database in it, brought up to date.
    pub(crate) async fn open(data_dir: &Path) -> Result<(Self, Folder), OpenError> {
        let lock = folder::prepare(data_dir)?;
        let db = data_dir.join(folder::DATABASE);
        let options = SqliteConnectOptions::new()
            .filename(&db)
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10));
        let pool = SqlitePoolOptions::new()
            .max_connections(6)
            .acquire_timeout(Duration::from_secs(20))
            // SQLite itself undoes a transaction that meets a full disk. What then undoes it again fails, and the
            // connection counts as inside a transaction for ever: such a one is replaced.
            .before_acquire(|connection, _| Box::pin(async { Ok(!connection.is_in_transaction()) }))
            .connect_with(options)
            .await
            .map_err(|e| match &e {
                sqlx::Error::Database(d)
                    if matches!(crate::error::primary_code(d.code().as_deref()), Some(26 | 11)) =>
                {
                    OpenError::NotOurs(db.clone())
                }
                _ => OpenError::Store(e.into()),
            })?;
        if let Err(e) = migrate::run(&pool, data_dir).await {
            pool.close().await;
            return Err(e);
        }
        let store = Self { pool, writer: Mutex::new(()), tasks: TaskTracker::new() };
        let folder = Folder { path: data_dir.to_owned(), lock: std::sync::Mutex::new(Some(lock)) };
        Ok((store, folder))
    }

    pub(crate) fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Begins a write; it has the database to itself until it is committed or dropped.
    pub(crate) async fn write(&self) -> Result<WriteTx<'_>, StoreError> {
        let turn = self.writer.lock().await;
        let tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        Ok(WriteTx { tx, _turn: turn })
    }

    /// Begins a read that sees one state of the database.
    pub(crate) async fn read(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        Ok(self.pool.begin().await?)
    }

    /// Runs a change to its end even if the caller goes away, so that what was committed is also announced.
    pub(crate) async fn durably<T, F>(&self, change: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        match self.tasks.spawn(change).await {
            Ok(result) => result,
            Err(e) if e.is_panic() => Err(StoreError::Other("a fault in Skald".into()).into()),
            Err(_) => Err(StoreError::Stopping.into()),
        }
    }

    /// Waits for running changes and closes the database.
    pub(crate) async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        // A plugin that was left behind may hold a connection for ever.
        if tokio::time::timeout(CLOSE, self.pool.close()).await.is_err() {
            tracing::error!("the database was not given back by a plugin in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_disk_is_over_once_there_is_room_again() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _folder) = Store::open(dir.path()).await.unwrap();
        sqlx::query("CREATE TABLE filler (x BLOB)").execute(store.pool()).await.unwrap();
        let fill = "INSERT INTO filler VALUES (zeroblob(1000000))";
        for _ in 0..10 {
            let mut tx = store.write().await.unwrap();
            // The file may not grow by a page: SQLite meets that as it does a full disk.
            sqlx::query("PRAGMA max_page_count = 1").execute(&mut *tx).await.unwrap();
            let full = sqlx::query(fill).execute(&mut *tx).await.unwrap_err();
            assert!(matches!(StoreError::from(full), StoreError::DiskFull));
        }
        let mut tx = store.write().await.unwrap();
        sqlx::query(fill).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        let rows: i64 =
            sqlx::query_scalar("SELECT count(*) FROM filler").fetch_one(store.pool()).await.unwrap();
        assert_eq!(rows, 1);
    }
}
