//! The host as one value.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skald_core_api::{LocalWeb, Plugin};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::notifications::Notifications;
use crate::plugins::Surroundings;
use crate::retention::Retention;
use crate::store::{Folder, Store};
use crate::{
    Access, Audit, Clock, EventHub, InboxService, OpenError, PluginTimings, Plugins, Rules, SettingsStore,
    Streams, SystemClock, inbox,
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

/// The host. Cheap to clone; all clones are one. Ends itself when the last clone is dropped, but only
/// [`Host::shutdown`] waits for the end.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    folder: Folder,
    store: Arc<Store>,
    inbox: InboxService,
    access: Access,
    rules: Rules,
    audit: Audit,
    plugins: Plugins,
    events: EventHub,
    streams: Streams,
    settings: SettingsStore,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Host {
    /// Opens the data folder: takes its lock, brings the database up to date and starts the clockwork. Plugins start
    /// with [`Host::start`].
    pub async fn open(config: HostConfig) -> Result<Self, OpenError> {
        let (store, folder) = Store::open(&config.data_dir).await?;
        let store = Arc::new(store);
        match Self::assemble(config, store.clone(), folder).await {
            Ok(host) => Ok(host),
            Err(e) => {
                store.close().await;
                Err(e)
            }
        }
    }

    async fn assemble(config: HostConfig, store: Arc<Store>, folder: Folder) -> Result<Self, OpenError> {
        let HostConfig { clock, plugins, plugin_timings, .. } = config;
        let stop = CancellationToken::new();
        let stop_on_drop = stop.clone().drop_guard();
        let events = EventHub::new();
        let streams = Streams::default();
        let settings = SettingsStore::open(store.clone()).await?;
        let rules = Rules::open(store.clone(), clock.clone(), events.clone()).await?;
        let notifications = Notifications::open(store.clone(), clock.clone(), events.clone()).await?;
        let inbox = InboxService::open(inbox::Parts {
            store: store.clone(),
            clock: clock.clone(),
            settings: settings.clone(),
            events: events.clone(),
            notifications,
            stop: stop.clone(),
        })
        .await?;
        let plugins = Plugins::open(
            plugins,
            Surroundings {
                store: store.clone(),
                clock: clock.clone(),
                events: events.clone(),
                streams: streams.clone(),
                inbox: inbox.clone(),
                data_dir: folder.path.clone(),
                timings: plugin_timings,
                stop: stop.clone(),
            },
        )
        .await?;
        store.tasks().spawn(inbox.clone().run());
        let retention = Retention {
            store: store.clone(),
            clock: clock.clone(),
            settings: settings.clone(),
            events: events.clone(),
            stop: stop.clone(),
        };
        store.tasks().spawn(retention.run());
        Ok(Self(Arc::new(Inner {
            access: Access::new(store.clone(), clock),
            audit: Audit::new(store.clone()),
            folder,
            store,
            inbox,
            rules,
            plugins,
            events,
            streams,
            settings,
            stop,
            _stop_on_drop: stop_on_drop,
        })))
    }

    /// Starts the plugins that are enabled and returns at once; [`Plugins::list`] tells how far they are.
    pub async fn start(&self, local_web: Arc<dyn LocalWeb>) {
        self.0.plugins.begin(local_web).await;
    }

    /// The data folder.
    pub fn data_dir(&self) -> &Path {
        &self.0.folder.path
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

    /// Cancelled when the host begins to stop: long answers end then.
    pub fn stopping(&self) -> CancellationToken {
        self.0.stop.child_token()
    }

    /// Stops the plugins, ends every wait and joins every task; then gives the data folder back. Calling it twice is
    /// harmless.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.plugins.stop().await;
        self.0.store.close().await;
        self.0.folder.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, NewApproval, StoreError};
    use skald_core_api::{Actor, Inbox};

    fn new(detail: usize) -> NewApproval {
        NewApproval {
            tool_name: "Bash".into(),
            summary: "ls".into(),
            detail: Some("x".repeat(detail)),
            ..Default::default()
        }
    }

    /// Lets the database grow no further, as a full disk does.
    async fn fill(host: &Host, full: bool) {
        let mut held = Vec::new();
        while held.len() < 6 {
            held.push(host.0.store.pool().acquire().await.unwrap());
        }
        for connection in &mut held {
            let limit = if full { "PRAGMA max_page_count = 1" } else { "PRAGMA max_page_count = 1000000" };
            sqlx::raw_sql(limit).execute(&mut **connection).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_full_disk_is_told_plainly_and_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::open(HostConfig::new(dir.path(), Vec::new())).await.unwrap();
        let inbox = host.inbox();
        inbox.create_approval(&Actor::Owner, new(10)).await.unwrap();
        let before = inbox.snapshot().await.unwrap();
        fill(&host, true).await;
        let e = inbox.create_approval(&Actor::Owner, new(60_000)).await.unwrap_err();
        assert!(matches!(e, Error::Store(StoreError::DiskFull)), "{e}");
        assert!(e.to_string().contains("free some space"));
        assert_eq!(inbox.snapshot().await.unwrap(), before);
        fill(&host, false).await;
        inbox.create_approval(&Actor::Owner, new(60_000)).await.unwrap();
        host.shutdown().await;
        let host = Host::open(HostConfig::new(dir.path(), Vec::new())).await.unwrap();
        assert_eq!(host.inbox().snapshot().await.unwrap().badge(), 2);
        host.shutdown().await;
    }

    #[tokio::test]
    async fn dropping_the_last_clone_gives_the_folder_back() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::open(HostConfig::new(dir.path(), Vec::new())).await.unwrap();
        let other = host.clone();
        drop(host);
        assert!(Host::open(HostConfig::new(dir.path(), Vec::new())).await.is_err());
        drop(other);
        Host::open(HostConfig::new(dir.path(), Vec::new())).await.unwrap();
    }
}
