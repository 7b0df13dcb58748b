//! The connector between an Inbox and a relay in memory.

mod loops;
mod receiving;
mod routes;

use std::sync::Arc;

use skald_core_api::{Actor, PluginState, PluginStatus, StatusReporter};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::DeviceKey;
use crate::connector::{Connector, Poke};
use crate::fakes::{FakeInbox, FakeRelay, NoHandlers, Pages, Sent};
use crate::health::Health;
use crate::relay::Peer;
use crate::settings::Settings;
use crate::store::Store;
use crate::streams::StreamTable;

const A: DeviceKey = DeviceKey([0xa; 32]);
const B: DeviceKey = DeviceKey([0xb; 32]);

/// Everything around a connector.
struct Bench {
    inbox: Arc<FakeInbox>,
    relay: Arc<FakeRelay>,
    pages: Arc<Pages>,
    connector: Arc<Connector>,
    mailbox: Option<mpsc::Receiver<Poke>>,
    sent: Sent,
    stop: CancellationToken,
    status: watch::Receiver<PluginStatus>,
    health: Arc<Health>,
}

impl Bench {
    async fn new(peers: Vec<Peer>, settings: Settings) -> Self {
        let db = sqlx::sqlite::SqlitePoolOptions::new()
            .max_connections(1)
            .connect("sqlite::memory:")
            .await
            .unwrap();
        let store = Store::open(db).await.unwrap();
        let (relay, sent) = FakeRelay::new(peers);
        let (inbox, pages) = (FakeInbox::new(), Arc::new(Pages::default()));
        let stop = CancellationToken::new();
        let streams = StreamTable::new(Arc::new(NoHandlers), stop.child_token());
        let checked = settings.check().unwrap();
        let (connector, mailbox) =
            Connector::new(relay.clone(), store, inbox.clone(), pages.clone(), streams, checked);
        let (sender, status) = watch::channel(PluginStatus::new(PluginState::Starting, None));
        let health = Arc::new(Health::new(StatusReporter::new(sender)));
        Self { inbox, relay, pages, connector, mailbox: Some(mailbox), sent, stop, status, health }
    }

    /// Starts the sending loop.
    fn run(&mut self) -> tokio::task::JoinHandle<()> {
        let mailbox = self.mailbox.take().unwrap();
        tokio::spawn(crate::outbound::run(
            self.connector.clone(),
            self.health.clone(),
            mailbox,
            self.stop.clone(),
        ))
    }

    /// What the sending loop was told so far.
    fn pokes(&mut self) -> Vec<String> {
        let mailbox = self.mailbox.as_mut().unwrap();
        std::iter::from_fn(|| mailbox.try_recv().ok())
            .map(|p| format!("{p:?}").split(['(', ' ']).next().unwrap().to_owned())
            .collect()
    }
}

fn device(key: DeviceKey, name: &str) -> Actor {
    Actor::Device { key: key.to_string(), name: name.into() }
}
