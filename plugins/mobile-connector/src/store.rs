//! What the connector remembers of devices: names, what they say of themselves, and what they were told.
//!
//! Keys and counters are not here: the relay client keeps those beside the seed. The tables bear the plugin's prefix
//! and are migrated here (design, How a plugin is written).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use skald_core_api::RequestId;
use skald_payloads::DeviceInfo;
use sqlx::{Row, SqlitePool};

use crate::DeviceKey;

/// The store failed; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("the connector's tables could not be read or written: {0}")]
pub struct StoreError(String);

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        // The text of a database error names files and tables, never values.
        Self(error.to_string())
    }
}

/// What a device was told, so that what was sent is also taken back after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// The items of the last stored snapshot it was sent; `None`: it never was sent one.
    pub told: Option<BTreeSet<RequestId>>,
    /// Items it was shown besides, in a live answer.
    pub shown: BTreeSet<RequestId>,
    /// The last notification it was sent.
    pub notified: i64,
}

/// What people know a device by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// The name the owner gave it.
    pub name: Option<String>,
    /// What it says of itself.
    pub info: Option<DeviceInfo>,
}

/// Each migration runs once, in order; an entry is never edited, only followed.
const MIGRATIONS: &[&str] = &["CREATE TABLE mobile_connector_devices (
        key TEXT PRIMARY KEY NOT NULL,
        name TEXT,
        info TEXT,
        told TEXT,
        shown TEXT,
        notified INTEGER NOT NULL
    ) STRICT"];

/// The tables. Cheap to clone.
#[derive(Clone)]
pub struct Store(SqlitePool);

