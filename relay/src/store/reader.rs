//! Reads, which run beside the writer and see every commit that came before them.

use std::ops::RangeInclusive;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use skald_relay_common::frame::{FromRelay, Message, Platform};
use skald_relay_common::ids::{MessageNonce, NamespaceId, PublicKey};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::{AbsentDevice, Position, StoreError};
use crate::ws;

/// How many messages one batch of a drain holds at most, and how many bytes: what a connection may hold in memory.
const BATCH_MESSAGES: usize = 64;
const BATCH_BYTES: usize = 256 * 1024;

/// A batch of waiting messages, each as the frame that its recipient gets.
pub(crate) struct Waiting {
    pub(crate) messages: Vec<(Position, Bytes)>,
    /// Whether more wait behind these.
    pub(crate) more: bool,
}

pub(super) async fn waiting(
    pool: &SqlitePool,
    namespace: &NamespaceId,
    recipient: &PublicKey,
    range: RangeInclusive<Position>,
) -> Result<Waiting, StoreError> {
    let mut rows = sqlx::query(
        "SELECT id, sender, nonce, ciphertext FROM queue WHERE namespace = ? AND recipient = ? AND id BETWEEN ? AND ? \
         ORDER BY id LIMIT ?",
    )
    .bind(&namespace.as_bytes()[..])
    .bind(&recipient.as_bytes()[..])
    .bind(*range.start() as i64)
    .bind(*range.end() as i64)
    .bind(BATCH_MESSAGES as i64)
    .fetch(pool);
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        let frame = ws::binary(&FromRelay::Message(message(&row)?).encode());
        bytes += frame.len();
        messages.push((row.try_get::<i64, _>("id")? as Position, frame));
        if bytes >= BATCH_BYTES {
            return Ok(Waiting { messages, more: true });
        }
    }
    let more = messages.len() == BATCH_MESSAGES;
    Ok(Waiting { messages, more })
}

fn message(row: &SqliteRow) -> Result<Message, StoreError> {
    let sender =
        PublicKey::try_from(row.try_get::<&[u8], _>("sender")?).map_err(|_| StoreError::Corrupt("sender"))?;
    let nonce = MessageNonce::try_from(row.try_get::<&[u8], _>("nonce")?)
        .map_err(|_| StoreError::Corrupt("nonce"))?;
    let ciphertext = Bytes::copy_from_slice(row.try_get::<&[u8], _>("ciphertext")?);
    Ok(Message { peer: sender, nonce, ciphertext, live: false })
}

/// When the oldest waiting message came.
pub(super) async fn oldest(pool: &SqlitePool) -> Result<Option<i64>, StoreError> {
    // Positions rise with time.
    Ok(sqlx::query_scalar("SELECT created_at FROM queue ORDER BY id LIMIT 1").fetch_optional(pool).await?)
}

pub(super) async fn absent_device(
    pool: &SqlitePool,
    namespace: &NamespaceId,
    key: &PublicKey,
) -> Result<Option<AbsentDevice>, StoreError> {
    let row = sqlx::query(
        "SELECT c.push_token, c.platform, q.sender, q.nonce, q.ciphertext, q.created_at FROM clients c \
         JOIN queue q ON q.namespace = c.namespace AND q.recipient = c.key \
         WHERE c.namespace = ? AND c.key = ? AND c.authorized = 1 AND c.push_token IS NOT NULL \
         ORDER BY q.id DESC LIMIT 1",
    )
    .bind(&namespace.as_bytes()[..])
    .bind(&key.as_bytes()[..])
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let Some(platform) = Platform::from_code(row.try_get("platform")?) else { return Ok(None) };
    Ok(Some(AbsentDevice {
        token: row.try_get("push_token")?,
        platform,
        newest: message(&row)?,
        queued_at: row.try_get("created_at")?,
    }))
}

pub(super) async fn ping(pool: &SqlitePool) -> bool {
    let query = sqlx::query("SELECT COUNT(*) FROM (SELECT 1 FROM namespaces LIMIT 1)").fetch_one(pool);
    matches!(tokio::time::timeout(std::time::Duration::from_secs(2), query).await, Ok(Ok(_)))
}
