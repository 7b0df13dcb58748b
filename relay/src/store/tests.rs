//! The store against a real database in a folder of its own.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use skald_relay_common::frame::{AuthPairing, ClientPaired, FromRelay, Platform};
use skald_relay_common::ids::{NamespaceId, PublicKey};
use skald_relay_common::limits::Limits;
use skald_relay_common::namespace_id;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Executor as _};

use crate::metrics::Metrics;

use super::{
    AfterCommit, Clock, Envelope, NamespaceRecord, OpenError, Paired, Position, Queued, Store, WriterTask,
};

pub(super) const DAY: i64 = 24 * 60 * 60 * 1000;

/// Writes down what the writer tells.
#[derive(Default)]
struct News {
    strangers: Mutex<HashSet<PublicKey>>,
    alive: Mutex<HashSet<NamespaceId>>,
    queued: Mutex<Vec<Position>>,
    revoked: Mutex<Vec<PublicKey>>,
    paired: Mutex<Vec<PublicKey>>,
    opened: Mutex<Option<NamespaceRecord>>,
}

impl AfterCommit for News {
    fn is_member(&self, _: &NamespaceId, key: &PublicKey) -> bool {
        !self.strangers.lock().unwrap().contains(key)
    }
    fn is_alive(&self, namespace: &NamespaceId) -> bool {
        self.alive.lock().unwrap().contains(namespace)
    }
    fn queued(&self, position: Position, _: &Envelope) {
        self.queued.lock().unwrap().push(position);
    }
    fn authorized(&self, _: &NamespaceId, _: &[PublicKey], revoked: &[PublicKey]) {
        self.revoked.lock().unwrap().extend(revoked);
    }
    fn paired(&self, _: &NamespaceId, client: &ClientPaired) {
        self.paired.lock().unwrap().push(client.key);
    }
    fn opened(&self, record: &NamespaceRecord) {
        *self.opened.lock().unwrap() = Some(record.clone());
    }
}

pub(super) struct Fixture {
    dir: tempfile::TempDir,
    news: Arc<News>,
    time: Arc<AtomicI64>,
    pub(super) store: Store,
    writer: WriterTask,
}

fn key(n: u8) -> PublicKey {
    [n; 32].into()
}

pub(super) fn agent() -> PublicKey {
    key(200)
}

pub(super) fn ns() -> NamespaceId {
    namespace_id(&agent())
}

pub(super) fn envelope(to: u8, text: &'static str) -> Envelope {
    let ciphertext = Bytes::from_static(text.as_bytes());
    Envelope { namespace: ns(), to: key(to), from: agent(), nonce: [7; 12].into(), ciphertext }
}

fn claim(device: u8, token: u8) -> AuthPairing {
    AuthPairing {
        namespace: ns(),
        key: key(device),
        x_key: [device; 32].into(),
        token: [token; 32].into(),
        device_token: "push".to_owned(),
        platform: Platform::IOS,
    }
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (news, time) = (Arc::new(News::default()), Arc::new(AtomicI64::new(10 * DAY)));
        let (store, writer) = open(dir.path(), &news, &time).await;
        store.open_for_agent(ns(), agent(), true).await.unwrap();
        Self { dir, news, time, store, writer }
    }

    async fn restart(self) -> Self {
        let Self { dir, news, time, store, writer } = self;
        drop(store);
        writer.join().await;
        let (store, writer) = open(dir.path(), &news, &time).await;
        Self { dir, news, time, store, writer }
    }

    /// A store over a database that was made by this text.
    pub(super) async fn over(sql: &'static str) -> Result<Self, OpenError> {
        let dir = tempfile::tempdir().unwrap();
        let (news, time) = (Arc::new(News::default()), Arc::new(AtomicI64::new(10 * DAY)));
        let path = dir.path().join("relay.db");
        // A dump names a table before those that it refers to.
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(true).foreign_keys(false);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        connection.execute(sql).await.unwrap();
        connection.close().await.unwrap();
        let (store, writer) = try_open(dir.path(), &news, &time).await?;
        Ok(Self { dir, news, time, store, writer })
    }

    pub(super) async fn count(&self, sql: &'static str) -> i64 {
        let options = SqliteConnectOptions::new().filename(self.dir.path().join("relay.db"));
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    }

    pub(super) async fn sql(&self, sql: &'static str) {
        let options = SqliteConnectOptions::new().filename(self.dir.path().join("relay.db"));
        SqliteConnection::connect_with(&options).await.unwrap().execute(sql).await.unwrap();
    }

    async fn waiting(&self, to: u8) -> Vec<Position> {
        let waiting = self.store.waiting(&ns(), &key(to), 1..=1_000_000).await.unwrap();
        waiting.messages.into_iter().map(|(position, _)| position).collect()
    }

    async fn record(&self) -> NamespaceRecord {
        assert!(self.store.open_namespace(ns()).await.unwrap());
        self.news.opened.lock().unwrap().clone().unwrap()
    }

    pub(super) fn pass(&self, ms: i64) {
        self.time.fetch_add(ms, Ordering::SeqCst);
    }
}

