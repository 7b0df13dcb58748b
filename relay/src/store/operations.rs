//! The store as the rest of the relay calls it. Every write goes through the one writer.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use skald_relay_common::ids::{NamespaceId, PairingToken, PublicKey};
use skald_relay_common::limits::Limits;
use sqlx::Connection as _;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnection, SqlitePoolOptions};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::mailbox::{Sender, mailbox};
use super::operation::Operation;
use super::writer::Writer;
use super::{
    AbsentDevice, AfterCommit, Claim, Clock, Envelope, OpenError, Opened, Paired, Position, Queued,
    StoreError, Waiting, checkpoints, prepare, queries, reader, schema,
};
use crate::metrics::Counts;
use skald_relay_common::frame::Platform;

/// A handle on the store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Store {
    writer: Sender,
    readers: SqlitePool,
    clock: Clock,
    counts: Arc<Counts>,
    #[cfg(test)]
    commits: tokio::sync::watch::Receiver<u64>,
}

/// The writer, running. Ends when every [`Store`] is gone.
pub(crate) struct WriterTask {
    task: JoinHandle<()>,
    checkpoints: JoinHandle<()>,
}

impl WriterTask {
    /// Waits until everything that was accepted is on disk.
    pub(crate) async fn join(self) {
        for task in [self.task, self.checkpoints] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the store ended badly");
            }
        }
    }
}

impl Store {
    /// Opens the database in this folder, making both where they are missing.
    pub(crate) async fn open(
        folder: &Path,
        limits: &Limits,
        clock: Clock,
        after: Arc<dyn AfterCommit>,
        counts: Arc<Counts>,
    ) -> Result<(Self, WriterTask), OpenError> {
        let (options, lock) = prepare(folder)?;
        let path = options.get_filename().to_owned();
        let fail = |cause: sqlx::Error| OpenError::Database { path: path.clone(), cause };
        let mut connection = SqliteConnection::connect_with(&options).await.map_err(fail)?;
        match schema::version(&mut connection).await.map_err(fail)? {
            None => return Err(OpenError::Foreign(path)),
            Some(found) if found > schema::newest() => {
                return Err(OpenError::Newer { path, found, known: schema::newest() });
            }
            Some(found) if found > 0 && found < schema::newest() => {
                tracing::info!(from = found, to = schema::newest(), "the database is being upgraded");
            }
            Some(_) => {}
        }
        schema::MIGRATIONS.run(&mut connection).await.map_err(|e| fail(e.into()))?;
        let next = queries::last_position(&mut connection).await.map_err(fail)? + 1;
        counts.queue.set(queries::waiting(&mut connection).await.map_err(fail)?);
        let readers = SqlitePoolOptions::new()
            .min_connections(1)
            .max_connections(4)
            .connect_with(options.clone().pragma("query_only", "1"))
            .await
            .map_err(fail)?;
        let (send, receive) = mailbox(limits.store_backlog_per_namespace, Arc::clone(&counts));
        let (grown, checkpoints) = checkpoints::checkpoints(options.clone());
        #[cfg(test)]
        let commits = grown.subscribe();
        let writer = Writer::new(
            (connection, options),
            limits,
            clock.clone(),
            after,
            next,
            grown,
            Arc::clone(&counts),
        );
        let task = tokio::spawn(async move {
            writer.run(receive).await;
            // Only now may another relay open the folder.
            drop(lock);
        });
        let store = Self {
            writer: send,
            readers,
            clock,
            counts,
            #[cfg(test)]
            commits,
        };
        Ok((store, WriterTask { task, checkpoints }))
    }

