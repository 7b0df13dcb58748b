//! Who may come in: sign-in links, browser sessions and API tokens. Only hashes are stored.

use serde::Serialize;
use skald_core_api::Principal;
use tokio::sync::watch;

use crate::{Error, Secret, StoreError};

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
pub struct Access(watch::Receiver<u64>);

fn later<T>() -> Result<T, Error> {
    Err(Error::Store(StoreError::Stopping))
}

impl Access {
    /// A fresh one-time link token; 10 minutes.
    pub async fn create_link(&self) -> Result<SignInLink, Error> {
        later()
    }
    /// Uses a link: `None` where it is unknown, used or lapsed.
    pub async fn redeem_link(&self, _token: &str) -> Result<Option<NewSession>, Error> {
        later()
    }
    /// Who a session cookie speaks for, with the session; `None` where it is unknown or ended.
    pub async fn by_cookie(&self, _cookie: &str) -> Result<Option<(Principal, SessionInfo)>, Error> {
        later()
    }
    /// Who an API token speaks for.
    pub async fn by_token(&self, _token: &str) -> Result<Option<Principal>, Error> {
        later()
    }
    /// All sessions, newest first.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        later()
    }
    /// Ends a session; `NotFound` where there is none.
    pub async fn end_session(&self, _id: &str) -> Result<(), Error> {
        later()
    }
    /// Makes an API token; `Conflict` where the name is taken. The secret is shown here and never again.
    pub async fn create_token(&self, _name: &str) -> Result<Secret, Error> {
        later()
    }
    /// Makes an API token or replaces the secret of the one with that name (the command line's own, `cli`).
    pub async fn rotate_token(&self, _name: &str) -> Result<Secret, Error> {
        later()
    }
    /// All API tokens by name.
    pub async fn tokens(&self) -> Result<Vec<ApiToken>, Error> {
        later()
    }
    /// Revokes an API token and ends the bypasses of what it asked; `NotFound` where there is none.
    pub async fn revoke_token(&self, _name: &str) -> Result<(), Error> {
        later()
    }
    /// Moves when a session or token ends: long-lived answers (events, long polls) check their principal again.
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.0.clone()
    }
}
