//! The one task that writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use skald_relay_common::frame::{ClientPaired, Platform};
use skald_relay_common::ids::{NamespaceId, PairingToken, PublicKey};
use skald_relay_common::limits::Limits;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Executor as _};
use subtle::ConstantTimeEq as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::{AfterCommit, Claim, Clock, Envelope, Paired, Position, Queued, StoreError, queries, sweep};

/// How many operations one commit gathers at most.
const BATCH: usize = 128;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Something to be written, with where the answer goes.
pub(super) enum Operation {
    Open { id: NamespaceId, reply: Reply<bool> },
    OpenForAgent { id: NamespaceId, agent: PublicKey, reply: Reply<()> },
    Touch { id: NamespaceId, reply: Reply<()> },
    DeviceSeen { namespace: NamespaceId, key: PublicKey, token: String, platform: Platform, reply: Reply<()> },
    ForgetToken { namespace: NamespaceId, key: PublicKey, token: String, reply: Reply<()> },
    StartPairing { namespace: NamespaceId, token: PairingToken, ttl_secs: u32, reply: Reply<()> },
    StopPairing { namespace: NamespaceId, reply: Reply<()> },
    Pair { claim: Box<Claim>, reply: Reply<Paired> },
    Authorize { namespace: NamespaceId, list: Vec<PublicKey>, reply: Reply<u32> },
    Enqueue { envelope: Envelope, reply: Reply<Queued> },
    Confirm { namespace: NamespaceId, recipient: PublicKey, through: Position, reply: Reply<()> },
    Sweep { reply: Reply<bool> },
}

impl Operation {
    /// Operations after which membership differs end a batch, so that what follows is judged by the new one.
    const fn ends_batch(&self) -> bool {
        matches!(self, Self::Authorize { .. } | Self::Sweep { .. })
    }

    /// Answers that it failed.
    fn fail(self, error: StoreError) {
        fn tell<T>(reply: Reply<T>, error: StoreError) {
            // Who no longer listens needs no answer.
            let _ = reply.send(Err(error));
        }
        match self {
            Self::Open { reply, .. } | Self::Sweep { reply } => tell(reply, error),
            Self::OpenForAgent { reply, .. }
            | Self::Touch { reply, .. }
            | Self::DeviceSeen { reply, .. }
            | Self::ForgetToken { reply, .. }
            | Self::StartPairing { reply, .. }
            | Self::StopPairing { reply, .. }
            | Self::Confirm { reply, .. } => tell(reply, error),
            Self::Pair { reply, .. } => tell(reply, error),
            Self::Authorize { reply, .. } => tell(reply, error),
            Self::Enqueue { reply, .. } => tell(reply, error),
        }
    }
}

/// What is told once the commit is on disk.
type Told = Box<dyn FnOnce(&dyn AfterCommit) + Send>;

/// The outcome of one operation inside a transaction that is not committed yet.
struct Work {
    told: Vec<Told>,
    /// Messages that are not in the database yet.
    inserts: Vec<(Position, Envelope)>,
    /// Messages that are, and may be offered once they are durable.
    written: Vec<(Position, Envelope)>,
}

impl Work {
    async fn write_messages(&mut self, db: &mut SqliteConnection, now: i64) -> Result<(), StoreError> {
        queries::insert(db, &self.inserts, now).await?;
        self.written.append(&mut self.inserts);
        Ok(())
    }
}

pub(super) struct Writer {
    connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    after: Arc<dyn AfterCommit>,
    clock: Clock,
    queue_per_client: u32,
    queue_ttl_ms: i64,
    namespace_ttl_ms: i64,
    next: Position,
    /// How many messages wait for a recipient, where that is known. Forgotten whenever it might be wrong.
    depths: HashMap<(NamespaceId, PublicKey), u32>,
    /// Commits so far, for the checkpoints.
    grown: watch::Sender<u64>,
}

impl Writer {
    pub(super) fn new(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        limits: &Limits,
        clock: Clock,
        after: Arc<dyn AfterCommit>,
        next: Position,
        grown: watch::Sender<u64>,
    ) -> Self {
        Self {
            connection: Some(connection),
            options,
            after,
            clock,
            queue_per_client: limits.queue_per_client,
            queue_ttl_ms: i64::from(limits.queue_ttl_secs) * 1000,
            namespace_ttl_ms: i64::from(limits.namespace_ttl_secs) * 1000,
            next,
            depths: HashMap::new(),
            grown,
        }
    }

