//! The host's own settings.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{Error, StoreError};

/// The host's own settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Seconds until a question lapses whose source names no time. 1 second to 30 days.
    pub default_timeout_secs: u64,
    /// Days that ended items and notifications are kept. 1 to 3650.
    pub history_days: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { default_timeout_secs: 86_400, history_days: 90 }
    }
}

/// Settings as sent: what is missing stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsUpdate {
    /// See [`Settings::default_timeout_secs`].
    #[serde(default)]
    pub default_timeout_secs: Option<u64>,
    /// See [`Settings::history_days`].
    #[serde(default)]
    pub history_days: Option<u32>,
}

/// The host's own settings, kept in the database. Cheap to clone.
#[derive(Clone)]
pub struct SettingsStore(watch::Receiver<Settings>);

impl SettingsStore {
    /// What holds now.
    pub fn current(&self) -> Settings {
        self.0.borrow().clone()
    }
    /// Changes settings; all of the update or nothing.
    pub async fn update(&self, _update: SettingsUpdate) -> Result<Settings, Error> {
        Err(Error::Store(StoreError::Stopping))
    }
}
