//! The log of notifications.

use std::sync::Arc;

use skald_core_api::{Actor, Event, Events, Notification};
use sqlx::Row;
use tokio::sync::watch;

use crate::inbox::limits;
use crate::store::Store;
use crate::{Clock, Error, EventHub, FieldError, StoreError};

/// Notifications, numbered without reuse. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Notifications {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    events: EventHub,
    head: Arc<watch::Sender<i64>>,
}

impl Notifications {
    pub(crate) async fn open(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        events: EventHub,
    ) -> Result<Self, StoreError> {
        // The sequence, not the newest row: retention may have taken the newest row away, and the head never goes back.
        let head: i64 = sqlx::query_scalar(
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'notifications'), 0)",
        )
        .fetch_one(store.pool())
        .await?;
        Ok(Self { store, clock, events, head: Arc::new(watch::Sender::new(head)) })
    }

    pub(crate) async fn add(&self, source: &Actor, title: &str, body: &str) -> Result<Notification, Error> {
        let title = title.trim();
        let mut errors = Vec::new();
        if title.is_empty() || title.chars().count() > limits::TITLE || title.contains(['\n', '\r']) {
            let text = format!("`title` must be one line of 1 to {} characters.", limits::TITLE);
            errors.push(FieldError::new("title", text));
        }
        if body.chars().count() > limits::TEXT {
            let text = format!("`body` must not be longer than {} characters.", limits::TEXT);
            errors.push(FieldError::new("body", text));
        }
        if !errors.is_empty() {
            return Err(Error::Invalid(errors));
        }
        let this = self.clone();
        let (source, title, body) = (source.to_string(), title.to_owned(), body.to_owned());
        self.store
            .durably(async move {
                let created_at = this.clock.now_ms();
                let mut tx = this.store.write().await?;
                let seq = sqlx::query(
                    "INSERT INTO notifications (source, title, body, created_at) VALUES (?, ?, ?, ?)",
                )
                .bind(source)
                .bind(&title)
                .bind(&body)
                .bind(created_at)
                .execute(&mut *tx)
                .await?
                .last_insert_rowid();
                tx.commit().await?;
                this.head.send_if_modified(|head| {
                    let newer = seq > *head;
                    *head = (*head).max(seq);
                    newer
                });
                this.events.publish(Event::Inbox);
                Ok(Notification { seq, title, body, created_at })
            })
            .await
    }

    pub(crate) async fn after(&self, seq: i64, limit: u32) -> Result<Vec<Notification>, Error> {
        let rows = sqlx::query(
            "SELECT seq, title, body, created_at FROM notifications WHERE seq > ? ORDER BY seq LIMIT ?",
        )
        .bind(seq)
        .bind(limit.clamp(1, 1000))
        .fetch_all(self.store.pool())
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Notification {
                    seq: row.try_get("seq")?,
                    title: row.try_get("title")?,
                    body: row.try_get("body")?,
                    created_at: row.try_get("created_at")?,
                })
            })
            .collect()
    }

    pub(crate) fn head(&self) -> watch::Receiver<i64> {
        self.head.subscribe()
    }
}
