//! What the host hands to a plugin.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use crate::{Inbox, LocalWeb, PluginState, PluginStatus, StreamRegistry};

/// Something changed that live pages show. It says what to read again, never the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Pending items or history.
    Inbox,
    /// Plugins, their status or settings.
    Plugins,
    /// Devices or pairing.
    Devices,
}

/// Tells live pages that something changed. Never blocks.
pub trait Events: Send + Sync {
    /// Announces a change.
    fn publish(&self, event: Event);
}

/// A plugin's own line on its status.
#[derive(Clone)]
pub struct StatusReporter(watch::Sender<PluginStatus>);

impl StatusReporter {
    /// Reports into `sender`, which the host watches.
    pub fn new(sender: watch::Sender<PluginStatus>) -> Self {
        Self(sender)
    }

    /// Sets state and, for people, why (one plain sentence). Equal to what stands: nothing is announced.
    pub fn set(&self, state: PluginState, message: Option<String>) {
        self.0.send_if_modified(|s| {
            let changed = s.state != state || s.message != message;
            if changed {
                *s = PluginStatus { state, message, since: PluginStatus::now_ms() };
            }
            changed
        });
    }
}

/// The host, as one plugin sees it. Cheap to clone.
#[derive(Clone)]
pub struct PluginContext {
    /// The host's data folder; a plugin keeps to a subfolder of its own (the mobile connector: `relay/`).
    pub data_dir: PathBuf,
    /// The host's database. A plugin's tables bear its prefix (`mobile_connector_…`) and it migrates them itself.
    pub db: sqlx::SqlitePool,
    /// The Inbox.
    pub inbox: Arc<dyn Inbox>,
    /// Announcements to live pages.
    pub events: Arc<dyn Events>,
    /// Stream handlers by type.
    pub streams: Arc<dyn StreamRegistry>,
    /// The host's own web server.
    pub local_web: Arc<dyn LocalWeb>,
    /// The plugin's status line.
    pub status: StatusReporter,
}
