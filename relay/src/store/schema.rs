//! The versions of the database, each made from the one before in a transaction of its own.

use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnection;

/// What makes each version from the one before. A version that was ever released is never edited.
pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// The version that this program writes.
pub(crate) fn newest() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The version of a database; 0 where there is none yet, and `None` where it is no relay's.
pub(crate) async fn version(db: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
    let tables: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    )
    .fetch_one(&mut *db)
    .await?;
    if tables == 0 {
        return Ok(Some(0));
    }
    let ours: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name IN ('_sqlx_migrations', 'namespaces', 'queue')",
    )
    .fetch_one(&mut *db)
    .await?;
    if ours != 3 {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations WHERE success").fetch_one(db).await
}
