//! Who may come in: sign-in links, browser sessions and API tokens. Only hashes are stored.

use std::sync::Arc;

use serde::Serialize;
use skald_core_api::{Actor, Principal};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use crate::audit::{self, About};
use crate::secret::hash;
use crate::store::Store;
use crate::{Clock, Error, Secret, StoreError, rules};

const LINK_MS: i64 = 10 * 60 * 1000;
const SESSION_MS: i64 = 30 * 24 * 3600 * 1000;
/// Use is noted to the minute, so that reading a page does not cost a disk sync per request.
const NOTED_MS: i64 = 60_000;
/// A link or session from the future was made before the clock was set back; small corrections are forgiven.
const SET_BACK_MS: i64 = 60_000;

/// A one-time sign-in link's token and its end.
#[derive(Debug)]
pub struct SignInLink {
    /// Goes into the link's fragment.
    pub token: Secret,
    /// Ten minutes from its making.
    pub expires_at: i64,
}

/// A browser session that was just made.
#[derive(Debug)]
pub struct NewSession {
    /// Names the session in lists.
    pub id: String,
    /// The cookie's value.
    pub cookie: Secret,
    /// When it ends if it is not used (30 days, moved on by use).
    pub expires_at: i64,
}

/// A browser session, as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionInfo {
    /// Names it.
    pub id: String,
    /// When it was made.
    pub created_at: i64,
    /// When it was last used, to the minute.
    pub last_used: i64,
}

/// An API token, as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApiToken {
    /// Names it.
    pub name: String,
    /// When it was made.
    pub created_at: i64,
    /// When it was last used, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used: Option<i64>,
}

/// Sign-in links, sessions and API tokens. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    revocations: Arc<watch::Sender<u64>>,
}