async fn open(dir: &Path, news: &Arc<News>, time: &Arc<AtomicI64>) -> (Store, WriterTask) {
    try_open(dir, news, time).await.unwrap()
}

async fn try_open(
    dir: &Path,
    news: &Arc<News>,
    time: &Arc<AtomicI64>,
) -> Result<(Store, WriterTask), OpenError> {
    let time = Arc::clone(time);
    let clock = Clock::from_fn(move || time.load(Ordering::SeqCst));
    Store::open(dir, &Limits::default(), clock, Arc::clone(news) as _, Metrics::new().counts()).await
}

#[tokio::test]
async fn a_message_waits_until_it_is_confirmed_and_positions_are_never_given_twice() {
    let f = Fixture::new().await;
    for text in ["one", "two"] {
        assert_eq!(f.store.enqueue(envelope(1, text)).await.unwrap(), Queued::Durable);
    }
    assert_eq!(f.waiting(1).await, [1, 2]);
    assert_eq!(*f.news.queued.lock().unwrap(), [1, 2]);
    f.store.confirm(ns(), key(1), 2).await.unwrap();
    assert!(f.waiting(1).await.is_empty());
    let f = f.restart().await;
    f.store.enqueue(envelope(1, "three")).await.unwrap();
    assert_eq!(f.waiting(1).await, [3]);
    assert_eq!(f.record().await.announced, 3);
}

#[tokio::test]
async fn a_waiting_message_comes_back_to_the_byte() {
    let f = Fixture::new().await;
    let envelope = envelope(1, "sealed");
    f.store.enqueue(envelope.clone()).await.unwrap();
    let waiting = f.store.waiting(&ns(), &key(1), 1..=1).await.unwrap();
    let expected = crate::ws::binary(&FromRelay::Message(envelope.delivered()).encode());
    assert_eq!(waiting.messages, [(1, expected)]);
}

#[tokio::test]
async fn fault_26_messages_that_come_together_share_a_sync() {
    let f = Fixture::new().await;
    let before = f.store.commits();
    let all = (0..150).map(|n| f.store.enqueue(envelope(n, "x")));
    for queued in futures_util::future::join_all(all).await {
        assert_eq!(queued.unwrap(), Queued::Durable);
    }
    let commits = f.store.commits() - before;
    assert!(commits < 30, "{commits} commits for 150 messages");
    let positions = f.news.queued.lock().unwrap().clone();
    assert!(positions.is_sorted() && positions.len() == 150);
}

#[tokio::test]
async fn the_queue_of_a_recipient_is_bounded_and_others_are_not_concerned() {
    let f = Fixture::new().await;
    for _ in 0..200 {
        assert_eq!(f.store.enqueue(envelope(1, "x")).await.unwrap(), Queued::Durable);
    }
    assert_eq!(f.store.enqueue(envelope(1, "x")).await.unwrap(), Queued::Full);
    assert_eq!(f.store.enqueue(envelope(2, "x")).await.unwrap(), Queued::Durable);
    let f = f.restart().await;
    assert_eq!(f.store.enqueue(envelope(1, "x")).await.unwrap(), Queued::Full);
    f.store.confirm(ns(), key(1), 1).await.unwrap();
    assert_eq!(f.store.enqueue(envelope(1, "x")).await.unwrap(), Queued::Durable);
}

