//! Plugins: their settings, their lives and their faults.

mod config;
mod entry;
mod guard;
mod supervisor;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use skald_core_api::{LocalWeb, Plugin, PluginHttp, PluginState, PluginStatus};
use sqlx::Row;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::store::Store;
use crate::{Clock, Error, EventHub, InboxService, OpenError, StoreError, Streams};
use config::Stored;
use entry::{Command, Entry};
use supervisor::Supervisor;

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
pub struct Plugins(Arc<Registry>);

struct Registry {
    entries: Vec<Arc<Entry>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    stop: CancellationToken,
}

/// What plugins are given, and what the host's plugin manager needs.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub store: Arc<Store>,
    pub clock: Arc<dyn Clock>,
    pub events: EventHub,
    pub streams: Streams,
    pub inbox: InboxService,
    pub data_dir: std::path::PathBuf,
    pub timings: PluginTimings,
    pub stop: CancellationToken,
}

impl Plugins {
    /// Reads what is stored about each plugin and sets a supervisor over each. None starts before [`Plugins::begin`].
    pub(crate) async fn open(plugins: Vec<Arc<dyn Plugin>>, around: Surroundings) -> Result<Self, OpenError> {
        let rows = sqlx::query("SELECT id, enabled, config FROM plugins")
            .fetch_all(around.store.pool())
            .await
            .map_err(StoreError::from)?;
        let mut seen = HashSet::new();
        let mut ready = Vec::new();
        for plugin in plugins {
            let manifest = plugin.manifest();
            let id = manifest.id.clone();
            let fault = |cause: String| OpenError::Plugin { id: id.clone(), cause };
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if id.is_empty() || !id.chars().all(plain) {
                return Err(fault("its id must be of a-z, 0-9 and -.".into()));
            }
            if !seen.insert(id.clone()) {
                return Err(fault("its id is taken by another plugin.".into()));
            }
            let schema = config::Schema::new(&manifest.config_schema).map_err(fault)?;
            let mut stored = Stored::default();
            for row in &rows {
                if row.try_get::<String, _>("id").map_err(StoreError::from)? == id {
                    let text: String = row.try_get("config").map_err(StoreError::from)?;
                    stored = Stored {
                        enabled: row.try_get("enabled").map_err(StoreError::from)?,
                        config: serde_json::from_str(&text).ok(),
                    };
                }
            }
            let (commands, inbox) = mpsc::channel(16);
            ready.push((Arc::new(Entry::new(plugin, manifest, schema, stored, commands, &around)), inbox));
        }
        let stop = around.stop.clone();
        let mut entries = Vec::new();
        let mut tasks = Vec::new();
        for (entry, commands) in ready {
            entries.push(entry.clone());
            tasks.push(tokio::spawn(Supervisor::new(entry, commands, around.clone()).run()));
        }
        Ok(Self(Arc::new(Registry { entries, tasks: Mutex::new(tasks), stop })))
    }

    /// Starts what is enabled, each in its own time.
    pub(crate) async fn begin(&self, local_web: Arc<dyn LocalWeb>) {
        for entry in &self.0.entries {
            // A supervisor that is gone means the host is stopping.
            let _ = entry.commands.send(Command::Begin(local_web.clone())).await;
        }
    }

    /// Stops all at once and waits for each.
    pub(crate) async fn stop(&self) {
        self.0.stop.cancel();
        let tasks = std::mem::take(&mut *self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            if let Err(e) = task.await {
                tracing::error!(error = %e, "a plugin's supervisor failed");
            }
        }
    }

    fn find(&self, id: &str) -> Option<&Arc<Entry>> {
        self.0.entries.iter().find(|e| e.manifest.id == id)
    }

    /// All plugins, in the order they were registered.
    pub fn list(&self) -> Vec<PluginInfo> {
        self.0.entries.iter().map(|e| e.info()).collect()
    }

    /// One plugin.
    pub fn get(&self, id: &str) -> Option<PluginInfo> {
        self.find(id).map(|e| e.info())
    }

    /// Enables or disables it and replaces its settings; what is `None` stays. Returns when the new state is reached:
    /// a start that failed is told by the status, settings that do not hold by `Error::Invalid` (and the plugin runs
    /// on with the earlier ones). Changes to one plugin take their turns; one that was begun ends even if its caller
    /// goes away.
    pub async fn update(
        &self,
        id: &str,
        enabled: Option<bool>,
        config: Option<Value>,
    ) -> Result<PluginInfo, Error> {
        let entry = self.find(id).ok_or_else(|| {
            Error::NotFound(format!("There is no plugin {id}; list them with `skald plugins`."))
        })?;
        let (reply, answer) = oneshot::channel();
        let stopping = || Error::Store(StoreError::Stopping);
        entry.commands.send(Command::Update { enabled, config, reply }).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// Its routes, while it runs. Panics in them become 500 problems.
    pub fn http(&self, id: &str) -> Option<Arc<dyn PluginHttp>> {
        self.find(id)?.http()
    }

    /// Follows a plugin's status.
    pub fn status(&self, id: &str) -> Option<tokio::sync::watch::Receiver<PluginStatus>> {
        self.find(id).map(|e| e.watch())
    }

    /// The OpenAPI `paths` object of each plugin, by id. One that panics over it has none.
    pub fn openapi_paths(&self) -> Vec<(String, Value)> {
        let paths = |e: &Arc<Entry>| guard::calm(|| e.plugin.openapi_paths()).unwrap_or(Value::Null);
        self.0.entries.iter().map(|e| (e.manifest.id.clone(), paths(e))).collect()
    }
}

/// Whether this state means that the plugin is there.
fn alive(state: PluginState) -> bool {
    matches!(state, PluginState::Idle | PluginState::Running | PluginState::Degraded)
}
