//! Plugins: their settings, their lives and their faults.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use skald_core_api::{PluginHttp, PluginStatus};

use crate::{Error, StoreError};

/// How long the host is patient with plugins.
#[derive(Debug, Clone)]
pub struct PluginTimings {
    /// A start that takes longer has failed.
    pub start: Duration,
    /// A stop that takes longer is cut off.
    pub stop: Duration,
    /// The first pause before a plugin that died is started again; it doubles each time.
    pub backoff_first: Duration,
    /// The longest such pause.
    pub backoff_max: Duration,
    /// A plugin that lived so long has its pauses begin anew.
    pub steady: Duration,
}

impl Default for PluginTimings {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            stop: Duration::from_secs(10),
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            steady: Duration::from_secs(60),
        }
    }
}

/// A plugin, as its settings page shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginInfo {
    /// Stable id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// Whether it is to run.
    pub enabled: bool,
    /// Its settings, defaults filled in.
    pub config: Value,
    /// The JSON schema of its settings.
    pub schema: Value,
    /// Where it stands.
    pub status: PluginStatus,
}

/// All plugins. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(());

impl Plugins {
    /// All plugins, in the order they were registered.
    pub fn list(&self) -> Vec<PluginInfo> {
        Vec::new()
    }
    /// One plugin.
    pub fn get(&self, _id: &str) -> Option<PluginInfo> {
        None
    }
    /// Enables or disables it and replaces its settings; what is `None` stays. Returns when the new state is reached:
    /// a start that failed is told by the status, settings that do not hold by `Error::Invalid` (and the plugin runs
    /// on with the earlier ones).
    pub async fn update(
        &self,
        _id: &str,
        _enabled: Option<bool>,
        _config: Option<Value>,
    ) -> Result<PluginInfo, Error> {
        Err(Error::Store(StoreError::Stopping))
    }
    /// Its routes, while it runs. Panics in them become 500 problems.
    pub fn http(&self, _id: &str) -> Option<Arc<dyn PluginHttp>> {
        None
    }
    /// The OpenAPI `paths` object of each plugin, by id.
    pub fn openapi_paths(&self) -> Vec<(String, Value)> {
        Vec::new()
    }
}