#[tokio::test]
async fn a_long_queue_is_read_in_batches() {
    let f = Fixture::new().await;
    for _ in 0..100 {
        f.store.enqueue(envelope(1, "x")).await.unwrap();
    }
    let first = f.store.waiting(&ns(), &key(1), 1..=100).await.unwrap();
    assert!(first.more && first.messages.len() == 64);
    let rest = f.store.waiting(&ns(), &key(1), 65..=99).await.unwrap();
    assert!(!rest.more && rest.messages.len() == 35, "what was offered later is not read");
}

#[tokio::test]
async fn who_is_no_member_gets_nothing() {
    let f = Fixture::new().await;
    f.news.strangers.lock().unwrap().insert(key(1));
    assert_eq!(f.store.enqueue(envelope(1, "x")).await.unwrap(), Queued::NotFound);
}

#[tokio::test]
async fn a_token_pairs_once_within_its_time_and_outlives_a_restart() {
    let f = Fixture::new().await;
    assert_eq!(f.store.pair(claim(1, 9)).await.unwrap(), Paired::Closed);
    f.store.start_pairing(ns(), [9; 32].into(), 300).await.unwrap();
    assert_eq!(f.store.pair(claim(1, 8)).await.unwrap(), Paired::Closed, "a wrong token");
    let f = f.restart().await;
    assert_eq!(f.store.pair(claim(1, 9)).await.unwrap(), Paired::Registered);
    let f = f.restart().await;
    assert_eq!(f.store.pair(claim(2, 9)).await.unwrap(), Paired::Closed, "a spent token");
    f.store.start_pairing(ns(), [7; 32].into(), 300).await.unwrap();
    f.pass(300_000);
    assert_eq!(f.store.pair(claim(2, 7)).await.unwrap(), Paired::Closed, "an expired token");
    f.store.start_pairing(ns(), [6; 32].into(), 300).await.unwrap();
    f.store.stop_pairing(ns()).await.unwrap();
    assert_eq!(f.store.pair(claim(2, 6)).await.unwrap(), Paired::Closed, "a closed window");
    let record = f.record().await;
    assert_eq!(record.pending.iter().map(|c| c.key).collect::<Vec<_>>(), [key(1)]);
    assert_eq!(*f.news.paired.lock().unwrap(), [key(1)]);
}

#[tokio::test]
async fn fault_06_pending_devices_outlive_an_authorize_that_does_not_name_them() {
    let f = Fixture::new().await;
    for device in [1, 2] {
        f.store.start_pairing(ns(), [device; 32].into(), 300).await.unwrap();
        f.store.pair(claim(device, device)).await.unwrap();
    }
    assert_eq!(f.store.authorize(ns(), vec![key(1)]).await.unwrap(), 1);
    let record = f.record().await;
    assert_eq!((record.authorized, record.pending[0].key), (vec![key(1)], key(2)));
    assert_eq!(f.store.authorize(ns(), vec![key(1), key(2), key(2)]).await.unwrap(), 2);
    assert!(f.record().await.pending.is_empty());
}

