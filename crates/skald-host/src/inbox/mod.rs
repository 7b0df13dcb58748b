//! The Inbox: questions that wait, their answers and what became of them.
//!
//! The database is the truth; what is in memory (signals, a revision, an elicitation's content) only saves waiting for
//! it. Every change runs to its end even if its caller goes away, and is announced after it is durable.

mod answer;
mod check;
mod create;
mod form;
mod rows;
mod types;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skald_core_api::{
    Actor, Answer, AnswerOutcome, Event, Events, Inbox, InboxError, InboxSnapshot, Notification, Principal,
    RequestId,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
pub use types::*;

use crate::notifications::Notifications;
use crate::store::Store;
use crate::{Clock, Error, EventHub, SettingsStore, StoreError};
use waiting::{Vault, Waiters};

/// A jump of the wall clock is noticed after so long at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

struct Inner {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    settings: SettingsStore,
    events: EventHub,
    notifications: Notifications,
    vault: Vault,
    waiters: Waiters,
    revision: watch::Sender<u64>,
    /// A new item may have an earlier deadline than the clockwork waits for.
    deadlines: Notify,
    stop: CancellationToken,
}

impl Inner {
    /// Tells everyone what is durable now. A late answer has no revision: the pending items are the same.
    fn announce(&self, revision: Option<u64>, ended: &[RequestId]) {
        if let Some(revision) = revision {
            self.revision.send_if_modified(|known| {
                let newer = revision > *known;
                *known = (*known).max(revision);
                newer
            });
        }
        for id in ended {
            self.waiters.wake(*id);
        }
        self.events.publish(Event::Inbox);
    }
}

/// The Inbox. Cheap to clone.
#[derive(Clone)]
pub struct InboxService(Arc<Inner>);

pub(crate) struct Parts {
    pub store: Arc<Store>,
    pub clock: Arc<dyn Clock>,
    pub settings: SettingsStore,
    pub events: EventHub,
    pub notifications: Notifications,
    pub stop: CancellationToken,
}

impl InboxService {
    pub(crate) async fn open(parts: Parts) -> Result<Self, StoreError> {
        let mut db = parts.store.read().await?;
        let revision = rows::revision(&mut db).await?;
        drop(db);
        Ok(Self(Arc::new(Inner {
            store: parts.store,
            clock: parts.clock,
            settings: parts.settings,
            events: parts.events,
            notifications: parts.notifications,
            vault: Vault::default(),
            waiters: Waiters::default(),
            revision: watch::Sender::new(revision),
            deadlines: Notify::new(),
            stop: parts.stop,
        })))
    }

    /// Asks for an approval. `source` is who asks: only it reads content back and withdraws.
    pub async fn create_approval(&self, source: &Actor, new: NewApproval) -> Result<Created, Error> {
        self.create(source, check::approval(source, new)?).await
    }

    /// Asks a question.
    pub async fn create_clarification(
        &self,
        source: &Actor,
        new: NewClarification,
    ) -> Result<Created, Error> {
        self.create(source, check::clarification(source, new)?).await
    }

    /// Asks for input.
    pub async fn create_elicitation(&self, source: &Actor, new: NewElicitation) -> Result<Created, Error> {
        self.create(source, check::elicitation(new)?).await
    }

    async fn create(&self, source: &Actor, built: check::Built) -> Result<Created, Error> {
        let (inner, source) = (self.0.clone(), source.clone());
        self.0.store.durably(create::create(inner, source, built)).await
    }

