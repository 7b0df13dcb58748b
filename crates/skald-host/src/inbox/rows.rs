//! Items in the database.

use serde::Serialize;
use serde::de::DeserializeOwned;
use skald_core_api::{Actor, Outcome, RequestId};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use super::types::{HistoryEntry, ItemKind, ItemState, LateAnswer, limits};
use crate::StoreError;
use crate::audit::{read_actor, write_actor};

/// One item as stored.
pub(super) struct Row {
    pub id: RequestId,
    pub kind: ItemKind,
    pub state: ItemState,
    pub source: String,
    pub body: String,
    pub asked: Option<Vec<u8>>,
    pub created_at: i64,
    pub expires_at: i64,
    pub ended_at: Option<i64>,
    pub ended_seq: Option<i64>,
    pub ended_by: Option<Actor>,
    pub outcome: Option<Outcome>,
    pub had_content: bool,
    pub late_count: i64,
}

fn unreadable(what: &str) -> StoreError {
    StoreError::Unreadable(what.into())
}

pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| unreadable("An item"))
}

fn write<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|_| StoreError::Other("an outcome cannot be written".into()))
}

impl Row {
    pub(super) fn read(row: &SqliteRow) -> Result<Self, StoreError> {
        let text = |name: &str| row.try_get::<String, _>(name);
        Ok(Self {
            id: text("request_id")?.parse().map_err(|_| unreadable("A request id"))?,
            kind: ItemKind::parse(&text("kind")?).ok_or_else(|| unreadable("A kind"))?,
            state: ItemState::parse(&text("state")?).ok_or_else(|| unreadable("A state"))?,
            source: text("source")?,
            body: text("body")?,
            asked: row.try_get("asked_digest")?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            ended_at: row.try_get("ended_at")?,
            ended_seq: row.try_get("ended_seq")?,
            ended_by: row.try_get::<Option<String>, _>("ended_by")?.as_deref().map(read_actor).transpose()?,
            outcome: row.try_get::<Option<String>, _>("outcome")?.as_deref().map(parse).transpose()?,
            had_content: row.try_get("had_content")?,
            late_count: row.try_get("late_count")?,
        })
    }

    pub(super) fn into_entry(self, late_answers: Vec<LateAnswer>) -> Result<HistoryEntry, StoreError> {
        Ok(HistoryEntry {
            request_id: self.id,
            kind: self.kind,
            state: self.state,
            created_at: self.created_at,
            ended_at: self.ended_at,
            resolved_by: self.ended_by.map(|a| a.to_string()),
            outcome: self.outcome,
            late_answers,
            item: parse(&self.body)?,
        })
    }
}

pub(super) async fn find(db: &mut SqliteConnection, id: RequestId) -> Result<Option<Row>, StoreError> {
    let row = sqlx::query("SELECT * FROM items WHERE request_id = ?")
        .bind(id.to_string())
        .fetch_optional(db)
        .await?;
    row.as_ref().map(Row::read).transpose()
}

pub(super) async fn find_by_key(
    db: &mut SqliteConnection,
    source: &str,
    key: &str,
) -> Result<Option<Row>, StoreError> {
    let row = sqlx::query("SELECT * FROM items WHERE source = ? AND idempotency_key = ?")
        .bind(source)
        .bind(key)
        .fetch_optional(db)
        .await?;
    row.as_ref().map(Row::read).transpose()
}

pub(super) async fn pending(db: &mut SqliteConnection) -> Result<Vec<Row>, StoreError> {
    let rows = sqlx::query("SELECT * FROM items WHERE state = 'pending' ORDER BY seq").fetch_all(db).await?;
    rows.iter().map(Row::read).collect()
}

pub(super) async fn due(db: &mut SqliteConnection, now: i64) -> Result<Vec<Row>, StoreError> {
    let rows = sqlx::query(
        "SELECT * FROM items WHERE state = 'pending' AND expires_at <= ? ORDER BY expires_at, seq",
    )
    .bind(now)
    .fetch_all(db)
    .await?;
    rows.iter().map(Row::read).collect()
}

