//! Peers, their counters, and the list of authorised devices.

use sha2::{Digest as _, Sha256};
use skald_relay_common::ids::{PublicKey, XPublicKey};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::{Store, Tx, bytes, fact, key};
use crate::error::StoreError;

/// Whether the owner has admitted a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerState {
    Pending,
    Authorized,
}

/// A peer as stored.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) ed: PublicKey,
    pub(crate) x: XPublicKey,
    pub(crate) state: PeerState,
    pub(crate) platform: i32,
    pub(crate) created_at: i64,
    pub(crate) last_seen: Option<i64>,
    pub(crate) send_reserved: u64,
    pub(crate) recv_high: u64,
}

/// What [`Store::admit`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// A device that was not in the list.
    New,
    /// A known one under the same keys: its counters and its state go on.
    Again,
    /// A known one under another X25519 key: it is pending, and its counters are those of the new key.
    NewKey,
}

/// `created_at` and the like are SQLite integers; a clock beyond them is cut off.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn retired_key(ed: &PublicKey, x: &XPublicKey) -> [u8; 32] {
    Sha256::new().chain_update(ed.as_bytes()).chain_update(x.as_bytes()).finalize().into()
}

fn peer(row: &SqliteRow) -> Result<Peer, sqlx::Error> {
    let state: String = row.try_get("state")?;
    let counter = |column: &str| -> Result<u64, sqlx::Error> {
        let value: i64 = row.try_get(column)?;
        u64::try_from(value).map_err(|_| sqlx::Error::Decode("a negative counter".into()))
    };
    Ok(Peer {
        ed: key(row, "ed")?,
        x: key(row, "x")?,
        state: if state == "authorized" { PeerState::Authorized } else { PeerState::Pending },
        platform: row.try_get("platform")?,
        created_at: row.try_get("created_at")?,
        last_seen: row.try_get("last_seen")?,
        send_reserved: counter("send_reserved")?,
        recv_high: counter("recv_high")?,
    })
}

impl Store {
    pub(crate) async fn peers(&self) -> Result<Vec<Peer>, StoreError> {
        let rows = sqlx::query("SELECT * FROM peers ORDER BY created_at, ed").fetch_all(&self.pool).await?;
        Ok(rows.iter().map(peer).collect::<Result<_, _>>()?)
    }