    pub(super) async fn run(mut self, mut mailbox: mpsc::Receiver<Operation>) {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(first) = mailbox.recv().await {
            let mut ended = first.ends_batch();
            batch.push(first);
            while !ended && batch.len() < BATCH {
                let Ok(next) = mailbox.try_recv() else { break };
                ended = next.ends_batch();
                batch.push(next);
            }
            self.commit(&mut batch).await;
        }
        if let Some(mut connection) = self.connection.take() {
            // Leaves one file behind instead of three; what is in the journal is safe either way.
            let _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
            let _ = connection.close().await;
        }
    }

    /// Runs a batch in one transaction. If any of it fails all of it is undone and everybody learns so.
    async fn commit(&mut self, batch: &mut Vec<Operation>) {
        let mut replies = Vec::with_capacity(batch.len());
        let outcome = self.transact(batch, &mut replies).await;
        match outcome {
            Ok(told) => {
                let after = Arc::clone(&self.after);
                told.into_iter().for_each(|tell| tell(&*after));
                replies.into_iter().for_each(|reply: Told| reply(&*after));
                self.grown.send_modify(|commits| *commits += 1);
            }
            Err(error) => {
                tracing::error!(%error, operations = batch.len(), "nothing could be written to the database");
                self.depths.clear();
                // The connection may be in any state, and dropping it rolls back whatever was begun.
                self.connection = None;
                batch.drain(..).for_each(|operation| operation.fail(error.clone()));
            }
        }
        batch.clear();
    }

    async fn transact(
        &mut self,
        batch: &mut Vec<Operation>,
        replies: &mut Vec<Told>,
    ) -> Result<Vec<Told>, StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => SqliteConnection::connect_with(&self.options).await?,
        };
        let now = self.clock.now();
        let mut work = Work { told: Vec::new(), inserts: Vec::new(), written: Vec::new() };
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
        for operation in batch.iter() {
            answers.push(self.apply(&mut tx, operation, now, &mut work).await?);
        }
        work.write_messages(&mut tx, now).await?;
        tx.commit().await?;
        self.connection = Some(connection);
        let mut told: Vec<Told> = Vec::with_capacity(work.told.len() + 1);
        let written = std::mem::take(&mut work.written);
        if !written.is_empty() {
            told.push(Box::new(move |after| {
                written.iter().for_each(|(at, envelope)| after.queued(*at, envelope))
            }));
        }
        told.append(&mut work.told);
        replies.extend(batch.drain(..).zip(answers).map(|(operation, answer)| answer.reply_to(operation)));
        Ok(told)
    }

    async fn apply(
        &mut self,
        db: &mut SqliteConnection,
        operation: &Operation,
        now: i64,
        work: &mut Work,
    ) -> Result<Answer, StoreError> {
        match operation {
            Operation::Open { id, .. } => {
                let record = queries::namespace(db, id, self.next - 1).await?;
                let found = record.is_some();
                if let Some(record) = record {
                    work.told.push(Box::new(move |after| after.opened(&record)));
                }
                return Ok(Answer::Found(found));
            }
            Operation::OpenForAgent { id, agent, .. } => {
                queries::ensure_namespace(db, id, agent, now).await?;
                let record = queries::namespace(db, id, self.next - 1)
                    .await?
                    .ok_or(StoreError::Corrupt("namespace"))?;
                work.told.push(Box::new(move |after| after.opened(&record)));
            }
            Operation::Touch { id, .. } => queries::touch(db, id, now).await?,
            Operation::DeviceSeen { namespace, key, token, platform, .. } => {
                queries::device_seen(db, namespace, key, token, *platform, now).await?;
            }
            Operation::ForgetToken { namespace, key, token, .. } => {
                queries::forget_token(db, namespace, key, token).await?;
            }
            Operation::StartPairing { namespace, token, ttl_secs, .. } => {
                let window = (hash(token), now + i64::from(*ttl_secs) * 1000);
                queries::set_pairing(db, namespace, Some(window)).await?;
            }
            Operation::StopPairing { namespace, .. } => queries::set_pairing(db, namespace, None).await?,
            Operation::Pair { claim, .. } => {
                let open = queries::pairing(db, &claim.namespace).await?;
                let good = open.is_some_and(|(known, ends)| {
                    let same: bool = known.ct_eq(&hash(&claim.token)).into();
                    same && now < ends
                });
                if !good {
                    return Ok(Answer::Paired(Paired::Closed));
                }
                queries::register(db, claim, now).await?;
                let namespace = claim.namespace;
                let client = ClientPaired { key: claim.key, x_key: claim.x_key, platform: claim.platform };
                work.told.push(Box::new(move |after| after.paired(&namespace, &client)));
                return Ok(Answer::Paired(Paired::Registered));
            }
            Operation::Authorize { namespace, list, .. } => {
                let mut list = list.clone();
                list.sort_unstable();
                list.dedup();
                // What the batch holds for a device that is about to lose access goes with the rest of its queue.
                work.write_messages(db, now).await?;
                let revoked = queries::authorize(db, namespace, &list, now).await?;
                for key in &revoked {
                    self.depths.remove(&(*namespace, *key));
                }
                let (namespace, count) = (*namespace, u32::try_from(list.len()).unwrap_or(u32::MAX));
                work.told.push(Box::new(move |after| after.authorized(&namespace, &list, &revoked)));
                return Ok(Answer::Authorized(count));
            }
            Operation::Enqueue { envelope, .. } => return self.enqueue(db, envelope, work).await,
            Operation::Confirm { namespace, recipient, through, .. } => {
                let gone = queries::confirm(db, namespace, recipient, *through).await?;
                if let Some(depth) = self.depths.get_mut(&(*namespace, *recipient)) {
                    *depth = depth.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
                }
            }
            Operation::Sweep { .. } => return Ok(Answer::More(self.sweep(db, now).await?)),
        }
        Ok(Answer::Done)
    }

    async fn enqueue(
        &mut self,
        db: &mut SqliteConnection,
        envelope: &Envelope,
        work: &mut Work,
    ) -> Result<Answer, StoreError> {
        if !self.after.is_member(&envelope.namespace, &envelope.to) {
            return Ok(Answer::Queued(Queued::NotFound));
        }
        let recipient = (envelope.namespace, envelope.to);
        let depth = match self.depths.get_mut(&recipient) {
            Some(depth) => depth,
            None => {
                let known = queries::depth(db, &envelope.namespace, &envelope.to).await?;
                self.depths.entry(recipient).or_insert(known)
            }
        };
        if *depth >= self.queue_per_client {
            return Ok(Answer::Queued(Queued::Full));
        }
        *depth += 1;
        work.inserts.push((self.next, envelope.clone()));
        self.next += 1;
        Ok(Answer::Queued(Queued::Durable))
    }

    async fn sweep(&mut self, db: &mut SqliteConnection, now: i64) -> Result<bool, StoreError> {
        // Depths of recipients that nobody writes to would pile up for ever.
        self.depths.clear();
        let (queue, namespaces) = (now - self.queue_ttl_ms, now - self.namespace_ttl_ms);
        sweep::batch(db, &*self.after, now, queue, namespaces).await
    }
}

