//! Bypasses: what was approved for a while.
//!
//! A bypass speaks for calls of the same tool, by the same source under the same label, in the same session (or, alike,
//! in none). "For the session" of a source that names no session holds until the host stops, and a day at most. A
//! clock that was set back before the grant suspends it: rather ask once more than let through for too long.

use std::sync::Arc;

use serde::Serialize;
use skald_core_api::Actor;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::audit::{self, About};
use crate::store::Store;
use crate::{Clock, Error, EventHub, StoreError};

/// The bound of "for the session" where there is no session.
const THIS_RUN_MS: i64 = 24 * 3600 * 1000;
/// A session's bypass that was not used for so long has ended with its session.
const IDLE_MS: i64 = 7 * 24 * 3600 * 1000;
/// Small corrections of the clock do not suspend a bypass.
const SET_BACK_MS: i64 = 60_000;

/// A bypass in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bypass {
    /// Names it.
    pub id: i64,
    /// The tool it lets through.
    pub tool_name: String,
    /// For whom, for people.
    pub agent_label: String,
    /// Who asks: `token:NAME`, `web`…
    pub source: String,
    /// The source's session it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When it was granted.
    pub created_at: i64,
    /// When it ends; missing for one that ends with its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// Who granted it, as in history.
    pub created_by: String,
    /// How often it decided.
    pub uses: i64,
}

impl Bypass {
    /// Who decided, where it decided.
    pub(crate) fn actor(&self) -> Actor {
        Actor::Rule { name: format!("bypass {} ({})", self.id, self.tool_name) }
    }
}

/// The rules. Cheap to clone.
#[derive(Clone)]
pub struct Rules {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    events: EventHub,
}

/// The call a bypass is asked about.
pub(crate) struct Call<'a> {
    pub source: &'a str,
    pub tool_name: &'a str,
    pub agent_label: &'a str,
    pub session: Option<&'a str>,
}

impl Rules {
    /// Opens the rules; what held for the host's last run only has ended.
    pub(crate) async fn open(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        events: EventHub,
    ) -> Result<Self, StoreError> {
        let mut tx = store.write().await?;
        sqlx::query("UPDATE bypasses SET ended_at = ? WHERE this_run AND ended_at IS NULL")
            .bind(clock.now_ms())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Self { store, clock, events })
    }

    /// Bypasses in force, newest first.
    pub async fn list(&self) -> Result<Vec<Bypass>, Error> {
        let rows = sqlx::query(
            "SELECT * FROM bypasses WHERE ended_at IS NULL AND (expires_at IS NULL OR expires_at > ?1)
             AND (expires_at IS NOT NULL OR coalesce(last_used, created_at) > ?2) ORDER BY id DESC",
        )
        .bind(self.clock.now_ms())
        .bind(self.clock.now_ms() - IDLE_MS)
        .fetch_all(self.store.pool())
        .await?;
        rows.iter().map(read).collect()
    }

    /// Ends a bypass; `NotFound` where there is none in force.
    pub async fn end(&self, id: i64, by: &Actor) -> Result<(), Error> {
        let (this, by) = (self.clone(), by.clone());
        self.store
            .durably(async move {
                let now = this.clock.now_ms();
                let mut tx = this.store.write().await?;
                let ended = sqlx::query("UPDATE bypasses SET ended_at = ? WHERE id = ? AND ended_at IS NULL")
                    .bind(now)
                    .bind(id)
                    .execute(&mut *tx)
                    .await?
                    .rows_affected();
                if ended == 0 {
                    return Err(Error::NotFound("There is no such bypass in force.".into()));
                }
                let subject = format!("bypass {id}");
                let about = About { subject: Some(&subject), ..About::default() };
                audit::record(&mut tx, now, &by, "bypass_ended", about).await?;
                tx.commit().await?;
                skald_core_api::Events::publish(&this.events, skald_core_api::Event::Inbox);
                Ok(())
            })
            .await
    }

    /// Which bypass would decide such a call now; counts nothing.
    pub async fn decide(
        &self,
        source: &Actor,
        tool_name: &str,
        agent_label: &str,
        session: Option<&str>,
    ) -> Result<Option<Bypass>, Error> {
        let call = Call { source: &source.to_string(), tool_name, agent_label, session };
        let mut tx = self.store.read().await?;
        Ok(matching(&mut tx, &call, self.clock.now_ms()).await?)
    }
}