pub(super) async fn late_answers(
    db: &mut SqliteConnection,
    row: &Row,
) -> Result<Vec<LateAnswer>, StoreError> {
    if row.late_count == 0 {
        return Ok(Vec::new());
    }
    let rows =
        sqlx::query("SELECT answered_by, at, outcome FROM late_answers WHERE request_id = ? ORDER BY id")
            .bind(row.id.to_string())
            .fetch_all(db)
            .await?;
    rows.iter()
        .map(|row| {
            Ok(LateAnswer {
                by: read_actor(row.try_get("answered_by")?)?.to_string(),
                at: row.try_get("at")?,
                outcome: parse(row.try_get("outcome")?)?,
            })
        })
        .collect()
}

/// Notes an answer that changes nothing any more.
pub(super) async fn add_late(
    db: &mut SqliteConnection,
    row: &Row,
    by: &Actor,
    outcome: &Outcome,
    now: i64,
) -> Result<(), StoreError> {
    if row.late_count >= limits::LATE_ANSWERS {
        return Ok(());
    }
    sqlx::query("INSERT INTO late_answers (request_id, answered_by, at, outcome) VALUES (?, ?, ?, ?)")
        .bind(row.id.to_string())
        .bind(write_actor(by)?)
        .bind(now)
        .bind(write(outcome)?)
        .execute(&mut *db)
        .await?;
    sqlx::query("UPDATE items SET late_count = late_count + 1 WHERE request_id = ?")
        .bind(row.id.to_string())
        .execute(db)
        .await?;
    Ok(())
}

/// How an item ends.
pub(super) struct End<'a> {
    pub state: ItemState,
    pub by: &'a Actor,
    pub outcome: Option<&'a Outcome>,
    pub had_content: bool,
    pub at: i64,
}

async fn count(db: &mut SqliteConnection, name: &str) -> Result<i64, StoreError> {
    Ok(sqlx::query_scalar("UPDATE counters SET value = value + 1 WHERE name = ? RETURNING value")
        .bind(name)
        .fetch_one(db)
        .await?)
}

/// Moves the Inbox's revision, in the transaction of the change it stands for.
pub(super) async fn next_revision(db: &mut SqliteConnection) -> Result<u64, StoreError> {
    count(db, "inbox_revision").await.map(i64::unsigned_abs)
}

pub(super) async fn revision(db: &mut SqliteConnection) -> Result<u64, StoreError> {
    let value: i64 =
        sqlx::query_scalar("SELECT value FROM counters WHERE name = 'inbox_revision'").fetch_one(db).await?;
    Ok(value.unsigned_abs())
}

/// Ends a pending item. Ending it twice is an error, whatever the caller believed.
pub(super) async fn end(db: &mut SqliteConnection, id: RequestId, end: End<'_>) -> Result<(), StoreError> {
    let seq = count(db, "history").await?;
    let done = sqlx::query(
        "UPDATE items SET state = ?, ended_at = ?, ended_seq = ?, ended_by = ?, outcome = ?, had_content = ?
         WHERE request_id = ? AND state = 'pending'",
    )
    .bind(end.state.as_str())
    .bind(end.at)
    .bind(seq)
    .bind(write_actor(end.by)?)
    .bind(end.outcome.map(write).transpose()?)
    .bind(end.had_content)
    .bind(id.to_string())
    .execute(db)
    .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(StoreError::Other("an item ended twice".into())) }
}

/// A new pending item.
pub(super) struct Insert<'a> {
    pub id: RequestId,
    pub kind: ItemKind,
    pub source: &'a str,
    pub key: Option<&'a str>,
    pub asked: &'a [u8],
    pub body: String,
    pub created_at: i64,
    pub expires_at: i64,
}

pub(super) async fn insert(db: &mut SqliteConnection, new: Insert<'_>) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO items
         (request_id, kind, state, source, idempotency_key, asked_digest, body, created_at, expires_at)
         VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?)",
    )
    .bind(new.id.to_string())
    .bind(new.kind.as_str())
    .bind(new.source)
    .bind(new.key)
    .bind(new.asked.to_vec())
    .bind(new.body)
    .bind(new.created_at)
    .bind(new.expires_at)
    .execute(db)
    .await?;
    Ok(())
}
