//! What was put into each folder today.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::SqlitePool;

/// Milliseconds of a day; days begin at midnight UTC.
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The record. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Quota {
    db: SqlitePool,
    /// Bytes that running uploads may still write, by folder.
    promised: Arc<Mutex<HashMap<String, u64>>>,
}

/// Room for one upload. Dropped, what was not written down is free again.
pub(crate) struct Promise {
    folder: String,
    bytes: u64,
    promised: Arc<Mutex<HashMap<String, u64>>>,
}

impl Drop for Promise {
    fn drop(&mut self) {
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = promised.get_mut(&self.folder) {
            *all = all.saturating_sub(self.bytes);
        }
    }
}

impl Quota {
    /// Brings the table up to date and forgets what was before yesterday.
    pub(crate) async fn open(db: SqlitePool) -> Result<Self, sqlx::Error> {
        sqlx::query(
            "CREATE TABLE IF NOT EXISTS local_streams_uploads (
                folder TEXT NOT NULL, day INTEGER NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (folder, day)
            ) STRICT",
        )
        .execute(&db)
        .await?;
        sqlx::query("DELETE FROM local_streams_uploads WHERE day < ?").bind(today() - 1).execute(&db).await?;
        Ok(Self { db, promised: Arc::default() })
    }

    /// Room for `bytes` more, if what was put today and what is under way leave it.
    pub(crate) async fn promise(
        &self,
        folder: &str,
        bytes: u64,
        daily: u64,
    ) -> Result<Option<Promise>, sqlx::Error> {
        let used: Option<i64> =
            sqlx::query_scalar("SELECT bytes FROM local_streams_uploads WHERE folder = ? AND day = ?")
                .bind(folder)
                .bind(today())
                .fetch_optional(&self.db)
                .await?;
        let used = u64::try_from(used.unwrap_or(0)).unwrap_or(0);
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let all = promised.entry(folder.to_owned()).or_default();
        if used.saturating_add(*all).saturating_add(bytes) > daily {
            return Ok(None);
        }
        *all += bytes;
        Ok(Some(Promise { folder: folder.to_owned(), bytes, promised: self.promised.clone() }))
    }

    /// Writes down that `bytes` of a promise were used.
    pub(crate) async fn used(&self, promise: &mut Promise, bytes: u64) -> Result<(), sqlx::Error> {
        sqlx::query(
            "INSERT INTO local_streams_uploads (folder, day, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (folder, day) DO UPDATE SET bytes = bytes + ?3",
        )
        .bind(&promise.folder)
        .bind(today())
        .bind(i64::try_from(bytes).unwrap_or(i64::MAX))
        .execute(&self.db)
        .await?;
        let bytes = bytes.min(promise.bytes);
        promise.bytes -= bytes;
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = promised.get_mut(&promise.folder) {
            *all = all.saturating_sub(bytes);
        }
        Ok(())
    }
}

fn today() -> i64 {
    skald_core_api::PluginStatus::now_ms().div_euclid(DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_day_has_room_for_so_much_and_what_is_given_up_is_free_again() {
        let dir = tempfile::tempdir().unwrap();
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(dir.path().join("q.db"))
            .create_if_missing(true);
        let db = SqlitePool::connect_with(options).await.unwrap();
        let quota = Quota::open(db.clone()).await.unwrap();
        let mut first = quota.promise("a", 60, 100).await.unwrap().unwrap();
        assert!(quota.promise("a", 41, 100).await.unwrap().is_none());
        assert!(quota.promise("b", 100, 100).await.unwrap().is_some());
        quota.used(&mut first, 50).await.unwrap();
        drop(first);
        // Fifty were written, ten were given up; a restart forgets the promises and not what was written.
        for quota in [quota.clone(), Quota::open(db).await.unwrap()] {
            assert!(quota.promise("a", 51, 100).await.unwrap().is_none());
            assert!(quota.promise("a", 50, 100).await.unwrap().is_some());
        }
    }
}
