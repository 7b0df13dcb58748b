//! The statements that the writer runs inside its transaction.

use skald_relay_common::frame::{ClientPaired, Platform};
use skald_relay_common::ids::{NamespaceId, PublicKey, XPublicKey};
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Claim, Envelope, NamespaceRecord, Position, StoreError};

/// How a statement begins that deletes messages.
pub(super) const QUEUE: &str = "DELETE FROM queue";

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The last position that was ever given, deleted ones included.
pub(super) async fn last_position(db: &mut SqliteConnection) -> Result<Position, sqlx::Error> {
    let last: Option<i64> =
        sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = 'queue'").fetch_optional(db).await?;
    Ok(last.unwrap_or(0) as Position)
}

pub(super) async fn namespace(
    db: &mut SqliteConnection,
    id: &NamespaceId,
    announced: Position,
) -> Result<Option<NamespaceRecord>> {
    let agent: Option<Vec<u8>> = sqlx::query_scalar("SELECT agent_key FROM namespaces WHERE id = ?")
        .bind(&id.as_bytes()[..])
        .fetch_optional(&mut *db)
        .await?;
    let Some(agent) = agent else { return Ok(None) };
    let agent = PublicKey::try_from(agent.as_slice()).map_err(|_| StoreError::Corrupt("key"))?;
    let rows = sqlx::query("SELECT key, x_key, platform, authorized FROM clients WHERE namespace = ?")
        .bind(&id.as_bytes()[..])
        .fetch_all(db)
        .await?;
    let mut record =
        NamespaceRecord { id: *id, agent, authorized: Vec::new(), pending: Vec::new(), announced };
    for row in rows {
        let key =
            PublicKey::try_from(row.try_get::<&[u8], _>("key")?).map_err(|_| StoreError::Corrupt("key"))?;
        if row.try_get::<i64, _>("authorized")? == 1 {
            record.authorized.push(key);
            continue;
        }
        let x_key = row.try_get::<Option<&[u8]>, _>("x_key")?.and_then(|x| XPublicKey::try_from(x).ok());
        if let (Some(x_key), Some(platform)) = (x_key, Platform::from_code(row.try_get("platform")?)) {
            record.pending.push(ClientPaired { key, x_key, platform });
        }
    }
    Ok(Some(record))
}