/// The bypass that lets this call through, if any.
pub(crate) async fn matching(
    tx: &mut SqliteConnection,
    call: &Call<'_>,
    now: i64,
) -> Result<Option<Bypass>, StoreError> {
    let row = sqlx::query(
        "SELECT * FROM bypasses
         WHERE ended_at IS NULL AND tool_name = ?1 AND source = ?2 AND agent_label = ?3 AND session IS ?4
           AND created_at <= ?5 + ?6
           AND (expires_at > ?5 OR (expires_at IS NULL AND coalesce(last_used, created_at) > ?5 - ?7))
         ORDER BY id DESC LIMIT 1",
    )
    .bind(call.tool_name)
    .bind(call.source)
    .bind(call.agent_label)
    .bind(call.session)
    .bind(now)
    .bind(SET_BACK_MS)
    .bind(IDLE_MS)
    .fetch_optional(tx)
    .await?;
    row.as_ref().map(read).transpose().map_err(|_| StoreError::Unreadable("A bypass".into()))
}

/// Counts one use.
pub(crate) async fn used(tx: &mut SqliteConnection, id: i64, now: i64) -> Result<(), StoreError> {
    sqlx::query("UPDATE bypasses SET uses = uses + 1, last_used = ? WHERE id = ?")
        .bind(now)
        .bind(id)
        .execute(tx)
        .await?;
    Ok(())
}

/// Grants a bypass for calls like this one: `secs` from now, or with 0 for the session.
pub(crate) async fn grant(
    tx: &mut SqliteConnection,
    call: &Call<'_>,
    secs: u64,
    by: &Actor,
    now: i64,
) -> Result<(), StoreError> {
    let timed = i64::try_from(secs).unwrap_or(i64::MAX).saturating_mul(1000);
    let this_run = secs == 0 && call.session.is_none();
    let expires_at = match (secs, call.session) {
        (0, Some(_)) => None,
        (0, None) => Some(now + THIS_RUN_MS),
        _ => Some(now.saturating_add(timed)),
    };
    let id = sqlx::query(
        "INSERT INTO bypasses (tool_name, source, agent_label, session, created_at, created_by, expires_at, this_run)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(call.tool_name)
    .bind(call.source)
    .bind(call.agent_label)
    .bind(call.session)
    .bind(now)
    .bind(audit::write_actor(by)?)
    .bind(expires_at)
    .bind(this_run)
    .execute(&mut *tx)
    .await?
    .last_insert_rowid();
    let subject = format!("bypass {id}: {} by {}", call.tool_name, call.source);
    audit::record(tx, now, by, "bypass_granted", About { subject: Some(&subject), ..About::default() }).await
}

/// Ends what was granted to a source that is gone.
pub(crate) async fn end_of_source(
    tx: &mut SqliteConnection,
    source: &Actor,
    now: i64,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE bypasses SET ended_at = ? WHERE source = ? AND ended_at IS NULL")
        .bind(now)
        .bind(source.to_string())
        .execute(tx)
        .await?;
    Ok(())
}

fn read(row: &SqliteRow) -> Result<Bypass, Error> {
    Ok(Bypass {
        id: row.try_get("id")?,
        tool_name: row.try_get("tool_name")?,
        agent_label: row.try_get("agent_label")?,
        source: row.try_get("source")?,
        session: row.try_get("session")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        created_by: audit::read_actor(row.try_get("created_by")?)?.to_string(),
        uses: row.try_get("uses")?,
    })
}
