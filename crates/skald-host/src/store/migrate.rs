//! The schema, as a list of steps that only ever grows.
//!
//! `PRAGMA user_version` counts the steps taken. It is part of the same transaction as the step, and unlike a table of
//! migrations it cannot collide with the tables plugins bring along.

use std::path::Path;

use sqlx::SqlitePool;

use crate::{OpenError, StoreError};

/// Append only: what has been released is never edited.
pub(super) const STEPS: [&str; 1] = [include_str!("../../migrations/0001_initial.sql")];

/// Marks the file as ours ("SkLd").
const APPLICATION_ID: i64 = 0x536b_4c64;

pub(super) async fn run(pool: &SqlitePool, data_dir: &Path) -> Result<(), OpenError> {
    let failed = |e: sqlx::Error| OpenError::Store(StoreError::from(e));
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let application: i64 =
        sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *tx).await.map_err(failed)?;
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *tx).await.map_err(failed)?;
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut *tx).await.map_err(failed)?;
    let fresh = application == 0 && found == 0 && tables == 0;
    if !fresh && application != APPLICATION_ID {
        return Err(OpenError::NotOurs(data_dir.join(super::folder::DATABASE)));
    }
    let known = STEPS.len() as i64;
    if found > known {
        return Err(OpenError::Newer { path: data_dir.to_owned(), found, known });
    }
    if fresh {
        sqlx::raw_sql("PRAGMA application_id = 1399540836").execute(&mut *tx).await.map_err(failed)?;
    }
    for (i, step) in STEPS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::raw_sql(*step).execute(&mut *tx).await.map_err(failed)?;
        let version = sqlx::AssertSqlSafe(format!("PRAGMA user_version = {}", i + 1));
        sqlx::raw_sql(version).execute(&mut *tx).await.map_err(failed)?;
    }
    tx.commit().await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn released_steps_are_never_edited() {
        let digests: Vec<String> =
            STEPS.iter().map(|s| hex::encode(Sha256::digest(s))).map(|d| d[..16].to_owned()).collect();
        assert_eq!(digests, ["68805d1787a97156"], "add a new step instead");
    }

    #[test]
    fn the_mark_is_spelled_the_same_twice() {
        assert_eq!(APPLICATION_ID, 1_399_540_836);
        assert_eq!(&APPLICATION_ID.to_be_bytes()[4..], b"SkLd");
    }
}
