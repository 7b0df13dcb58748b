//! The record of decisions.

use std::sync::Arc;

use serde::Serialize;
use skald_core_api::{Actor, DecisionProof, RequestId};
use sqlx::Row;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::store::Store;
use crate::{Error, StoreError};

/// One line of the record. It never holds an answer's text or a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// Position; rises by one.
    pub seq: i64,
    /// When.
    pub at: i64,
    /// Who, with a device's key.
    pub actor: Actor,
    /// What was done: `approved`, `rejected`, `answered`, `accept`, `decline`, `cancel`, `expired`, `withdrawn`,
    /// `late`, `bypass_granted`, `bypass_ended`, `signed_in`, `session_ended`, `token_created`, `token_revoked`…
    pub action: String,
    /// The item, where it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// What it concerns otherwise (a tool, a token's name, a bypass).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// SHA-256 of what the device showed, lowercase hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The device's signature, lowercase hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sig: Option<String>,
}

/// The record of decisions: append-only. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    store: Arc<Store>,
}

impl Audit {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Entries before position `before`, newest first, at most `limit` (1 to 1000).
    pub async fn list(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        let rows = sqlx::query(
            "SELECT seq, at, actor, action, request_id, subject, digest, sig FROM audit
             WHERE ?1 IS NULL OR seq < ?1 ORDER BY seq DESC LIMIT ?2",
        )
        .bind(before)
        .bind(limit.clamp(1, 1000))
        .fetch_all(self.store.pool())
        .await?;
        rows.iter().map(entry).collect()
    }
}

fn entry(row: &SqliteRow) -> Result<AuditEntry, Error> {
    let request_id: Option<String> = row.try_get("request_id")?;
    Ok(AuditEntry {
        seq: row.try_get("seq")?,
        at: row.try_get("at")?,
        actor: read_actor(row.try_get("actor")?)?,
        action: row.try_get("action")?,
        request_id: request_id
            .map(|s| s.parse().map_err(|_| StoreError::Unreadable("A request id".into())))
            .transpose()?,
        subject: row.try_get("subject")?,
        digest: row.try_get("digest")?,
        sig: row.try_get("sig")?,
    })
}

/// What a line of the record is about.
#[derive(Default)]
pub(crate) struct About<'a> {
    pub request_id: Option<RequestId>,
    pub subject: Option<&'a str>,
    pub proof: Option<&'a DecisionProof>,
}

/// Adds a line, in the transaction of what it records.
pub(crate) async fn record(
    tx: &mut SqliteConnection,
    at: i64,
    actor: &Actor,
    action: &str,
    about: About<'_>,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO audit (at, actor, action, request_id, subject, digest, sig) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(at)
    .bind(write_actor(actor)?)
    .bind(action)
    .bind(about.request_id.map(|id| id.to_string()))
    .bind(about.subject)
    .bind(about.proof.map(|p| p.digest.as_str()))
    .bind(about.proof.map(|p| p.sig.as_str()))
    .execute(tx)
    .await?;
    Ok(())
}

pub(crate) fn write_actor(actor: &Actor) -> Result<String, StoreError> {
    serde_json::to_string(actor).map_err(|_| StoreError::Other("an actor cannot be written".into()))
}

pub(crate) fn read_actor(text: &str) -> Result<Actor, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Unreadable("An actor".into()))
}
