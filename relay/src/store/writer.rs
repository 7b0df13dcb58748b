//! The one task that writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use sha2::{Digest as _, Sha256};
use skald_relay_common::frame::ClientPaired;
use skald_relay_common::ids::{NamespaceId, PairingToken, PublicKey};
use skald_relay_common::limits::Limits;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Executor as _};
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

use super::mailbox::Receiver;
use super::operation::{Answer, Operation, ROW, Told};
use super::room::Room;
use super::{AfterCommit, Clock, Envelope, Opened, Paired, Position, Queued, StoreError, queries, sweep};
use crate::metrics::Counts;
use crate::metrics::names::{Class, Limit, Message};

/// The outcome of one operation inside a transaction that is not committed yet.
#[derive(Default)]
struct Work {
    told: Vec<Told>,
    /// Messages that are not in the database yet.
    inserts: Vec<(Position, Envelope)>,
    /// Messages that are, and may be offered once they are durable.
    written: Vec<(Position, Envelope)>,
    /// When the messages came whose arrival was proved.
    confirmed: Vec<i64>,
    expired: u64,
    dropped: u64,
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
    room: Room,
    counts: Arc<Counts>,
}

impl Writer {
    pub(super) fn new(
        (connection, options): (SqliteConnection, SqliteConnectOptions),
        limits: &Limits,
        clock: Clock,
        after: Arc<dyn AfterCommit>,
        next: Position,
        grown: watch::Sender<u64>,
        counts: Arc<Counts>,
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
            room: Room::new(limits.max_database_bytes, Arc::clone(&counts)),
            counts,
        }
    }

    pub(super) async fn run(mut self, mut mailbox: Receiver) {
        while let Some(mut batch) = mailbox.recv().await {
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
        let began = Instant::now();
        let outcome = self.transact(batch, &mut replies).await;
        match outcome {
            Ok(told) => {
                self.counts.store.commit.observe(began.elapsed().as_secs_f64());
                let after = Arc::clone(&self.after);
                told.into_iter().for_each(|tell| tell(&*after));
                replies.into_iter().for_each(|reply: Told| reply(&*after));
                self.grown.send_modify(|commits| *commits += 1);
            }
            Err(error) => {
                tracing::error!(%error, operations = batch.len(), "nothing could be written to the database");
                self.counts.store.failures.inc();
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
        let mut work = Work::default();
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        self.room.begin(&mut tx, now).await?;
        let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
        for operation in batch.iter() {
            answers.push(self.apply(&mut tx, operation, now, &mut work).await?);
        }
        work.write_messages(&mut tx, now).await?;
        tx.commit().await?;
        self.connection = Some(connection);
        self.count(&work, now);
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
            Operation::OpenForAgent { id, agent, may_make, .. } => {
                let made = *may_make && queries::ensure_namespace(db, id, agent, now).await?;
                let Some(record) = queries::namespace(db, id, self.next - 1).await? else {
                    return Ok(Answer::Opened(Opened::Missing));
                };
                if !made {
                    queries::touch(db, id, now).await?;
                }
                work.told.push(Box::new(move |after| after.opened(&record)));
                return Ok(Answer::Opened(if made { Opened::Made } else { Opened::Known }));
            }
            Operation::Touch { id, .. } => queries::touch(db, id, now).await?,
            Operation::DeviceSeen { namespace, key, token, platform, .. } => {
                queries::device_seen(db, namespace, key, token, *platform, now).await?;
            }
            Operation::ForgetToken { namespace, key, token, dead_since, .. } => {
                queries::forget_token(db, namespace, key, token, *dead_since).await?;
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
                let (revoked, dropped) = queries::authorize(db, namespace, &list, now).await?;
                work.dropped += dropped;
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
                    *depth = depth.saturating_sub(u32::try_from(gone.len()).unwrap_or(u32::MAX));
                }
                work.confirmed.extend(gone);
            }
            Operation::Sweep { .. } => return Ok(Answer::More(self.sweep(db, now, work).await?)),
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
        if !self.room.take(ROW + envelope.ciphertext.len()) {
            self.counts.limits.count(Limit::DatabaseSize);
            return Ok(Answer::Queued(Queued::NoRoom));
        }
        *depth += 1;
        work.inserts.push((self.next, envelope.clone()));
        self.next += 1;
        Ok(Answer::Queued(Queued::Durable))
    }

    /// Counts what a commit has done.
    fn count(&self, work: &Work, now: i64) {
        let count = |outcome, number| self.counts.messages.of(Class::Stored, outcome).inc_by(number);
        let confirmed = work.confirmed.len() as u64;
        count(Message::Confirmed, confirmed);
        count(Message::Expired, work.expired);
        count(Message::Dropped, work.dropped);
        for came in &work.confirmed {
            self.counts.delivery.observe((now - came).max(0) as f64 / 1000.0);
        }
        let gone = confirmed + work.expired + work.dropped;
        self.counts.queue.inc_by(work.written.len() as i64 - gone as i64);
    }

    async fn sweep(
        &mut self,
        db: &mut SqliteConnection,
        now: i64,
        work: &mut Work,
    ) -> Result<bool, StoreError> {
        // Depths of recipients that nobody writes to would pile up for ever.
        self.depths.clear();
        let (queue, namespaces) = (now - self.queue_ttl_ms, now - self.namespace_ttl_ms);
        let swept = sweep::batch(db, &*self.after, now, queue, namespaces).await?;
        work.expired += swept.expired;
        work.dropped += swept.dropped;
        Ok(swept.more)
    }
}

/// A pairing token as it is stored: its hash suffices to recognise it.
fn hash(token: &PairingToken) -> [u8; 32] {
    Sha256::digest(token).into()
}
