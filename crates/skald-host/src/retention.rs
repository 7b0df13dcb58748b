//! What has been kept long enough goes.

use std::sync::Arc;
use std::time::Duration;

use skald_core_api::{Event, Events};
use tokio_util::sync::CancellationToken;

use crate::store::Store;
use crate::{Clock, Error, EventHub, SettingsStore};

const FIRST: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_secs(3600);
/// A wall clock that moved so much more or less than time passed has jumped.
const JUMP_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * 3600 * 1000;

pub(crate) struct Retention {
    pub store: Arc<Store>,
    pub clock: Arc<dyn Clock>,
    pub settings: SettingsStore,
    pub events: EventHub,
    pub stop: CancellationToken,
}

impl Retention {
    /// Looks every hour. A round in which the wall clock jumped is left out: years of history must not go because the
    /// clock was wrong for a moment. If the new time stays, the next round goes by it.
    pub(crate) async fn run(self) {
        let mut settings = self.settings.watch();
        let mut pause = FIRST;
        loop {
            let (wall, mono) = (self.clock.now_ms(), self.clock.monotonic());
            tokio::select! {
                () = self.clock.sleep_until(mono + pause) => pause = EVERY,
                changed = settings.changed() => if changed.is_err() { break },
                () = self.stop.cancelled() => break,
            }
            let passed = i64::try_from((self.clock.monotonic() - mono).as_millis()).unwrap_or(i64::MAX);
            if (self.clock.now_ms() - wall - passed).abs() > JUMP_MS {
                tracing::warn!("the clock jumped; nothing is tidied away this time");
                continue;
            }
            if let Err(e) = self.tidy().await {
                tracing::warn!(error = %e, "what is old could not be tidied away; trying again");
            }
        }
    }

    async fn tidy(&self) -> Result<(), Error> {
        let now = self.clock.now_ms();
        let before = now - i64::from(self.settings.current().history_days) * DAY_MS;
        let mut tx = self.store.write().await?;
        let mut gone = 0;
        for statement in [
            "DELETE FROM items WHERE state <> 'pending' AND ended_at < ?",
            "DELETE FROM notifications WHERE created_at < ?",
            "DELETE FROM bypasses WHERE coalesce(ended_at, expires_at) < ?",
        ] {
            gone += sqlx::query(statement).bind(before).execute(&mut *tx).await?.rows_affected();
        }
        for statement in
            ["DELETE FROM signin_links WHERE expires_at < ?", "DELETE FROM sessions WHERE expires_at < ?"]
        {
            sqlx::query(statement).bind(now).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        if gone > 0 {
            self.events.publish(Event::Inbox);
        }
        Ok(())
    }
}
