//! What everyone may see of a plugin, whatever its supervisor is doing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use skald_core_api::{Event, Events, LocalWeb, Manifest, Plugin, PluginHttp, PluginState, PluginStatus};
use tokio::sync::{mpsc, oneshot, watch};

use super::config::{Schema, Stored};
use super::{PluginInfo, Surroundings};
use crate::Error;

pub(super) enum Command {
    Begin(Arc<dyn LocalWeb>),
    Update { enabled: Option<bool>, config: Option<Value>, reply: oneshot::Sender<Result<PluginInfo, Error>> },
}

/// What everyone may see of a plugin.
pub(super) struct Entry {
    pub plugin: Arc<dyn Plugin>,
    pub manifest: Manifest,
    /// Full: the one who updates waits.
    pub commands: mpsc::Sender<Command>,
    pub schema: Schema,
    stored: Mutex<Stored>,
    status: watch::Sender<PluginStatus>,
    http: Mutex<Option<Arc<dyn PluginHttp>>>,
    pub events: crate::EventHub,
    clock: Arc<dyn crate::Clock>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    pub(super) fn new(
        plugin: Arc<dyn Plugin>,
        manifest: Manifest,
        schema: Schema,
        stored: Stored,
        commands: mpsc::Sender<Command>,
        around: &Surroundings,
    ) -> Self {
        let since = around.clock.now_ms();
        Self {
            plugin,
            manifest,
            commands,
            schema,
            stored: Mutex::new(stored),
            status: watch::Sender::new(PluginStatus { state: PluginState::Disabled, message: None, since }),
            http: Mutex::new(None),
            events: around.events.clone(),
            clock: around.clock.clone(),
        }
    }

    pub(super) fn info(&self) -> PluginInfo {
        let stored = self.stored();
        PluginInfo {
            id: self.manifest.id.clone(),
            name: self.manifest.name.clone(),
            description: self.manifest.description.clone(),
            enabled: stored.enabled,
            config: stored.config.map_or(Value::Null, |c| self.schema.complete(&c)),
            schema: self.manifest.config_schema.clone(),
            status: self.status.borrow().clone(),
        }
    }

    pub(super) fn stored(&self) -> Stored {
        locked(&self.stored).clone()
    }

    pub(super) fn store(&self, new: Stored) {
        *locked(&self.stored) = new;
    }

    pub(super) fn state(&self) -> PluginState {
        self.status.borrow().state
    }

    pub(super) fn http(&self) -> Option<Arc<dyn PluginHttp>> {
        locked(&self.http).clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<PluginStatus> {
        self.status.subscribe()
    }

    pub(super) fn set_http(&self, http: Option<Arc<dyn PluginHttp>>) {
        // Dropped outside the lock: a plugin's value may do anything when it goes.
        let old = std::mem::replace(&mut *locked(&self.http), http);
        drop(old);
    }

    pub(super) fn show(&self, state: PluginState, message: Option<String>) {
        let since = self.clock.now_ms();
        let changed = self.status.send_if_modified(|s| {
            let changed = s.state != state || s.message != message;
            if changed {
                *s = PluginStatus { state, message, since };
            }
            changed
        });
        if changed {
            self.events.publish(Event::Plugins);
        }
    }
}
