//! Messages on their way out.

use skald_relay_common::ids::PublicKey;
use sqlx::Row as _;

use super::{Store, Tx, bytes, key};
use crate::error::StoreError;

/// A message to take over.
pub(crate) struct NewRow<'a> {
    pub(crate) peer: &'a PublicKey,
    /// Messages of one slot replace one another.
    pub(crate) slot: Option<&'a str>,
    /// Framed, and sealed for this store.
    pub(crate) body: &'a [u8],
    /// Stays after it was handed on, until it is confirmed.
    pub(crate) kept: bool,
}

/// The context that binds a body at rest to its row's recipient.
pub(crate) fn context(peer: &PublicKey) -> Vec<u8> {
    [b"outbound".as_slice(), peer.as_bytes()].concat()
}

impl Store {
    /// Takes a message over: durable when this returns `Some`. `None`: `limit` messages of its sort, with a slot or without,
    /// wait for that peer already.
    pub(crate) async fn put(
        &self,
        row: NewRow<'_>,
        limit: i64,
        now_ms: u64,
    ) -> Result<Option<i64>, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(slot) = row.slot {
            // One under way stays: it may have arrived, and what was sealed must be sent or refused, never forgotten.
            // It stands before this one in the order, so the newest still wins.
            sqlx::query("DELETE FROM outbound WHERE peer = ? AND slot = ? AND nonce IS NULL")
                .bind(bytes(row.peer))
                .bind(slot)
                .execute(&mut *tx)
                .await?;
        }
        // Counted apart, so that no flood of other messages keeps out what replaces itself.
        let waiting: i64 = sqlx::query("SELECT count(*) FROM outbound WHERE peer = ? AND (slot IS NULL) = ?")
            .bind(bytes(row.peer))
            .bind(row.slot.is_none())
            .fetch_one(&mut *tx)
            .await?
            .try_get(0)?;
        if waiting >= limit {
            return Ok(None);
        }
        let done =
            sqlx::query("INSERT INTO outbound (peer, slot, body, kept, created_at) VALUES (?, ?, ?, ?, ?)")
                .bind(bytes(row.peer))
                .bind(row.slot)
                .bind(row.body)
                .bind(row.kept)
                .bind(now_ms as i64)
                .execute(&mut *tx)
                .await?;
        tx.commit().await?;
        Ok(Some(done.last_insert_rowid()))
    }

    /// Messages that were sealed and are not known to have been handed on; at most one a peer.
    pub(crate) async fn sealed(&self) -> Result<Vec<(i64, PublicKey)>, StoreError> {
        let rows = sqlx::query(
            "SELECT seq, peer FROM outbound WHERE nonce IS NOT NULL AND handed_at IS NULL ORDER BY seq",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|r| Ok((r.try_get("seq")?, key(r, "peer")?))).collect()
    }

    /// One of them, as it was sealed: nonce and ciphertext.
    pub(crate) async fn envelope(&self, seq: i64) -> Result<Option<(Vec<u8>, Vec<u8>)>, StoreError> {
        let row = sqlx::query("SELECT nonce, ciphertext FROM outbound WHERE seq = ? AND nonce IS NOT NULL")
            .bind(seq)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|r| Ok::<_, sqlx::Error>((r.try_get(0)?, r.try_get(1)?))).transpose()?)
    }

    /// The oldest messages that wait for each authorised peer: what has a slot first, for it says how things stand, and
    /// would otherwise wait behind every message that was put before it, to whomever.
    pub(crate) async fn waiting(&self) -> Result<Vec<(i64, PublicKey)>, StoreError> {
        let rows = sqlx::query(
            "SELECT min(o.seq) AS seq, o.peer AS peer FROM outbound o JOIN peers p ON p.ed = o.peer
             WHERE o.handed_at IS NULL AND p.state = 'authorized' GROUP BY o.peer, o.slot IS NULL
             ORDER BY o.slot IS NULL, 1",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|r| Ok((r.try_get("seq")?, key(r, "peer")?))).collect()
    }

    /// A waiting message's body, still sealed for this store.
    pub(crate) async fn body(tx: &mut Tx<'_>, seq: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let row = sqlx::query("SELECT body FROM outbound WHERE seq = ?")
            .bind(seq)
            .fetch_optional(&mut **tx)
            .await?;
        Ok(row.map(|r| r.try_get(0)).transpose()?)
    }

    /// Notes the envelope before it leaves.
    pub(crate) async fn set_sealed(
        tx: &mut Tx<'_>,
        seq: i64,
        nonce: &[u8],
        ciphertext: &[u8],
    ) -> Result<(), StoreError> {
        sqlx::query("UPDATE outbound SET nonce = ?, ciphertext = ? WHERE seq = ?")
            .bind(nonce)
            .bind(ciphertext)
            .bind(seq)
            .execute(&mut **tx)
            .await?;
        Ok(())
    }

    /// The relay read it: it is done with, or kept until the application confirms.
    pub(crate) async fn handed_on(&self, seq: i64, now_ms: u64) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM outbound WHERE seq = ? AND kept = 0").bind(seq).execute(&mut *tx).await?;
        sqlx::query(
            "UPDATE outbound SET handed_at = ?, attempts = attempts + 1, nonce = NULL, ciphertext = NULL WHERE seq = ?",
        )
        .bind(now_ms as i64)
        .bind(seq)
        .execute(&mut *tx)
        .await?;
        drop_superseded(&mut tx, seq).await?;
        Ok(tx.commit().await?)
    }

    /// The relay refused it for now: it will be sealed anew. Where a newer one of its slot waits, that one goes instead.
    pub(crate) async fn unseal(&self, seq: i64) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE outbound SET nonce = NULL, ciphertext = NULL WHERE seq = ?")
            .bind(seq)
            .execute(&mut *tx)
            .await?;
        drop_superseded(&mut tx, seq).await?;
        Ok(tx.commit().await?)
    }

    /// The relay will never take it.
    pub(crate) async fn discard(&self, seq: i64) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM outbound WHERE seq = ?").bind(seq).execute(&self.pool).await?;
        Ok(())
    }

    /// The application knows that the peer has it. Whether there was one.
    pub(crate) async fn confirm(&self, peer: &PublicKey, slot: &str) -> Result<bool, StoreError> {
        let done = sqlx::query("DELETE FROM outbound WHERE peer = ? AND slot = ?")
            .bind(bytes(peer))
            .bind(slot)
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// The slots that wait for confirmation.
    pub(crate) async fn kept(&self, peer: &PublicKey) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query(
            "SELECT slot FROM outbound WHERE peer = ? AND kept = 1 AND slot IS NOT NULL ORDER BY seq",
        )
        .bind(bytes(peer))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(|r| r.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// After a reconnection: what was handed on and never confirmed goes again, each time after twice the pause (1 s, 2 s
    /// … 1 h), so that an agent that is away finds few copies and not one for every reconnection.
    pub(crate) async fn repeat_kept(&self, now_ms: u64) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE outbound SET handed_at = NULL WHERE kept = 1 AND handed_at IS NOT NULL
             AND (? - handed_at >= min(3600000, 1000 * (1 << min(attempts - 1, 12))) OR handed_at > ?)",
        )
        .bind(now_ms as i64)
        .bind(now_ms as i64)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

/// What stayed only because it was under way goes where a newer one of its slot waits.
async fn drop_superseded(tx: &mut Tx<'_>, seq: i64) -> Result<(), StoreError> {
    sqlx::query(
        "DELETE FROM outbound WHERE seq = ? AND slot IS NOT NULL AND EXISTS (
             SELECT 1 FROM outbound n WHERE n.peer = outbound.peer AND n.slot = outbound.slot AND n.seq > outbound.seq)",
    )
    .bind(seq)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
