//! Works the journal into the database, beside the writer.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Executor as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// After how many commits the journal is worked into the database.
const COMMITS_PER_CHECKPOINT: u64 = 500;

/// Starts the task that checkpoints on a connection of its own. It ends when the writer drops the sender.
pub(super) fn checkpoints(options: SqliteConnectOptions) -> (watch::Sender<u64>, JoinHandle<()>) {
    let (grown, mut commits) = watch::channel(0);
    let task = tokio::spawn(async move {
        let mut done = 0;
        loop {
            let enough = commits.wait_for(|now| *now >= done + COMMITS_PER_CHECKPOINT);
            let waited = tokio::time::timeout(Duration::from_secs(60), enough).await;
            let now = match waited.map(|commits| commits.map(|now| *now)) {
                Ok(Err(_)) => return,
                Ok(Ok(now)) => now,
                Err(_) => *commits.borrow(),
            };
            if now == done {
                continue;
            }
            done = now;
            // PASSIVE takes what it can get without making the writer wait.
            let checkpoint = async {
                let mut connection = SqliteConnection::connect_with(&options).await?;
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").await?;
                connection.close().await
            };
            if let Err(error) = checkpoint.await {
                tracing::warn!(%error, "a checkpoint failed; it is tried again");
            }
        }
    });
    (grown, task)
}
