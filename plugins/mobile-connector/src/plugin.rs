//! The plugin: starting it, watching over its tasks, and stopping it whole.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use skald_core_api::{
    ConfigFault, Manifest, Plugin, PluginContext, PluginHttp, PluginState, PluginStatus, Running, StartError,
    StreamRegistration,
};
use skald_relay_client::{AgentOptions, Timings};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::client::Agent;
use crate::connector::{Connector, Failed};
use crate::health::Health;
use crate::http::{IdleRoutes, Routes, sentence};
use crate::proxy::HttpLocalProxy;
use crate::relay::Relay as _;
use crate::settings::{Checked, Settings};
use crate::store::Store;
use crate::streams::StreamTable;
use crate::{openapi, outbound, pump};

/// The plugin's id.
pub const ID: &str = "mobile-connector";
/// Its folder below the host's data.
const FOLDER: &str = "relay";

/// Connects the Inbox with phones through a relay.
#[derive(Default)]
pub struct MobileConnector {
    timings: Timings,
}

impl MobileConnector {
    /// The plugin.
    pub fn new() -> Self {
        Self::default()
    }

    /// The plugin with other deadlines towards the relay, for tests.
    pub fn with_timings(timings: Timings) -> Self {
        Self { timings }
    }
}

/// Reads and checks settings; every fault becomes a sentence that names its setting.
fn checked(config: &Value) -> Result<Checked, StartError> {
    let settings = Settings::read(config).map_err(StartError)?;
    settings.check().map_err(|faults| {
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        StartError(told.join(" "))
    })
}

#[async_trait]
impl Plugin for MobileConnector {
    fn manifest(&self) -> Manifest {
        Manifest {
            id: ID.into(),
            name: "Mobile connector".into(),
            description:
                "Sends questions to your phones through a relay that cannot read them, and takes the answers."
                    .into(),
            config_schema: Settings::schema(),
        }
    }

    fn openapi_paths(&self) -> Value {
        openapi::paths()
    }

    fn check_config(&self, config: &Value) -> Result<(), Vec<ConfigFault>> {
        let settings = Settings::read(config)
            .map_err(|message| vec![ConfigFault { field: "config".into(), message }])?;
        settings.check().map(drop).map_err(|faults| {
            faults.into_iter().map(|f| ConfigFault { field: f.field.into(), message: f.message }).collect()
        })
    }

    async fn start(&self, config: Value, context: PluginContext) -> Result<Box<dyn Running>, StartError> {
        let settings = checked(&config)?;
        let Some(relay_url) = settings.relay_url.clone() else {
            let message = "Write the relay's address into the settings to connect phones.";
            context.status.set(PluginState::Idle, Some(message.into()));
            return Ok(Box::new(Idle));
        };
        let store =
            Store::open(context.db.clone()).await.map_err(|e| StartError(sentence(&e.to_string())))?;
        let options = AgentOptions {
            relay_url,
            dir: context.data_dir.join(FOLDER),
            extra_ca: settings.relay_ca.clone(),
            timings: self.timings.clone(),
        };
        let (agent, events) =
            Agent::start(options).await.map_err(|e| StartError(sentence(&e.to_string())))?;
        let agent = Arc::new(agent);
        if let Err(error) = tidy(&agent, &store).await {
            tracing::warn!(%error, "what is kept of dropped devices could not be looked at");
        }
        let proxy = Arc::new(HttpLocalProxy::new(context.local_web.clone()));
        let registration = match context.streams.register(proxy) {
            Ok(registration) => registration,
            Err(taken) => {
                agent.client.shutdown().await;
                return Err(StartError(sentence(&taken.to_string())));
            }
        };
        let stop = CancellationToken::new();
        let streams = StreamTable::new(context.streams.clone(), stop.child_token());
        let (connector, mailbox) = Connector::new(
            agent.clone(),
            store,
            context.inbox.clone(),
            context.events.clone(),
            streams,
            settings,
        );
        let health = Arc::new(Health::new(context.status.clone()));
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let (agent, stop) = (agent.clone(), stop.clone());
            async move { agent.watch_link(stop).await }
        });
        tasks.spawn(outbound::run(connector.clone(), health.clone(), mailbox, stop.clone()));
        tasks.spawn(pump::events(events, connector.clone(), health, stop.clone()));
        let invitations = agent.client.incoming_pipes();
        tasks.spawn(pump::pipes(invitations, agent.clone(), connector.clone(), stop.clone()));
        let (death, died) = watch::channel(None);
        let watcher = tokio::spawn(watch_over(tasks, stop.clone(), death));
        Ok(Box::new(Connected { agent, connector, stop, died, watcher, registration }))
    }
}

/// A device is dropped by the relay client first, then here. A crash between the two is made good before anything runs.
async fn tidy(agent: &Agent, store: &Store) -> Result<(), Failed> {
    let known = agent.devices().await?.into_iter().map(|peer| peer.key).collect();
    Ok(store.forget_others(&known).await?)
}

/// Waits for the plugin's tasks. One that ends before it was told to is the plugin's death.
async fn watch_over(mut tasks: JoinSet<()>, stop: CancellationToken, death: watch::Sender<Option<String>>) {
    while let Some(ended) = tasks.join_next().await {
        if stop.is_cancelled() {
            continue;
        }
        let cause = match ended {
            Err(error) if error.is_panic() => "A part of the mobile connector failed unexpectedly.",
            _ => "A part of the mobile connector ended unexpectedly.",
        };
        tracing::error!(cause, "the mobile connector dies");
        death.send_replace(Some(cause.into()));
        stop.cancel();
    }
}

struct Connected {
    agent: Arc<Agent>,
    connector: Arc<Connector>,
    stop: CancellationToken,
    died: watch::Receiver<Option<String>>,
    watcher: JoinHandle<()>,
    registration: StreamRegistration,
}

#[async_trait]
impl Running for Connected {
    fn http(&self) -> Option<Arc<dyn PluginHttp>> {
        Some(Arc::new(Routes(self.connector.clone())))
    }

    async fn died(&self) -> String {
        let mut died = self.died.clone();
        loop {
            if let Some(cause) = died.borrow_and_update().clone() {
                return cause;
            }
            if died.changed().await.is_err() {
                // Stopped in good order: then nobody asks any more.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn stop(self: Box<Self>) {
        // No new streams, then no tasks, then no running streams, then no relay.
        drop(self.registration);
        self.stop.cancel();
        if let Err(error) = self.watcher.await {
            tracing::error!(%error, "the mobile connector's tasks could not be joined");
        }
        self.connector.streams.close().await;
        self.agent.client.shutdown().await;
    }
}

/// Without a relay there is nothing to do but to say so.
struct Idle;

#[async_trait]
impl Running for Idle {
    fn http(&self) -> Option<Arc<dyn PluginHttp>> {
        Some(Arc::new(IdleRoutes { since: PluginStatus::now_ms() }))
    }
    async fn died(&self) -> String {
        std::future::pending().await
    }
    async fn stop(self: Box<Self>) {}
}
