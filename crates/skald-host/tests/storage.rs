//! The data folder and the database: modes, lock, versions and what cannot be read.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::*;
use skald_core_api::*;
use skald_host::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn sql(dir: &Path, statement: &'static str) {
    let url = format!("sqlite://{}", dir.join("skald.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    sqlx::raw_sql(statement).execute(&pool).await.unwrap();
    pool.close().await;
}

async fn refused(dir: &Path) -> OpenError {
    match open(dir, &ManualClock::new(NOW), Vec::new()).await {
        Err(e) => e,
        Ok(_) => panic!("it opened"),
    }
}

#[tokio::test]
async fn the_folder_and_its_files_are_the_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/b");
    let host = open(&data, &ManualClock::new(NOW), Vec::new()).await.unwrap();
    host.inbox().create_approval(&Actor::Owner, bash("ls")).await.unwrap();
    assert_eq!(mode(&data), 0o700);
    let names: Vec<_> = std::fs::read_dir(&data).unwrap().map(|f| f.unwrap().path()).collect();
    assert!(names.len() >= 3, "{names:?}");
    assert!(names.iter().all(|f| mode(f) == 0o600), "{names:?}");
}

#[tokio::test]
async fn a_second_host_on_the_same_folder_is_told_so_and_harms_nothing() {
    let f = Fixture::new().await;
    let e = refused(f.dir.path()).await;
    assert!(matches!(e, OpenError::Locked(_)));
    assert!(e.to_string().contains("already running"));
    f.host.inbox().create_approval(&Actor::Owner, bash("ls")).await.unwrap();
    f.host.shutdown().await;
    f.host.shutdown().await;
    let again = open(f.dir.path(), &f.clock, Vec::new()).await.unwrap();
    assert_eq!(again.inbox().snapshot().await.unwrap().badge(), 1);
}

#[tokio::test]
async fn files_that_others_can_read_stop_the_start() {
    let f = Fixture::new().await;
    f.host.shutdown().await;
    let db = f.dir.path().join("skald.db");
    std::fs::set_permissions(&db, std::fs::Permissions::from_mode(0o644)).unwrap();
    let e = refused(f.dir.path()).await;
    assert!(matches!(e, OpenError::TooOpen { mode: 0o644, .. }));
    assert!(e.to_string().contains("chmod 600"));
    std::fs::set_permissions(&db, std::fs::Permissions::from_mode(0o600)).unwrap();
    open(f.dir.path(), &f.clock, Vec::new()).await.unwrap();
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_left_alone() {
    let f = Fixture::new().await;
    f.host.shutdown().await;
    sql(f.dir.path(), "PRAGMA user_version = 999").await;
    let e = refused(f.dir.path()).await;
    assert!(matches!(e, OpenError::Newer { found: 999, .. }));
    assert!(e.to_string().contains("update Skald"));
}

#[tokio::test]
async fn files_that_are_not_ours_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("skald.db");
    std::fs::write(
        &db,
        "this is a letter, not a database, and it is long enough to be looked at. ".repeat(20),
    )
    .unwrap();
    std::fs::set_permissions(&db, std::fs::Permissions::from_mode(0o600)).unwrap();
    let before = std::fs::read(&db).unwrap();
    assert!(matches!(refused(dir.path()).await, OpenError::NotOurs(_)));
    assert_eq!(std::fs::read(&db).unwrap(), before);
    std::fs::write(&db, "").unwrap();
    sql(dir.path(), "CREATE TABLE recipes (name TEXT)").await;
    assert!(matches!(refused(dir.path()).await, OpenError::NotOurs(_)));
}

#[tokio::test]
async fn a_folder_that_cannot_be_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let e = refused(&path).await;
        assert!(matches!(e, OpenError::Folder { .. }), "{e}");
        assert!(e.to_string().contains("--data"), "{e}");
    }
}

#[tokio::test]
async fn fault_20_settings_that_cannot_be_read_stop_the_start_and_stay() {
    for (statement, name) in [
        ("INSERT INTO settings VALUES ('history_days', 'ninety')", "history_days"),
        ("INSERT INTO settings VALUES ('history_days', '0')", "history_days"),
        ("INSERT INTO settings VALUES ('histroy_days', '5')", "histroy_days"),
        ("INSERT INTO settings VALUES ('default_timeout_secs', '\"x\"')", "default_timeout_secs"),
    ] {
        let f = Fixture::new().await;
        f.host.shutdown().await;
        sql(f.dir.path(), statement).await;
        let e = refused(f.dir.path()).await;
        assert!(matches!(e, OpenError::Settings(_)) && e.to_string().contains(name), "{e}");
        assert!(matches!(refused(f.dir.path()).await, OpenError::Settings(_)), "it was replaced");
    }
}

#[tokio::test]
async fn settings_change_all_or_nothing_within_their_bounds() {
    let f = Fixture::new().await;
    let update = SettingsUpdate { default_timeout_secs: Some(0), history_days: Some(10) };
    assert_eq!(fields(f.host.settings().update(update).await), ["default_timeout_secs"]);
    assert_eq!(f.host.settings().current(), Settings::default());
    let update = SettingsUpdate { history_days: Some(10), ..Default::default() };
    f.host.settings().update(update).await.unwrap();
    let f = f.crash().await;
    assert_eq!(f.host.settings().current(), Settings { history_days: 10, ..Default::default() });
}