    async fn ask<T>(
        &self,
        operation: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Operation,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.writer.send(operation(reply));
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Makes a namespace known to [`AfterCommit::opened`], if it exists.
    pub(crate) async fn open_namespace(&self, id: NamespaceId) -> Result<bool, StoreError> {
        self.ask(|reply| Operation::Open { id, reply }).await
    }

    /// The same for an agent, whose namespace is made, if that is allowed and it does not exist.
    pub(crate) async fn open_for_agent(
        &self,
        id: NamespaceId,
        agent: PublicKey,
        may_make: bool,
    ) -> Result<Opened, StoreError> {
        self.ask(|reply| Operation::OpenForAgent { id, agent, may_make, reply }).await
    }

    /// Notes that a namespace is in use.
    pub(crate) async fn touch(&self, id: NamespaceId) -> Result<(), StoreError> {
        self.ask(|reply| Operation::Touch { id, reply }).await
    }

    /// Notes what a device said when it connected; an empty token keeps the known one.
    pub(crate) async fn device_seen(
        &self,
        namespace: NamespaceId,
        key: PublicKey,
        token: String,
        platform: Platform,
    ) -> Result<(), StoreError> {
        self.ask(|reply| Operation::DeviceSeen { namespace, key, token, platform, reply }).await
    }

    /// Forgets a push token that its provider calls dead, unless it has changed meanwhile or the device has brought it
    /// later than it is said to have died.
    pub(crate) async fn forget_token(
        &self,
        namespace: NamespaceId,
        key: PublicKey,
        token: String,
        dead_since: Option<i64>,
    ) -> Result<(), StoreError> {
        self.ask(|reply| Operation::ForgetToken { namespace, key, token, dead_since, reply }).await
    }

    /// Opens a pairing window in place of any other.
    pub(crate) async fn start_pairing(
        &self,
        namespace: NamespaceId,
        token: PairingToken,
        ttl_secs: u32,
    ) -> Result<(), StoreError> {
        self.ask(|reply| Operation::StartPairing { namespace, token, ttl_secs, reply }).await
    }

    /// Closes the pairing window.
    pub(crate) async fn stop_pairing(&self, namespace: NamespaceId) -> Result<(), StoreError> {
        self.ask(|reply| Operation::StopPairing { namespace, reply }).await
    }

    /// Spends a token and registers its bearer, both or neither.
    pub(crate) async fn pair(&self, claim: Claim) -> Result<Paired, StoreError> {
        self.ask(|reply| Operation::Pair { claim: Box::new(claim), reply }).await
    }

    /// Replaces the list of authorised clients, whole or not at all, and gives their number.
    pub(crate) async fn authorize(
        &self,
        namespace: NamespaceId,
        list: Vec<PublicKey>,
    ) -> Result<u32, StoreError> {
        self.ask(|reply| Operation::Authorize { namespace, list, reply }).await
    }

    /// Makes a message durable and has it offered to its recipient.
    pub(crate) async fn enqueue(&self, envelope: Envelope) -> Result<Queued, StoreError> {
        self.ask(|reply| Operation::Enqueue { envelope, reply }).await
    }

    /// Deletes what the recipient has proved to have received.
    pub(crate) async fn confirm(
        &self,
        namespace: NamespaceId,
        recipient: PublicKey,
        through: Position,
    ) -> Result<(), StoreError> {
        self.ask(|reply| Operation::Confirm { namespace, recipient, through, reply }).await
    }

    /// Deletes one batch of what is out of date; true while there may be more.
    pub(crate) async fn sweep(&self) -> Result<bool, StoreError> {
        self.ask(|reply| Operation::Sweep { reply }).await
    }

    /// What waits for this recipient at these positions, oldest first, in a batch of bounded size.
    pub(crate) async fn waiting(
        &self,
        namespace: &NamespaceId,
        recipient: &PublicKey,
        range: RangeInclusive<Position>,
    ) -> Result<Waiting, StoreError> {
        reader::waiting(&self.readers, namespace, recipient, range).await
    }

    /// Looks how long the oldest message has waited, for the metrics.
    pub(crate) async fn sample(&self) -> Result<(), StoreError> {
        let oldest = reader::oldest(&self.readers).await?;
        let age = oldest.map_or(0, |came| self.clock.now().saturating_sub(came).max(0));
        self.counts.queue_oldest.set(age / 1000);
        Ok(())
    }

    /// The newest waiting message of a device with a push token.
    pub(crate) async fn absent_device(
        &self,
        namespace: &NamespaceId,
        key: &PublicKey,
    ) -> Result<Option<AbsentDevice>, StoreError> {
        reader::absent_device(&self.readers, namespace, key).await
    }

    /// How many transactions were committed.
    #[cfg(test)]
    pub(super) fn commits(&self) -> u64 {
        *self.commits.borrow()
    }

    /// Whether the database answers.
    pub(crate) async fn is_reachable(&self) -> bool {
        reader::ping(&self.readers).await
    }

    /// Closes the read side. The writer ends when the last handle is dropped.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
    }
}
