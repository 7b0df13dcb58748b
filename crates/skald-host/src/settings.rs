//! The host's own settings.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::Row;
use tokio::sync::watch;

use crate::inbox::limits;
use crate::store::Store;
use crate::{Error, FieldError, OpenError, StoreError};

/// The longest time history is kept, in days.
const HISTORY_DAYS: u32 = 3650;

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_timeout_secs: Option<u64>,
    /// See [`Settings::history_days`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_days: Option<u32>,
}

impl Settings {
    fn check(&self) -> Result<(), Vec<FieldError>> {
        let mut errors = Vec::new();
        if !(1..=limits::EXPIRES_IN).contains(&self.default_timeout_secs) {
            let text = format!("`default_timeout_secs` must be from 1 to {} seconds.", limits::EXPIRES_IN);
            errors.push(FieldError::new("default_timeout_secs", text));
        }
        if !(1..=HISTORY_DAYS).contains(&self.history_days) {
            let text = format!("`history_days` must be from 1 to {HISTORY_DAYS} days.");
            errors.push(FieldError::new("history_days", text));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// The host's own settings, kept in the database. Cheap to clone.
#[derive(Clone)]
pub struct SettingsStore {
    store: Arc<Store>,
    current: Arc<watch::Sender<Settings>>,
}

impl SettingsStore {
    /// Reads what is stored. What cannot be read stops the start: a default in its place would change what the owner
    /// chose without a word.
    pub(crate) async fn open(store: Arc<Store>) -> Result<Self, OpenError> {
        let rows = sqlx::query("SELECT name, value FROM settings")
            .fetch_all(store.pool())
            .await
            .map_err(StoreError::from)?;
        let Ok(Value::Object(mut merged)) = serde_json::to_value(Settings::default()) else {
            return Err(OpenError::Settings("no defaults".into()));
        };
        for row in rows {
            let name: String = row.try_get("name").map_err(StoreError::from)?;
            let text: String = row.try_get("value").map_err(StoreError::from)?;
            let value = serde_json::from_str(&text)
                .map_err(|_| OpenError::Settings(format!("`{name}` is not JSON")))?;
            merged.insert(name, value);
        }
        let text = Value::Object(merged).to_string();
        let settings: Settings =
            crate::from_json(text.as_bytes()).map_err(|e| OpenError::Settings(e.to_string()))?;
        settings.check().map_err(|e| OpenError::Settings(Error::Invalid(e).to_string()))?;
        Ok(Self { store, current: Arc::new(watch::Sender::new(settings)) })
    }

    /// What holds now.
    pub fn current(&self) -> Settings {
        self.current.borrow().clone()
    }

    /// What holds now and whenever it changes.
    pub fn watch(&self) -> watch::Receiver<Settings> {
        self.current.subscribe()
    }

    /// Changes settings; all of the update or nothing.
    pub async fn update(&self, update: SettingsUpdate) -> Result<Settings, Error> {
        let this = self.clone();
        self.store
            .durably(async move {
                let mut tx = this.store.write().await?;
                // Read while holding the writer's turn: two updates at once must not undo each other.
                let mut new = this.current();
                let mut changed = Map::new();
                if let Some(v) = update.default_timeout_secs {
                    new.default_timeout_secs = v;
                    changed.insert("default_timeout_secs".into(), v.into());
                }
                if let Some(v) = update.history_days {
                    new.history_days = v;
                    changed.insert("history_days".into(), v.into());
                }
                new.check().map_err(Error::Invalid)?;
                for (name, value) in changed {
                    sqlx::query(
                        "INSERT INTO settings (name, value) VALUES (?, ?)
                         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    )
                    .bind(name)
                    .bind(value.to_string())
                    .execute(&mut *tx)
                    .await?;
                }
                // Sent before the next writer gets its turn, which the commit gives up.
                let before = this.current.send_replace(new.clone());
                if let Err(e) = tx.commit().await {
                    this.current.send_replace(before);
                    return Err(e.into());
                }
                Ok(new)
            })
            .await
    }
}