/// Makes a namespace if it does not exist; true if it did not.
pub(super) async fn ensure_namespace(
    db: &mut SqliteConnection,
    id: &NamespaceId,
    agent: &PublicKey,
    now: i64,
) -> Result<bool> {
    let done = sqlx::query(
        "INSERT INTO namespaces (id, agent_key, created_at, last_active) VALUES (?, ?, ?, ?) \
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(&id.as_bytes()[..])
    .bind(&agent.as_bytes()[..])
    .bind(now)
    .bind(now)
    .execute(&mut *db)
    .await?;
    Ok(done.rows_affected() > 0)
}

pub(super) async fn touch(db: &mut SqliteConnection, id: &NamespaceId, now: i64) -> Result<()> {
    sqlx::query("UPDATE namespaces SET last_active = ? WHERE id = ?")
        .bind(now)
        .bind(&id.as_bytes()[..])
        .execute(db)
        .await?;
    Ok(())
}

pub(super) async fn device_seen(
    db: &mut SqliteConnection,
    namespace: &NamespaceId,
    key: &PublicKey,
    token: &str,
    platform: Platform,
    now: i64,
) -> Result<()> {
    sqlx::query(
        "UPDATE clients SET push_token = COALESCE(NULLIF(?1, ''), push_token), \
         push_token_at = CASE WHEN ?1 = '' THEN push_token_at ELSE ?3 END, platform = ?2, last_seen = ?3 \
         WHERE namespace = ?4 AND key = ?5",
    )
    .bind(token)
    .bind(platform.code())
    .bind(now)
    .bind(&namespace.as_bytes()[..])
    .bind(&key.as_bytes()[..])
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn forget_token(
    db: &mut SqliteConnection,
    namespace: &NamespaceId,
    key: &PublicKey,
    token: &str,
    dead_since: Option<i64>,
) -> Result<()> {
    sqlx::query(
        "UPDATE clients SET push_token = NULL \
         WHERE namespace = ? AND key = ? AND push_token = ? AND push_token_at <= ?",
    )
    .bind(&namespace.as_bytes()[..])
    .bind(&key.as_bytes()[..])
    .bind(token)
    .bind(dead_since.unwrap_or(i64::MAX))
    .execute(db)
    .await?;
    Ok(())
}

/// Opens a window, or with `None` closes it.
pub(super) async fn set_pairing(
    db: &mut SqliteConnection,
    namespace: &NamespaceId,
    window: Option<([u8; 32], i64)>,
) -> Result<()> {
    sqlx::query(
        "UPDATE namespaces SET pairing_hash = ?, pairing_expires = ?, pairing_spent = 0 WHERE id = ?",
    )
    .bind(window.map(|(hash, _)| hash.to_vec()))
    .bind(window.map(|(_, expires)| expires))
    .bind(&namespace.as_bytes()[..])
    .execute(db)
    .await?;
    Ok(())
}

/// The hash and the end of the open window, unless its token is spent.
pub(super) async fn pairing(
    db: &mut SqliteConnection,
    namespace: &NamespaceId,
) -> Result<Option<(Vec<u8>, i64)>> {
    let row = sqlx::query(
        "SELECT pairing_hash, pairing_expires FROM namespaces \
         WHERE id = ? AND pairing_hash IS NOT NULL AND pairing_spent = 0",
    )
    .bind(&namespace.as_bytes()[..])
    .fetch_optional(db)
    .await?;
    row.map(|row| Ok((row.try_get("pairing_hash")?, row.try_get("pairing_expires")?))).transpose()
}

/// Spends the window's token and registers the device. One that is authorised already stays so: only the agent's list
/// decides about it.
pub(super) async fn register(db: &mut SqliteConnection, claim: &Claim, now: i64) -> Result<()> {
    sqlx::query("UPDATE namespaces SET pairing_spent = 1 WHERE id = ?")
        .bind(&claim.namespace.as_bytes()[..])
        .execute(&mut *db)
        .await?;
    sqlx::query(
        "INSERT INTO clients (namespace, key, x_key, push_token, platform, authorized, last_seen, push_token_at) \
         VALUES (?1, ?2, ?3, NULLIF(?4, ''), ?5, 0, ?6, ?6) \
         ON CONFLICT (namespace, key) DO UPDATE SET x_key = excluded.x_key, platform = excluded.platform, \
         last_seen = excluded.last_seen, push_token = COALESCE(excluded.push_token, push_token), \
         push_token_at = CASE WHEN ?4 = '' THEN push_token_at ELSE ?6 END",
    )
    .bind(&claim.namespace.as_bytes()[..])
    .bind(&claim.key.as_bytes()[..])
    .bind(&claim.x_key.as_bytes()[..])
    .bind(&claim.device_token)
    .bind(claim.platform.code())
    .bind(now)
    .execute(db)
    .await?;
    Ok(())
}

/// Replaces the list of authorised clients and gives the keys that are on it no more, and how many messages waited for
/// them. Devices that wait for a decision
/// and are not named go on waiting.
pub(super) async fn authorize(
    db: &mut SqliteConnection,
    namespace: &NamespaceId,
    list: &[PublicKey],
    now: i64,
) -> Result<(Vec<PublicKey>, u64)> {
    let before: Vec<Vec<u8>> =
        sqlx::query_scalar("SELECT key FROM clients WHERE namespace = ? AND authorized = 1")
            .bind(&namespace.as_bytes()[..])
            .fetch_all(&mut *db)
            .await?;
    let (mut revoked, mut dropped) = (Vec::new(), 0);
    for key in before {
        let key = PublicKey::try_from(key.as_slice()).map_err(|_| StoreError::Corrupt("key"))?;
        if list.contains(&key) {
            continue;
        }
        for sql in [
            "DELETE FROM queue WHERE namespace = ? AND recipient = ?",
            "DELETE FROM clients WHERE namespace = ? AND key = ?",
        ] {
            let done = sqlx::query(sql)
                .bind(&namespace.as_bytes()[..])
                .bind(&key.as_bytes()[..])
                .execute(&mut *db)
                .await?;
            dropped += if sql.starts_with(QUEUE) { done.rows_affected() } else { 0 };
        }
        revoked.push(key);
    }
    for key in list {
        sqlx::query(
            "INSERT INTO clients (namespace, key, authorized, last_seen) VALUES (?, ?, 1, ?) \
             ON CONFLICT (namespace, key) DO UPDATE SET authorized = 1",
        )
        .bind(&namespace.as_bytes()[..])
        .bind(&key.as_bytes()[..])
        .bind(now)
        .execute(&mut *db)
        .await?;
    }
    Ok((revoked, dropped))
}

pub(super) async fn depth(
    db: &mut SqliteConnection,
    namespace: &NamespaceId,
    recipient: &PublicKey,
) -> Result<u32> {
    let depth: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM queue WHERE namespace = ? AND recipient = ?")
        .bind(&namespace.as_bytes()[..])
        .bind(&recipient.as_bytes()[..])
        .fetch_one(db)
        .await?;
    Ok(u32::try_from(depth).unwrap_or(u32::MAX))
}

/// Writes messages with as few statements as possible: a statement for each power of two, so that few are prepared.
pub(super) async fn insert(
    db: &mut SqliteConnection,
    mut messages: &[(Position, Envelope)],
    now: i64,
) -> Result<()> {
    while !messages.is_empty() {
        let count = 1 << messages.len().ilog2().min(6);
        let (now_written, rest) = messages.split_at(count);
        let rows = vec!["(?,?,?,?,?,?,?)"; count].join(",");
        let sql = format!(
            "INSERT INTO queue (id, namespace, recipient, sender, nonce, ciphertext, created_at) VALUES {rows}"
        );
        // Only the number of placeholders varies; no value is ever part of the text.
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (position, envelope) in now_written {
            query = query
                .bind(*position as i64)
                .bind(&envelope.namespace.as_bytes()[..])
                .bind(&envelope.to.as_bytes()[..])
                .bind(&envelope.from.as_bytes()[..])
                .bind(&envelope.nonce.as_bytes()[..])
                .bind(&envelope.ciphertext[..])
                .bind(now);
        }
        query.execute(&mut *db).await?;
        messages = rest;
    }
    Ok(())
}

/// Deletes what was confirmed and gives when each of those messages came.
pub(super) async fn confirm(
    db: &mut SqliteConnection,
    namespace: &NamespaceId,
    recipient: &PublicKey,
    through: Position,
) -> Result<Vec<i64>> {
    let came = sqlx::query_scalar(
        "DELETE FROM queue WHERE namespace = ? AND recipient = ? AND id <= ? RETURNING created_at",
    )
    .bind(&namespace.as_bytes()[..])
    .bind(&recipient.as_bytes()[..])
    .bind(through as i64)
    .fetch_all(db)
    .await?;
    Ok(came)
}

/// How many messages wait in all.
pub(super) async fn waiting(db: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT COUNT(*) FROM queue").fetch_one(db).await
}