/// What an operation gives back.
enum Answer {
    Done,
    Found(bool),
    Paired(Paired),
    Authorized(u32),
    Queued(Queued),
    More(bool),
}

impl Answer {
    fn reply_to(self, operation: Operation) -> Told {
        fn tell<T>(reply: Reply<T>, value: T) {
            let _ = reply.send(Ok(value));
        }
        Box::new(move |_| match (operation, self) {
            (Operation::Open { reply, .. }, Self::Found(found)) => tell(reply, found),
            (Operation::Sweep { reply }, Self::More(more)) => tell(reply, more),
            (Operation::Pair { reply, .. }, Self::Paired(paired)) => tell(reply, paired),
            (Operation::Authorize { reply, .. }, Self::Authorized(count)) => tell(reply, count),
            (Operation::Enqueue { reply, .. }, Self::Queued(queued)) => tell(reply, queued),
            (
                Operation::OpenForAgent { reply, .. }
                | Operation::Touch { reply, .. }
                | Operation::DeviceSeen { reply, .. }
                | Operation::ForgetToken { reply, .. }
                | Operation::StartPairing { reply, .. }
                | Operation::StopPairing { reply, .. }
                | Operation::Confirm { reply, .. },
                Self::Done,
            ) => tell(reply, ()),
            // `apply` gives each operation its own kind of answer.
            (operation, _) => operation.fail(StoreError::Corrupt("answer")),
        })
    }
}

/// A pairing token as it is stored: its hash suffices to recognise it.
fn hash(token: &PairingToken) -> [u8; 32] {
    Sha256::digest(token).into()
}

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
