//! How much room the database may still take.

use std::sync::Arc;

use sqlx::sqlite::SqliteConnection;

use super::StoreError;
use crate::metrics::Counts;

/// After how many commits the size is measured anew; between them it is reckoned from what was written.
const COMMITS: u32 = 64;
/// While there is no room it is measured no more often than this, in milliseconds.
const AGAIN: i64 = 1_000;

/// The cap on the database's size and how far away it is.
pub(super) struct Room {
    /// In bytes; 0 for none.
    cap: u64,
    used: u64,
    commits: u32,
    measured: i64,
    counts: Arc<Counts>,
}

impl Room {
    pub(super) fn new(cap: u64, counts: Arc<Counts>) -> Self {
        counts.store.database_cap.set(i64::try_from(cap).unwrap_or(i64::MAX));
        Self { cap, used: 0, commits: COMMITS, measured: i64::MIN, counts }
    }

    /// Whether so many bytes still fit. They count as written from then on.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let after = self.used.saturating_add(bytes as u64);
        let fits = self.cap == 0 || after <= self.cap;
        if fits {
            self.used = after;
        }
        fits
    }

    /// A batch begins: measures if it is time to.
    pub(super) async fn begin(&mut self, db: &mut SqliteConnection, now: i64) -> Result<(), StoreError> {
        self.commits += 1;
        let full = self.cap > 0 && self.used >= self.cap - self.cap / 64;
        let due = self.commits >= COMMITS || full && now.saturating_sub(self.measured).abs() >= AGAIN;
        if !due {
            return Ok(());
        }
        // Pages on the free list are used again before the file grows.
        let used: i64 = sqlx::query_scalar(
            "SELECT (page_count - freelist_count) * page_size \
             FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()",
        )
        .fetch_one(db)
        .await?;
        self.used = u64::try_from(used).unwrap_or(0);
        (self.commits, self.measured) = (0, now);
        self.counts.store.database.set(used);
        Ok(())
    }
}
