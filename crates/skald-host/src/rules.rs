//! Bypasses: what was approved for a while.

use serde::Serialize;
use skald_core_api::Actor;

use crate::{Error, StoreError};

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

/// The rules. Cheap to clone.
#[derive(Clone)]
pub struct Rules(());

fn later<T>() -> Result<T, Error> {
    Err(Error::Store(StoreError::Stopping))
}

impl Rules {
    /// Bypasses in force, newest first.
    pub async fn list(&self) -> Result<Vec<Bypass>, Error> {
        later()
    }
    /// Ends a bypass; `NotFound` where there is none in force.
    pub async fn end(&self, _id: i64, _by: &Actor) -> Result<(), Error> {
        later()
    }
    /// Which bypass would decide such a call now; counts nothing.
    pub async fn decide(
        &self,
        _source: &Actor,
        _tool_name: &str,
        _agent_label: &str,
        _session: Option<&str>,
    ) -> Result<Option<Bypass>, Error> {
        later()
    }
}