    /// Where a request stands now. An elicitation's content is given to its source once, here or in [`Self::wait`].
    pub async fn status(&self, id: RequestId, waiter: &Principal) -> Result<RequestStatus, Error> {
        let mut db = self.0.store.pool().acquire().await?;
        let (mut row, mut late) = Self::find(&mut db, id).await?;
        drop(db);
        if row.state == ItemState::Pending && row.expires_at <= self.0.clock.now_ms() {
            self.expire_due().await?;
            let mut db = self.0.store.pool().acquire().await?;
            (row, late) = Self::find(&mut db, id).await?;
        }
        let for_source = row.had_content && row.source == waiter.actor().to_string();
        // Nothing is awaited from here on: content that was taken is handed over.
        let content = if for_source { self.0.vault.take(id) } else { None };
        Ok(RequestStatus {
            request_id: id,
            kind: row.kind,
            state: row.state,
            outcome: row.outcome,
            resolved_by: row.ended_by.map(|a| a.to_string()),
            late_answers: late,
            expires_at: row.expires_at,
            content_gone: for_source && content.is_none(),
            content,
        })
    }

    async fn find(
        db: &mut sqlx::SqliteConnection,
        id: RequestId,
    ) -> Result<(rows::Row, Vec<LateAnswer>), Error> {
        let missing =
            || Error::NotFound("There is no such request: it was never asked, or its history ended.".into());
        let row = rows::find(db, id).await?.ok_or_else(missing)?;
        let late = rows::late_answers(db, &row).await?;
        Ok((row, late))
    }

    /// The same, but waits up to `limit` for the end. Returns early when the host stops. Cancelling it loses nothing.
    pub async fn wait(
        &self,
        id: RequestId,
        waiter: &Principal,
        limit: Duration,
    ) -> Result<RequestStatus, Error> {
        let mut timeout = self.0.clock.sleep(limit);
        loop {
            let mut waiting = self.0.waiters.enter(id);
            let status = self.status(id, waiter).await?;
            if status.state != ItemState::Pending || limit.is_zero() {
                return Ok(status);
            }
            tokio::select! {
                () = waiting.woken() => {}
                () = &mut timeout => return Ok(status),
                () = self.0.stop.cancelled() => return Ok(status),
            }
        }
    }

    /// The same as [`Inbox::answer`], with an error per field where the answer does not hold.
    pub async fn respond(&self, id: RequestId, answer: Answer, by: &Actor) -> Result<AnswerOutcome, Error> {
        let (answer, content) = answer::split(answer);
        let change = answer::answer(self.0.clone(), id, answer, content, by.clone());
        self.0.store.durably(change).await
    }

    /// The source (or the owner) takes the question back. `Conflict` where it has ended otherwise, `NotFound` where it
    /// never was or another asked it.
    pub async fn withdraw(&self, id: RequestId, by: &Principal) -> Result<(), Error> {
        self.0.store.durably(answer::withdraw(self.0.clone(), id, by.actor())).await
    }

    /// One item with what became of it, pending or ended.
    pub async fn get(&self, id: RequestId) -> Result<HistoryEntry, Error> {
        let mut db = self.0.store.read().await?;
        let (row, late) = Self::find(&mut db, id).await?;
        Ok(row.into_entry(late)?)
    }

    /// Ended items, newest end first, at most `limit` (1 to 200), before the position `before`.
    pub async fn history(&self, before: Option<i64>, limit: u32) -> Result<HistoryPage, Error> {
        let limit = limit.clamp(1, 200);
        let mut db = self.0.store.read().await?;
        let found = sqlx::query(
            "SELECT * FROM items WHERE ended_seq IS NOT NULL AND (?1 IS NULL OR ended_seq < ?1)
             ORDER BY ended_seq DESC LIMIT ?2",
        )
        .bind(before)
        .bind(limit + 1)
        .fetch_all(&mut *db)
        .await?;
        let mut page = HistoryPage { items: Vec::new(), next: None };
        let more = found.len() > limit as usize;
        for row in found.iter().take(limit as usize) {
            let row = rows::Row::read(row)?;
            page.next = row.ended_seq;
            let late = rows::late_answers(&mut db, &row).await?;
            page.items.push(row.into_entry(late)?);
        }
        if !more {
            page.next = None;
        }
        Ok(page)
    }

