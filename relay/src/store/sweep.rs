//! Deleting what is out of date, a bounded number of rows at a time, so that the writer is never held up for long.

use skald_relay_common::ids::NamespaceId;
use sqlx::sqlite::SqliteConnection;

use super::{AfterCommit, StoreError, queries};

/// How many rows one transaction touches at most.
pub(super) const BATCH: i64 = 500;

/// What one sweep did.
pub(super) struct Swept {
    /// Messages that had waited for as long as they may.
    pub(super) expired: u64,
    /// Messages of namespaces that are gone.
    pub(super) dropped: u64,
    /// There may be more.
    pub(super) more: bool,
}

/// Sweeps one batch and says whether there may be more. Times are in milliseconds.
pub(super) async fn batch(
    db: &mut SqliteConnection,
    after: &dyn AfterCommit,
    now: i64,
    queue_limit: i64,
    namespace_limit: i64,
) -> Result<Swept, StoreError> {
    let (mut left, mut dropped) = (BATCH, 0);
    let messages = expired_messages(db, queue_limit, left).await?;
    left -= messages;
    left -= ended_windows(db, now, left).await?;
    let mut namespaces = 0;
    for id in idle_namespaces(db, namespace_limit, left).await? {
        if left <= 0 {
            break;
        }
        if after.is_alive(&id) {
            queries::touch(db, &id, now).await?;
            left -= 1;
            continue;
        }
        for contents in [
            "DELETE FROM queue WHERE id IN (SELECT id FROM queue WHERE namespace = ? LIMIT ?)",
            "DELETE FROM clients WHERE (namespace, key) IN (SELECT namespace, key FROM clients WHERE namespace = ? LIMIT ?)",
        ] {
            let gone = sqlx::query(contents).bind(&id.as_bytes()[..]).bind(left).execute(&mut *db).await?;
            left -= i64::try_from(gone.rows_affected()).unwrap_or(i64::MAX);
            dropped += if contents.starts_with(queries::QUEUE) { gone.rows_affected() } else { 0 };
        }
        // With nothing left of the batch there may be more in this namespace, which the next one takes.
        if left > 0 {
            sqlx::query("DELETE FROM namespaces WHERE id = ?")
                .bind(&id.as_bytes()[..])
                .execute(&mut *db)
                .await?;
            left -= 1;
            namespaces += 1;
        }
    }
    if left < BATCH {
        tracing::info!(rows = BATCH - left, messages, namespaces, "swept what is out of date");
    }
    Ok(Swept { expired: messages.unsigned_abs(), dropped, more: left < BATCH })
}

async fn expired_messages(db: &mut SqliteConnection, limit: i64, left: i64) -> Result<i64, StoreError> {
    // Positions rise with time, so the oldest messages are the first ones and no index on time is needed.
    let done = sqlx::query(
        "DELETE FROM queue WHERE created_at < ? AND id IN (SELECT id FROM queue ORDER BY id LIMIT ?)",
    )
    .bind(limit)
    .bind(left)
    .execute(db)
    .await?;
    Ok(i64::try_from(done.rows_affected()).unwrap_or(i64::MAX))
}

async fn ended_windows(db: &mut SqliteConnection, now: i64, left: i64) -> Result<i64, StoreError> {
    let done = sqlx::query(
        "UPDATE namespaces SET pairing_hash = NULL, pairing_expires = NULL, pairing_spent = 0 \
         WHERE id IN (SELECT id FROM namespaces WHERE pairing_expires <= ? LIMIT ?)",
    )
    .bind(now)
    .bind(left)
    .execute(db)
    .await?;
    Ok(i64::try_from(done.rows_affected()).unwrap_or(i64::MAX))
}

/// Namespaces without any connection since before `limit`.
async fn idle_namespaces(
    db: &mut SqliteConnection,
    limit: i64,
    left: i64,
) -> Result<Vec<NamespaceId>, StoreError> {
    let ids: Vec<Vec<u8>> =
        sqlx::query_scalar("SELECT id FROM namespaces WHERE last_active < ? ORDER BY last_active LIMIT ?")
            .bind(limit)
            .bind(left)
            .fetch_all(db)
            .await?;
    ids.iter()
        .map(|id| NamespaceId::try_from(id.as_slice()).map_err(|_| StoreError::Corrupt("namespace")))
        .collect()
}