impl Access {
    pub(crate) fn new(store: Arc<Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, revocations: Arc::new(watch::Sender::new(0)) }
    }

    /// A fresh one-time link token; 10 minutes.
    pub async fn create_link(&self) -> Result<SignInLink, Error> {
        let token = Secret::generate("")?;
        let now = self.clock.now_ms();
        let expires_at = now + LINK_MS;
        let mut tx = self.store.write().await?;
        sqlx::query("INSERT INTO signin_links (hash, created_at, expires_at) VALUES (?, ?, ?)")
            .bind(hash(token.expose()).to_vec())
            .bind(now)
            .bind(expires_at)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(SignInLink { token, expires_at })
    }

    /// Uses a link: `None` where it is unknown, used or lapsed.
    pub async fn redeem_link(&self, token: &str) -> Result<Option<NewSession>, Error> {
        let now = self.clock.now_ms();
        let mut tx = self.store.write().await?;
        // Deleting is the use: of two at once, one finds nothing.
        let used =
            sqlx::query("DELETE FROM signin_links WHERE hash = ? RETURNING hash, created_at, expires_at")
                .bind(hash(token).to_vec())
                .fetch_optional(&mut *tx)
                .await?;
        let Some(row) = used else { return Ok(None) };
        let good = same(&row, token)?
            && row.try_get::<i64, _>("expires_at")? > now
            && row.try_get::<i64, _>("created_at")? <= now + SET_BACK_MS;
        if !good {
            tx.commit().await?;
            return Ok(None);
        }
        let id = uuid::Uuid::new_v4().to_string();
        let cookie = Secret::generate("")?;
        let expires_at = now + SESSION_MS;
        sqlx::query(
            "INSERT INTO sessions (id, hash, created_at, last_used, expires_at) VALUES (?, ?, ?, ?, ?)",
        )
        .bind(&id)
        .bind(hash(cookie.expose()).to_vec())
        .bind(now)
        .bind(now)
        .bind(expires_at)
        .execute(&mut *tx)
        .await?;
        let about = About { subject: Some(&id), ..About::default() };
        audit::record(&mut tx, now, &Actor::Owner, "signed_in", about).await?;
        tx.commit().await?;
        Ok(Some(NewSession { id, cookie, expires_at }))
    }

    /// Who a session cookie speaks for, with the session; `None` where it is unknown or ended.
    pub async fn by_cookie(&self, cookie: &str) -> Result<Option<(Principal, SessionInfo)>, Error> {
        let now = self.clock.now_ms();
        let row =
            sqlx::query("SELECT id, hash, created_at, last_used, expires_at FROM sessions WHERE hash = ?")
                .bind(hash(cookie).to_vec())
                .fetch_optional(self.store.pool())
                .await?;
        let Some(row) = row else { return Ok(None) };
        let mut session = session(&row)?;
        if !same(&row, cookie)? || row.try_get::<i64, _>("expires_at")? <= now {
            return Ok(None);
        }
        if now >= session.last_used + NOTED_MS {
            session.last_used = now;
            let mut tx = self.store.write().await?;
            sqlx::query("UPDATE sessions SET last_used = ?, expires_at = ? WHERE id = ?")
                .bind(now)
                .bind(now + SESSION_MS)
                .bind(&session.id)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        }
        Ok(Some((Principal::Owner, session)))
    }

    /// Who an API token speaks for.
    pub async fn by_token(&self, token: &str) -> Result<Option<Principal>, Error> {
        let now = self.clock.now_ms();
        let row = sqlx::query("SELECT name, hash, last_used FROM tokens WHERE hash = ?")
            .bind(hash(token).to_vec())
            .fetch_optional(self.store.pool())
            .await?;
        let Some(row) = row else { return Ok(None) };
        if !same(&row, token)? {
            return Ok(None);
        }
        let name: String = row.try_get("name")?;
        let last_used: Option<i64> = row.try_get("last_used")?;
        if last_used.is_none_or(|at| now >= at + NOTED_MS) {
            let mut tx = self.store.write().await?;
            // By its hash: a token of the same name made meanwhile was not used.
            sqlx::query("UPDATE tokens SET last_used = ? WHERE hash = ?")
                .bind(now)
                .bind(hash(token).to_vec())
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        }
        Ok(Some(Principal::Token { name }))
    }

    /// All sessions, newest first.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        let rows = sqlx::query(
            "SELECT id, created_at, last_used FROM sessions WHERE expires_at > ? ORDER BY created_at DESC, id",
        )
        .bind(self.clock.now_ms())
        .fetch_all(self.store.pool())
        .await?;
        rows.iter().map(session).collect()
    }

    /// Ends a session; `NotFound` where there is none.
    pub async fn end_session(&self, id: &str) -> Result<(), Error> {
        let (this, id) = (self.clone(), id.to_owned());
        self.store
            .durably(async move {
                let now = this.clock.now_ms();
                let mut tx = this.store.write().await?;
                let gone =
                    sqlx::query("DELETE FROM sessions WHERE id = ?").bind(&id).execute(&mut *tx).await?;
                if gone.rows_affected() == 0 {
                    return Err(Error::NotFound("There is no such session.".into()));
                }
                let about = About { subject: Some(&id), ..About::default() };
                audit::record(&mut tx, now, &Actor::Owner, "session_ended", about).await?;
                tx.commit().await?;
                this.revocations.send_modify(|n| *n += 1);
                Ok(())
            })
            .await
    }

    /// Makes an API token; `Conflict` where the name is taken. The secret is shown here and never again.
    pub async fn create_token(&self, name: &str) -> Result<Secret, Error> {
        self.put_token(name, false).await
    }

    /// Makes an API token or replaces the secret of the one with that name (the command line's own, `cli`).
    pub async fn rotate_token(&self, name: &str) -> Result<Secret, Error> {
        let (this, name) = (self.clone(), name.to_owned());
        self.store
            .durably(async move {
                let secret = this.put_token(&name, true).await?;
                this.revocations.send_modify(|n| *n += 1);
                Ok(secret)
            })
            .await
    }

    async fn put_token(&self, name: &str, replace: bool) -> Result<Secret, Error> {
        check_name(name)?;
        let secret = Secret::generate("skald_")?;
        let now = self.clock.now_ms();
        let mut tx = self.store.write().await?;
        if replace {
            sqlx::query("DELETE FROM tokens WHERE name = ?").bind(name).execute(&mut *tx).await?;
        }
        let made = sqlx::query(
            "INSERT INTO tokens (name, hash, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
        )
        .bind(name)
        .bind(hash(secret.expose()).to_vec())
        .bind(now)
        .execute(&mut *tx)
        .await?;
        if made.rows_affected() == 0 {
            return Err(Error::Conflict(format!(
                "There is a token named {name} already: revoke it first or choose another name."
            )));
        }
        let about = About { subject: Some(name), ..About::default() };
        audit::record(&mut tx, now, &Actor::Owner, "token_created", about).await?;
        tx.commit().await?;
        Ok(secret)
    }

    /// All API tokens by name.
    pub async fn tokens(&self) -> Result<Vec<ApiToken>, Error> {
        let rows = sqlx::query("SELECT name, created_at, last_used FROM tokens ORDER BY name")
            .fetch_all(self.store.pool())
            .await?;
        rows.iter()
            .map(|row| {
                Ok(ApiToken {
                    name: row.try_get("name")?,
                    created_at: row.try_get("created_at")?,
                    last_used: row.try_get("last_used")?,
                })
            })
            .collect()
    }

    /// Revokes an API token and ends the bypasses of what it asked; `NotFound` where there is none.
    pub async fn revoke_token(&self, name: &str) -> Result<(), Error> {
        let (this, name) = (self.clone(), name.to_owned());
        self.store
            .durably(async move {
                let now = this.clock.now_ms();
                let mut tx = this.store.write().await?;
                let gone =
                    sqlx::query("DELETE FROM tokens WHERE name = ?").bind(&name).execute(&mut *tx).await?;
                if gone.rows_affected() == 0 {
                    return Err(Error::NotFound(format!(
                        "There is no token named {name}; list them with `skald token list`."
                    )));
                }
                rules::end_of_source(&mut tx, &Actor::Token { name: name.clone() }, now).await?;
                let about = About { subject: Some(&name), ..About::default() };
                audit::record(&mut tx, now, &Actor::Owner, "token_revoked", about).await?;
                tx.commit().await?;
                this.revocations.send_modify(|n| *n += 1);
                Ok(())
            })
            .await
    }

    /// Moves when a session or token ends: long-lived answers (events, long polls) check their principal again.
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }
}

fn session(row: &SqliteRow) -> Result<SessionInfo, Error> {
    Ok(SessionInfo {
        id: row.try_get("id")?,
        created_at: row.try_get("created_at")?,
        last_used: row.try_get("last_used")?,
    })
}

/// The row was found by the hash; the comparison that decides takes the same time whatever differs.
fn same(row: &SqliteRow, secret: &str) -> Result<bool, StoreError> {
    let stored: Vec<u8> = row.try_get("hash")?;
    Ok(stored.ct_eq(&hash(secret)).into())
}

/// Names appear in history as `token:NAME` and in URLs.
fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=64).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(());
    }
    let text =
        "`name` must have 1 to 64 characters: letters, digits, `-`, `_` and `.`, not starting with `.`.";
    Err(Error::field("name", text))
}