    /// Tells people something.
    pub async fn notify(&self, source: &Actor, title: &str, body: &str) -> Result<Notification, Error> {
        self.0.notifications.add(source, title, body).await
    }

    async fn expire_due(&self) -> Result<(), Error> {
        self.0.store.durably(answer::expire(self.0.clone())).await
    }

    /// The clockwork: ends items at their deadline until the host stops.
    pub(crate) async fn run(self) {
        let inner = &self.0;
        loop {
            // Read before the deadlines: time that passes meanwhile shortens the sleep instead of adding to it.
            let from = inner.clock.monotonic();
            let pause = match self.until_next_deadline().await {
                Ok(pause) => pause,
                Err(e) => {
                    tracing::warn!(error = %e, "deadlines could not be read; trying again");
                    LOOK_AGAIN
                }
            };
            if !pause.is_zero() {
                tokio::select! {
                    () = inner.clock.sleep_until(from + pause) => {}
                    () = inner.deadlines.notified() => continue,
                    () = inner.stop.cancelled() => break,
                }
            }
            if inner.stop.is_cancelled() {
                break;
            }
            if let Err(e) = self.expire_due().await {
                tracing::warn!(error = %e, "an expiry could not be stored; trying again");
                // A full disk must not make a busy loop. Answers are checked against the deadline all the same.
                tokio::select! {
                    () = inner.clock.sleep(Duration::from_secs(1)) => {}
                    () = inner.stop.cancelled() => break,
                }
            }
        }
        inner.vault.clear();
    }

    async fn until_next_deadline(&self) -> Result<Duration, StoreError> {
        let next: Option<i64> =
            sqlx::query_scalar("SELECT min(expires_at) FROM items WHERE state = 'pending'")
                .fetch_one(self.0.store.pool())
                .await?;
        Ok(next.map_or(LOOK_AGAIN, |at| {
            let left = u64::try_from(at.saturating_sub(self.0.clock.now_ms())).unwrap_or(0);
            Duration::from_millis(left).min(LOOK_AGAIN)
        }))
    }

    /// How many elicitations' contents are held for their sources.
    pub fn held(&self) -> usize {
        self.0.vault.len()
    }

    /// How many items someone waits for.
    pub fn waited_for(&self) -> usize {
        self.0.waiters.len()
    }
}

#[async_trait]
impl Inbox for InboxService {
    async fn snapshot(&self) -> Result<InboxSnapshot, InboxError> {
        let read = async {
            let mut db = self.0.store.read().await?;
            let mut pending = rows::pending(&mut db).await?;
            let now = self.0.clock.now_ms();
            if pending.iter().any(|row| row.expires_at <= now) {
                drop(db);
                self.expire_due().await?;
                db = self.0.store.read().await?;
                pending = rows::pending(&mut db).await?;
            }
            let mut snapshot =
                InboxSnapshot { revision: rows::revision(&mut db).await?, ..Default::default() };
            for row in pending {
                match row.kind {
                    ItemKind::Approval => snapshot.approvals.push(rows::parse(&row.body)?),
                    ItemKind::Clarification => snapshot.clarifications.push(rows::parse(&row.body)?),
                    ItemKind::Elicitation => snapshot.elicitations.push(rows::parse(&row.body)?),
                }
            }
            Ok::<_, Error>(snapshot)
        };
        Ok(read.await?)
    }

    async fn answer(&self, id: RequestId, answer: Answer, by: &Actor) -> Result<AnswerOutcome, InboxError> {
        Ok(self.respond(id, answer, by).await?)
    }

    fn revisions(&self) -> watch::Receiver<u64> {
        self.0.revision.subscribe()
    }

    async fn notifications_after(&self, seq: i64, limit: u32) -> Result<Vec<Notification>, InboxError> {
        Ok(self.0.notifications.after(seq, limit).await?)
    }

    fn notification_head(&self) -> watch::Receiver<i64> {
        self.0.notifications.head()
    }
}