    pub(crate) async fn peer(&self, ed: &PublicKey) -> Result<Option<Peer>, StoreError> {
        let row = sqlx::query("SELECT * FROM peers WHERE ed = ?")
            .bind(bytes(ed))
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.as_ref().map(peer).transpose()?)
    }

    /// The authorised devices and the revision of that list, as one consistent reading. An error is an error: nobody
    /// makes an empty list of it (fault 7).
    pub(crate) async fn authorized(&self) -> Result<(u64, Vec<PublicKey>), StoreError> {
        let mut tx = self.begin().await?;
        let revision = revision(&mut tx).await?;
        let rows = sqlx::query("SELECT ed FROM peers WHERE state = 'authorized' ORDER BY created_at, ed")
            .fetch_all(&mut *tx)
            .await?;
        let list = rows.iter().map(|r| key(r, "ed")).collect::<Result<_, _>>()?;
        tx.commit().await?;
        Ok((revision, list))
    }

    /// Takes in a device that paired. Under keys that were known, now or before it was dropped, the counters go on
    /// (fault 13); only other keys begin new ones.
    pub(crate) async fn admit(
        tx: &mut Tx<'_>,
        ed: &PublicKey,
        x: &XPublicKey,
        state: PeerState,
        platform: i32,
        now_ms: u64,
    ) -> Result<Admission, StoreError> {
        let known =
            sqlx::query("SELECT * FROM peers WHERE ed = ?").bind(bytes(ed)).fetch_optional(&mut **tx).await?;
        let known = known.as_ref().map(peer).transpose()?;
        if let Some(peer) = &known
            && peer.x == *x
        {
            sqlx::query("UPDATE peers SET platform = ? WHERE ed = ?")
                .bind(platform)
                .bind(bytes(ed))
                .execute(&mut **tx)
                .await?;
            return Ok(Admission::Again);
        }
        if let Some(peer) = &known {
            Self::retire(tx, peer).await?;
        }
        let (send, recv) = Self::counters_of(tx, ed, x).await?;
        let state = if state == PeerState::Authorized { "authorized" } else { "pending" };
        sqlx::query(
            "INSERT INTO peers (ed, x, state, platform, created_at, send_reserved, recv_high) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(bytes(ed))
        .bind(x.as_bytes().as_slice())
        .bind(state)
        .bind(platform)
        .bind(int(now_ms))
        .bind(send)
        .bind(recv)
        .execute(&mut **tx)
        .await?;
        if known.as_ref().is_some_and(|p| p.state == PeerState::Authorized) {
            next_revision(tx).await?;
        }
        Ok(if known.is_some() { Admission::NewKey } else { Admission::New })
    }

    async fn counters_of(tx: &mut Tx<'_>, ed: &PublicKey, x: &XPublicKey) -> Result<(i64, i64), StoreError> {
        let row = sqlx::query("SELECT send_reserved, recv_high FROM retired WHERE keys = ?")
            .bind(retired_key(ed, x).as_slice())
            .fetch_optional(&mut **tx)
            .await?;
        Ok(match row {
            Some(row) => (row.try_get(0)?, row.try_get(1)?),
            None => (0, 0),
        })
    }

    /// Drops a peer's entry with all that waits for it or from it, and keeps its counters under a hash of its keys.
    async fn retire(tx: &mut Tx<'_>, peer: &Peer) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO retired (keys, send_reserved, recv_high) VALUES (?, ?, ?)
             ON CONFLICT (keys) DO UPDATE SET send_reserved = max(send_reserved, excluded.send_reserved),
                                              recv_high = max(recv_high, excluded.recv_high)",
        )
        .bind(retired_key(&peer.ed, &peer.x).as_slice())
        .bind(int(peer.send_reserved))
        .bind(int(peer.recv_high))
        .execute(&mut **tx)
        .await?;
        sqlx::query("DELETE FROM peers WHERE ed = ?").bind(bytes(&peer.ed)).execute(&mut **tx).await?;
        Ok(())
    }

    /// Authorises a device. `None`: there is no such device; otherwise whether anything changed.
    pub(crate) async fn authorize(&self, ed: &PublicKey) -> Result<Option<bool>, StoreError> {
        let mut tx = self.begin().await?;
        let row =
            sqlx::query("SELECT * FROM peers WHERE ed = ?").bind(bytes(ed)).fetch_optional(&mut *tx).await?;
        let Some(found) = row.as_ref().map(peer).transpose()? else { return Ok(None) };
        if found.state == PeerState::Authorized {
            return Ok(Some(false));
        }
        sqlx::query("UPDATE peers SET state = 'authorized' WHERE ed = ?")
            .bind(bytes(ed))
            .execute(&mut *tx)
            .await?;
        next_revision(&mut tx).await?;
        tx.commit().await?;
        Ok(Some(true))
    }

    /// Drops a device. `false`: there is none.
    pub(crate) async fn revoke(&self, ed: &PublicKey) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let row =
            sqlx::query("SELECT * FROM peers WHERE ed = ?").bind(bytes(ed)).fetch_optional(&mut *tx).await?;
        let Some(found) = row.as_ref().map(peer).transpose()? else { return Ok(false) };
        Self::retire(&mut tx, &found).await?;
        next_revision(&mut tx).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Notes when a peer was last heard of. `false`: there is no such peer.
    pub(crate) async fn seen(&self, ed: &PublicKey, now_ms: u64) -> Result<bool, StoreError> {
        let done = sqlx::query("UPDATE peers SET last_seen = max(coalesce(last_seen, 0), ?) WHERE ed = ?")
            .bind(int(now_ms))
            .bind(bytes(ed))
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Makes a block of send counters durable before any of them is used.
    pub(crate) async fn reserve(tx: &mut Tx<'_>, ed: &PublicKey, up_to: u64) -> Result<(), StoreError> {
        sqlx::query("UPDATE peers SET send_reserved = max(send_reserved, ?) WHERE ed = ?")
            .bind(int(up_to))
            .bind(bytes(ed))
            .execute(&mut **tx)
            .await?;
        Ok(())
    }

    /// Raises the receive mark. `false`: it was there already, so this message was taken before.
    pub(crate) async fn raise_mark(
        tx: &mut Tx<'_>,
        ed: &PublicKey,
        counter: u64,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        let Ok(counter) = i64::try_from(counter) else { return Ok(false) };
        let done =
            sqlx::query("UPDATE peers SET recv_high = ?, last_seen = ? WHERE ed = ? AND recv_high < ?")
                .bind(counter)
                .bind(int(now_ms))
                .bind(bytes(ed))
                .bind(counter)
                .execute(&mut **tx)
                .await?;
        Ok(done.rows_affected() == 1)
    }
}

async fn revision(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let row = sqlx::query("SELECT value FROM meta WHERE key = ?")
        .bind(fact::REVISION)
        .fetch_optional(&mut **tx)
        .await?;
    let Some(row) = row else { return Ok(0) };
    let value: Vec<u8> = row.try_get(0)?;
    let value =
        <[u8; 8]>::try_from(value.as_slice()).map_err(|_| sqlx::Error::Decode("a revision".into()))?;
    Ok(u64::from_be_bytes(value))
}

async fn next_revision(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let next = revision(tx).await? + 1;
    super::set_fact(tx, fact::REVISION, &next.to_be_bytes()).await
}
