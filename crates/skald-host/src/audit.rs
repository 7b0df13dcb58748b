//! The record of decisions.

use serde::Serialize;
use skald_core_api::{Actor, RequestId};

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
pub struct Audit(());

impl Audit {
    /// Entries before position `before`, newest first, at most `limit` (1 to 1000).
    pub async fn list(&self, _before: Option<i64>, _limit: u32) -> Result<Vec<AuditEntry>, Error> {
        Err(Error::Store(StoreError::Stopping))
    }
}
