//! What came in and was not acknowledged by the application yet.

use skald_relay_common::ids::PublicKey;
use sqlx::Row as _;

use super::{Store, Tx, bytes, key};
use crate::error::StoreError;

/// An event that waits for the application.
pub(crate) struct InboundRow {
    pub(crate) seq: i64,
    pub(crate) peer: PublicKey,
    pub(crate) what: InboundWhat,
    pub(crate) received_at: u64,
}

pub(crate) enum InboundWhat {
    /// As sealed as it came.
    Message { nonce: Vec<u8>, ciphertext: Vec<u8>, live: bool },
    /// A device paired in this window.
    Paired { window: u64 },
}

impl Store {
    /// Within the transaction that raises the receive mark (fault 14).
    pub(crate) async fn keep_message(
        tx: &mut Tx<'_>,
        peer: &PublicKey,
        nonce: &[u8],
        ciphertext: &[u8],
        live: bool,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO inbound (kind, peer, live, nonce, ciphertext, received_at) VALUES ('message', ?, ?, ?, ?, ?)",
        )
        .bind(bytes(peer))
        .bind(live)
        .bind(nonce)
        .bind(ciphertext)
        .bind(now_ms as i64)
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    /// Within the transaction that enters the device.
    pub(crate) async fn keep_paired(
        tx: &mut Tx<'_>,
        peer: &PublicKey,
        window: u64,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO inbound (kind, peer, live, window, received_at) VALUES ('paired', ?, 0, ?, ?)",
        )
        .bind(bytes(peer))
        .bind(window as i64)
        .bind(now_ms as i64)
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    pub(crate) async fn backlog(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query("SELECT count(*) FROM inbound").fetch_one(&self.pool).await?.try_get(0)?)
    }

    /// The oldest event after `seq`.
    pub(crate) async fn event_after(&self, seq: i64) -> Result<Option<InboundRow>, StoreError> {
        let row = sqlx::query("SELECT * FROM inbound WHERE seq > ? ORDER BY seq LIMIT 1")
            .bind(seq)
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let kind: String = row.try_get("kind")?;
        let what = if kind == "paired" {
            InboundWhat::Paired { window: row.try_get::<i64, _>("window")? as u64 }
        } else {
            InboundWhat::Message {
                nonce: row.try_get("nonce")?,
                ciphertext: row.try_get("ciphertext")?,
                live: row.try_get("live")?,
            }
        };
        Ok(Some(InboundRow {
            seq: row.try_get("seq")?,
            peer: key(&row, "peer")?,
            what,
            received_at: row.try_get::<i64, _>("received_at")? as u64,
        }))
    }

    pub(crate) async fn acknowledge(&self, seq: i64) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM inbound WHERE seq = ?").bind(seq).execute(&self.pool).await?;
        Ok(())
    }
}
