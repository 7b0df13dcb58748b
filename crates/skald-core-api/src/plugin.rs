//! How a plugin is written: [`Plugin::start`] gives back a [`Running`] value; stopping consumes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{PluginContext, Principal};

/// What a plugin says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// Stable id, `a-z0-9-`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// JSON schema (draft 2020-12, a flat object) of the settings, with `title`, `description` and `default` per
    /// property. The settings page is drawn from it and input is checked against it.
    pub config_schema: Value,
}

/// Where a plugin stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// Not enabled.
    Disabled,
    /// Enabled, with nothing to do until it is configured.
    Idle,
    /// On its way up.
    Starting,
    /// At work.
    Running,
    /// At work, but something outside fails; it keeps trying.
    Degraded,
    /// It could not start, or died.
    Failed,
}

/// A plugin's status line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginStatus {
    /// Where it stands.
    pub state: PluginState,
    /// Why, in one plain sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Unix milliseconds.
    pub since: i64,
}

impl PluginStatus {
    /// Unix milliseconds now.
    pub fn now_ms() -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }

    /// A status that begins now.
    pub fn new(state: PluginState, message: Option<String>) -> Self {
        Self { state, message, since: Self::now_ms() }
    }
}

/// Why a plugin could not start: one plain sentence with what to do. Shown on its settings page.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub String);

/// One setting that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// The setting's name in the schema.
    pub field: String,
    /// One plain sentence that says what to write instead. Never the value itself.
    pub message: String,
}

/// A request below `/api/plugin/{id}/`. The host has authenticated it and checked `Host`, `Origin` and size.
#[derive(Debug, Clone)]
pub struct PluginRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// The path below `/api/plugin/{id}/`, split at slashes and percent-decoded.
    pub path: Vec<String>,
    /// The query's pairs.
    pub query: BTreeMap<String, String>,
    /// The body, at most 1 MiB.
    pub body: Bytes,
    /// Who asks. The plugin checks the permission each route needs.
    pub principal: Principal,
}

/// What a plugin answers.
#[derive(Debug, Clone)]
pub struct PluginResponse {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: String,
    /// The body. It is sent with `Cache-Control: no-store`.
    pub body: Bytes,
}

impl PluginResponse {
    /// A JSON answer.
    pub fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self { status, content_type: "application/json".into(), body: body.into() },
            Err(_) => Self::problem(500, "internal", "The answer could not be written."),
        }
    }

    /// An RFC 9457 problem: `code` is a short stable word, `detail` one plain sentence with what to do.
    pub fn problem(status: u16, code: &str, detail: &str) -> Self {
        let body = serde_json::json!({"type": format!("urn:skald:problem:{code}"), "title": code, "status": status, "detail": detail});
        Self { status, content_type: "application/problem+json".into(), body: body.to_string().into() }
    }
}

/// A plugin's own HTTP routes, served below `/api/plugin/{id}/` while it runs.
#[async_trait]
pub trait PluginHttp: Send + Sync {
    /// Answers one request. Unknown paths: a 404 problem.
    async fn handle(&self, request: PluginRequest) -> PluginResponse;
}

/// A plugin at work. It owns every task and registration that start made.
#[async_trait]
pub trait Running: Send + Sync {
    /// The routes it serves, if any.
    fn http(&self) -> Option<Arc<dyn PluginHttp>> {
        None
    }
    /// Returns when the plugin has died by itself, with the cause for people. Pending for as long as it lives.
    async fn died(&self) -> String;
    /// Stops everything and waits for it.
    async fn stop(self: Box<Self>);
}

/// A plugin, before it runs.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// What it says of itself.
    fn manifest(&self) -> Manifest;
    /// The OpenAPI `paths` object of its routes, keys below `/api/plugin/{id}/`; merged into the host's document.
    fn openapi_paths(&self) -> Value {
        Value::Object(serde_json::Map::new())
    }
    /// Checks settings beyond the schema without starting, one fault a setting.
    fn check_config(&self, config: &Value) -> Result<(), Vec<ConfigFault>> {
        let _ = config;
        Ok(())
    }
    /// Starts with settings that the schema admitted.
    async fn start(&self, config: Value, context: PluginContext) -> Result<Box<dyn Running>, StartError>;
}