#[tokio::test]
async fn a_revoked_device_loses_its_queue_and_its_push_token() {
    let f = Fixture::new().await;
    f.store.start_pairing(ns(), [1; 32].into(), 300).await.unwrap();
    f.store.pair(claim(1, 1)).await.unwrap();
    f.store.authorize(ns(), vec![key(1)]).await.unwrap();
    f.store.enqueue(envelope(1, "x")).await.unwrap();
    assert!(f.store.absent_device(&ns(), &key(1)).await.unwrap().is_some());
    assert_eq!(f.store.authorize(ns(), Vec::new()).await.unwrap(), 0);
    assert_eq!(*f.news.revoked.lock().unwrap(), [key(1)]);
    f.store.authorize(ns(), vec![key(1)]).await.unwrap();
    assert!(f.waiting(1).await.is_empty());
    f.store.enqueue(envelope(1, "x")).await.unwrap();
    assert!(f.store.absent_device(&ns(), &key(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn fault_08_an_authorize_that_fails_half_way_changes_nothing() {
    let f = Fixture::new().await;
    f.store.authorize(ns(), vec![key(1), key(2)]).await.unwrap();
    f.store.enqueue(envelope(1, "x")).await.unwrap();
    f.sql(
        "CREATE TRIGGER poison BEFORE INSERT ON clients \
         WHEN hex(NEW.key) LIKE '09%' BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .await;
    // Key 1 would go, key 3 would come, and key 9 makes it fail.
    assert!(f.store.authorize(ns(), vec![key(2), key(3), key(9)]).await.is_err());
    let mut authorized = f.record().await.authorized;
    authorized.sort();
    assert_eq!(authorized, [key(1), key(2)]);
    assert_eq!(f.waiting(1).await.len(), 1);
    assert!(f.news.revoked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn fault_07_a_failed_read_is_an_error_and_never_an_empty_list() {
    let f = Fixture::new().await;
    f.store.authorize(ns(), vec![key(1)]).await.unwrap();
    *f.news.opened.lock().unwrap() = None;
    f.sql("UPDATE clients SET key = x'0102'").await;
    assert!(f.store.open_namespace(ns()).await.is_err());
    assert!(f.store.authorize(ns(), vec![key(1)]).await.is_err());
    assert!(f.news.opened.lock().unwrap().is_none());
}

#[tokio::test]
async fn a_failure_reaches_everyone_who_waits_and_the_writer_recovers() {
    let f = Fixture::new().await;
    f.sql("ALTER TABLE queue RENAME TO elsewhere").await;
    let all = (0..5).map(|n| f.store.enqueue(envelope(n, "x")));
    assert!(futures_util::future::join_all(all).await.iter().all(Result::is_err));
    assert!(f.news.queued.lock().unwrap().is_empty(), "what is not durable is not offered");
    f.sql("ALTER TABLE elsewhere RENAME TO queue").await;
    assert_eq!(f.store.enqueue(envelope(1, "x")).await.unwrap(), Queued::Durable);
}

#[tokio::test]
async fn an_empty_push_token_keeps_the_known_one_and_a_dead_one_is_forgotten() {
    let f = Fixture::new().await;
    f.store.authorize(ns(), vec![key(1)]).await.unwrap();
    f.store.enqueue(envelope(1, "x")).await.unwrap();
    let token = async || f.store.absent_device(&ns(), &key(1)).await.unwrap().map(|absent| absent.token);
    let seen = async |token: &str| {
        f.store.device_seen(ns(), key(1), token.to_owned(), Platform::ANDROID).await.unwrap();
    };
    seen("").await;
    assert_eq!(token().await, None);
    seen("first").await;
    seen("").await;
    assert_eq!(token().await.as_deref(), Some("first"));
    f.store.forget_token(ns(), key(1), "other".to_owned(), None).await.unwrap();
    assert_eq!(token().await.as_deref(), Some("first"), "it has changed meanwhile");
    let before = Some(f.time.load(Ordering::SeqCst) - 1);
    f.store.forget_token(ns(), key(1), "first".to_owned(), before).await.unwrap();
    assert_eq!(token().await.as_deref(), Some("first"), "the device brought it later than that");
    f.store.forget_token(ns(), key(1), "first".to_owned(), None).await.unwrap();
    assert_eq!(token().await, None);
}

#[tokio::test]
async fn what_is_out_of_date_is_swept_and_what_is_in_use_stays() {
    let f = Fixture::new().await;
    f.store.authorize(ns(), vec![key(1)]).await.unwrap();
    f.store.enqueue(envelope(1, "old")).await.unwrap();
    f.pass(6 * DAY);
    f.store.enqueue(envelope(1, "young")).await.unwrap();
    f.news.alive.lock().unwrap().insert(ns());
    f.pass(DAY + 1);
    while f.store.sweep().await.unwrap() {}
    assert_eq!(f.waiting(1).await, [2]);
    assert!(f.store.open_namespace(ns()).await.unwrap(), "it is in use");
    f.news.alive.lock().unwrap().clear();
    f.pass(7 * DAY + 1);
    while f.store.sweep().await.unwrap() {}
    assert!(!f.store.open_namespace(ns()).await.unwrap());
    assert!(f.waiting(1).await.is_empty());
}

#[tokio::test]
async fn a_second_relay_on_the_same_folder_is_refused() {
    let f = Fixture::new().await;
    let again = Store::open(
        f.dir.path(),
        &Limits::default(),
        Clock::system(),
        Arc::new(News::default()),
        Metrics::new().counts(),
    )
    .await;
    assert!(matches!(again, Err(OpenError::Locked(_))));
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("made");
    let (store, writer) = open(&dir, &Arc::default(), &Arc::default()).await;
    store.open_for_agent(ns(), agent(), true).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for file in std::fs::read_dir(&dir).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
    drop(store);
    writer.join().await;
}