impl Store {
    /// Brings the tables up to date.
    pub async fn open(db: SqlitePool) -> Result<Self, StoreError> {
        let mut tx = db.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query(
            "CREATE TABLE IF NOT EXISTS mobile_connector_migrations (version INTEGER PRIMARY KEY NOT NULL) STRICT",
        )
        .execute(&mut *tx)
        .await?;
        let done: i64 =
            sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM mobile_connector_migrations")
                .fetch_one(&mut *tx)
                .await?;
        let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
        if done > known {
            return Err(StoreError(
                "they were written by a later version of Skald; install that version again".into(),
            ));
        }
        for (version, sql) in (1i64..).zip(MIGRATIONS).filter(|(version, _)| *version > done) {
            sqlx::query(*sql).execute(&mut *tx).await?;
            sqlx::query("INSERT INTO mobile_connector_migrations (version) VALUES (?)")
                .bind(version)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(Self(db))
    }

    /// What a device was told. A device not met before starts at `head`, so that it is not told what is past.
    pub async fn memory(&self, key: DeviceKey, head: i64) -> Result<Memory, StoreError> {
        sqlx::query(
            "INSERT INTO mobile_connector_devices (key, notified) VALUES (?, ?) ON CONFLICT DO NOTHING",
        )
        .bind(key.to_string())
        .bind(head)
        .execute(&self.0)
        .await?;
        let row = sqlx::query("SELECT told, shown, notified FROM mobile_connector_devices WHERE key = ?")
            .bind(key.to_string())
            .fetch_one(&self.0)
            .await?;
        // A list that cannot be read means the device may hold anything: it counts as never told.
        let told = row.try_get::<Option<String>, _>(0)?.and_then(|text| serde_json::from_str(&text).ok());
        let shown = row.try_get::<Option<String>, _>(1)?.and_then(|text| serde_json::from_str(&text).ok());
        Ok(Memory { told, shown: shown.unwrap_or_default(), notified: row.try_get(2)? })
    }

    /// Remembers what a device was told. A device forgotten meanwhile stays forgotten.
    pub async fn remember(&self, key: DeviceKey, memory: &Memory) -> Result<(), StoreError> {
        let list = |ids: &BTreeSet<RequestId>| {
            Value::from(ids.iter().map(ToString::to_string).collect::<Vec<_>>()).to_string()
        };
        sqlx::query("UPDATE mobile_connector_devices SET told = ?, shown = ?, notified = ? WHERE key = ?")
            .bind(memory.told.as_ref().map(list))
            .bind(list(&memory.shown))
            .bind(memory.notified)
            .bind(key.to_string())
            .execute(&self.0)
            .await?;
        Ok(())
    }

    /// Keeps what a device says of itself.
    pub async fn set_info(&self, key: DeviceKey, info: &DeviceInfo, head: i64) -> Result<(), StoreError> {
        let text = serde_json::to_string(info).map_err(|e| StoreError(e.to_string()))?;
        sqlx::query(
            "INSERT INTO mobile_connector_devices (key, info, notified) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET info = ?2",
        )
        .bind(key.to_string())
        .bind(text)
        .bind(head)
        .execute(&self.0)
        .await?;
        Ok(())
    }

    /// Gives a device a name; `None` takes it away.
    pub async fn set_name(&self, key: DeviceKey, name: Option<&str>, head: i64) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO mobile_connector_devices (key, name, notified) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET name = ?2",
        )
        .bind(key.to_string())
        .bind(name)
        .bind(head)
        .execute(&self.0)
        .await?;
        Ok(())
    }

    /// What people know the devices by.
    pub async fn profiles(&self) -> Result<BTreeMap<DeviceKey, Profile>, StoreError> {
        let rows =
            sqlx::query("SELECT key, name, info FROM mobile_connector_devices").fetch_all(&self.0).await?;
        let mut profiles = BTreeMap::new();
        for row in rows {
            let Ok(key) = row.try_get::<String, _>(0)?.parse() else { continue };
            let info = row.try_get::<Option<String>, _>(2)?.and_then(|text| serde_json::from_str(&text).ok());
            profiles.insert(key, Profile { name: row.try_get(1)?, info });
        }
        Ok(profiles)
    }

    /// Forgets every device but these: one whose dropping a crash has interrupted leaves nothing behind.
    pub async fn forget_others(&self, known: &BTreeSet<DeviceKey>) -> Result<(), StoreError> {
        let mut tx = self.0.begin_with("BEGIN IMMEDIATE").await?;
        let kept: Vec<String> =
            sqlx::query_scalar("SELECT key FROM mobile_connector_devices").fetch_all(&mut *tx).await?;
        for key in kept.iter().filter(|key| key.parse().is_ok_and(|key| !known.contains(&key))) {
            sqlx::query("DELETE FROM mobile_connector_devices WHERE key = ?")
                .bind(key)
                .execute(&mut *tx)
                .await?;
        }
        Ok(tx.commit().await?)
    }

    /// Forgets a device.
    pub async fn forget(&self, key: DeviceKey) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM mobile_connector_devices WHERE key = ?")
            .bind(key.to_string())
            .execute(&self.0)
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: DeviceKey = DeviceKey([1; 32]);

    async fn pool(dir: &std::path::Path) -> SqlitePool {
        let options =
            sqlx::sqlite::SqliteConnectOptions::new().filename(dir.join("host.db")).create_if_missing(true);
        SqlitePool::connect_with(options).await.unwrap()
    }

    #[tokio::test]
    async fn what_a_device_was_told_survives_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(pool(dir.path()).await).await.unwrap();
        assert_eq!(store.memory(KEY, 7).await.unwrap(), Memory { notified: 7, ..Memory::default() });
        let ids = |n| [RequestId(uuid::Uuid::from_u128(n))].into();
        let told = Memory { told: Some(ids(3)), shown: ids(4), notified: 9 };
        store.remember(KEY, &told).await.unwrap();
        store.0.close().await;
        let store = Store::open(pool(dir.path()).await).await.unwrap();
        assert_eq!(store.memory(KEY, 100).await.unwrap(), told);
    }

    #[tokio::test]
    async fn names_and_infos_do_not_disturb_what_was_told_and_go_with_the_device() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(pool(dir.path()).await).await.unwrap();
        let info =
            DeviceInfo {
                platform: "cli".into(), device_name: Some("née ☂".into()), ..DeviceInfo::default()
            };
        store.set_info(KEY, &info, 5).await.unwrap();
        store.set_name(KEY, Some("Kitchen"), 6).await.unwrap();
        assert_eq!(store.memory(KEY, 7).await.unwrap().notified, 5);
        let profile = Profile { name: Some("Kitchen".into()), info: Some(info) };
        assert_eq!(store.profiles().await.unwrap(), [(KEY, profile)].into());
        store.forget(KEY).await.unwrap();
        assert!(store.profiles().await.unwrap().is_empty());
        // What was under way for it does not bring it back.
        store.remember(KEY, &Memory::default()).await.unwrap();
        assert!(store.profiles().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn damaged_rows_are_read_as_not_told() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(pool(dir.path()).await).await.unwrap();
        sqlx::query("INSERT INTO mobile_connector_devices VALUES (?, 'a', '{', '[1]', '7', 3), ('short', NULL, NULL, NULL, NULL, 0)")
            .bind(KEY.to_string())
            .execute(&store.0)
            .await
            .unwrap();
        assert_eq!(store.memory(KEY, 9).await.unwrap(), Memory { notified: 3, ..Memory::default() });
        assert_eq!(store.profiles().await.unwrap()[&KEY].info, None);
        assert_eq!(store.profiles().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn tables_of_a_later_version_are_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(pool(dir.path()).await).await.unwrap();
        sqlx::query("INSERT INTO mobile_connector_migrations VALUES (99)").execute(&store.0).await.unwrap();
        let Err(error) = Store::open(store.0.clone()).await else { panic!("opened") };
        assert!(error.to_string().contains("later version"));
    }

    #[tokio::test]
    async fn devices_that_are_no_more_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(pool(dir.path()).await).await.unwrap();
        let other = DeviceKey([8; 32]);
        for key in [KEY, other] {
            store.set_name(key, Some("Kitchen"), 0).await.unwrap();
        }
        store.forget_others(&BTreeSet::from([KEY])).await.unwrap();
        assert_eq!(store.profiles().await.unwrap().into_keys().collect::<Vec<_>>(), [KEY]);
    }
}
