//! Asking: an item is stored, or decided at once by what was approved before.

use std::sync::Arc;

use skald_core_api::{Actor, Decision, Outcome};

use super::Inner;
use super::check::{Built, Item};
use super::rows::{self, End, Insert, Row};
use super::types::{Created, ItemState, limits};
use crate::audit::{self, About};
use crate::rules::{self, Call};
use crate::{Error, StoreError};

pub(super) async fn create(inbox: Arc<Inner>, source: Actor, mut built: Built) -> Result<Created, Error> {
    let default = inbox.settings.current().default_timeout_secs;
    let mut tx = inbox.store.write().await?;
    let now = inbox.clock.now_ms();
    let asker = source.to_string();
    if let Some(key) = &built.idempotency_key
        && let Some(row) = rows::find_by_key(&mut tx, &asker, key).await?
    {
        return again(row, &built.asked);
    }
    let secs = i64::try_from(built.expires_in.unwrap_or(default)).unwrap_or(i64::MAX);
    let expires_at = now.saturating_add(secs.saturating_mul(1000));
    built.item.stamp(now, expires_at);
    let body = serde_json::to_string(&built.item)
        .map_err(|_| Error::Store(StoreError::Other("the item cannot be written".into())))?;
    let id = built.item.request_id();

    let bypass = match &built.item {
        Item::Approval(a) => {
            let call = Call {
                source: &asker,
                tool_name: &a.tool_name,
                agent_label: &a.agent_label,
                session: a.session.as_deref(),
            };
            rules::matching(&mut tx, &call, now).await?
        }
        _ => None,
    };
    if bypass.is_none() {
        let waiting: i64 = sqlx::query_scalar("SELECT count(*) FROM items WHERE state = 'pending'")
            .fetch_one(&mut *tx)
            .await?;
        if waiting >= limits::PENDING {
            let text =
                format!("{waiting} questions wait already: have some answered or withdraw them first.");
            return Err(Error::Conflict(text));
        }
    }
    let insert = Insert {
        id,
        kind: built.item.kind(),
        source: &asker,
        key: built.idempotency_key.as_deref(),
        asked: &built.asked,
        body,
        created_at: now,
        expires_at,
    };
    rows::insert(&mut tx, insert).await?;

    if let Some(bypass) = bypass {
        let by = bypass.actor();
        rules::used(&mut tx, bypass.id, now).await?;
        let outcome = Outcome::Approval { decision: Decision::Approved, reason: None };
        let end =
            End { state: ItemState::Resolved, by: &by, outcome: Some(&outcome), had_content: false, at: now };
        rows::end(&mut tx, id, end).await?;
        let about = About { request_id: Some(id), ..About::default() };
        audit::record(&mut tx, now, &by, "approved", about).await?;
        tx.commit().await?;
        inbox.announce(None, &[]);
        return Ok(Created::Decided {
            request_id: id,
            decision: Decision::Approved,
            resolved_by: by.to_string(),
        });
    }

    let revision = rows::next_revision(&mut tx).await?;
    tx.commit().await?;
    inbox.deadlines.notify_one();
    inbox.announce(Some(revision), &[]);
    Ok(Created::Pending { request_id: id, expires_at, existing: false })
}

/// The same question under the same key is the same item; another question is a mistake.
fn again(row: Row, asked: &[u8; 32]) -> Result<Created, Error> {
    if row.asked.as_deref() != Some(asked.as_slice()) {
        let text = "This idempotency key was used for another question: choose a new key.";
        return Err(Error::Conflict(text.into()));
    }
    let by = row.ended_by.map(|a| a.to_string());
    match (row.outcome, by) {
        (Some(Outcome::Approval { decision, .. }), Some(resolved_by)) => {
            Ok(Created::Decided { request_id: row.id, decision, resolved_by })
        }
        _ => Ok(Created::Pending { request_id: row.id, expires_at: row.expires_at, existing: true }),
    }
}
