//! The plugin: what of it is offered by these settings.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use skald_core_api::{
    ConfigFault, Manifest, Plugin, PluginContext, PluginState, Running, StartError, StreamHandler,
    StreamRegistration,
};
use tokio_util::sync::CancellationToken;

use crate::file::{FileHandler, Quota};
use crate::log::{LogHandler, LogRing};
use crate::settings::Settings;
use crate::surroundings::Surroundings;
use crate::tcp::TcpHandler;

/// The plugin's id.
pub const ID: &str = "local-streams";

/// Files, logs and local ports for paired devices.
pub struct LocalStreams {
    around: Surroundings,
    log: LogRing,
}

impl LocalStreams {
    /// The plugin. `around` is where Skald is, so that it is not handed out; `log` is what the host logs.
    pub fn new(around: Surroundings, log: LogRing) -> Self {
        Self { around, log }
    }
}

#[async_trait]
impl Plugin for LocalStreams {
    fn manifest(&self) -> Manifest {
        Manifest {
            id: ID.into(),
            name: "Local streams".into(),
            description: "Lets your devices fetch and put files in folders you name, read Skald's log and reach ports of this computer.".into(),
            config_schema: Settings::schema(),
        }
    }

    fn check_config(&self, config: &Value) -> Result<(), Vec<ConfigFault>> {
        let settings = Settings::read(config)
            .map_err(|message| vec![ConfigFault { field: "config".into(), message }])?;
        settings.check(&self.around, true).map(drop).map_err(|faults| {
            faults.into_iter().map(|f| ConfigFault { field: f.field.into(), message: f.message }).collect()
        })
    }

    async fn start(&self, config: Value, context: PluginContext) -> Result<Box<dyn Running>, StartError> {
        let settings = Settings::read(&config).map_err(StartError)?;
        let checked = settings.check(&self.around, false).map_err(|faults| {
            StartError(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        })?;
        let stop = CancellationToken::new();
        let mut handlers: Vec<Arc<dyn StreamHandler>> = Vec::new();
        let mut missing = Vec::new();
        if let Some(files) = checked.files {
            let quota = Quota::open(context.db.clone()).await.map_err(|e| {
                StartError(format!("The record of what was put today cannot be opened ({e})."))
            })?;
            missing = files.folders.iter().filter(|f| !f.path.is_dir()).map(|f| f.name.clone()).collect();
            handlers.push(Arc::new(FileHandler::new(files, quota, stop.clone())));
        }
        if let Some(log) = checked.log {
            handlers.push(Arc::new(LogHandler::new(log, self.log.clone(), stop.clone())));
        }
        if let Some(ports) = checked.ports {
            handlers.push(Arc::new(TcpHandler::new(ports, self.around.clone(), stop.clone())));
        }
        let (state, message) = match (handlers.is_empty(), missing.as_slice()) {
            (true, _) => (
                PluginState::Idle,
                Some("Nothing is offered; switch on files, the log or ports in the settings.".to_owned()),
            ),
            (false, []) => (PluginState::Running, None),
            (false, missing) => (
                PluginState::Degraded,
                Some(format!(
                    "The folder {} is not there; see whether its disk is in place.",
                    missing.join(", ")
                )),
            ),
        };
        let registrations = handlers
            .into_iter()
            .map(|handler| context.streams.register(handler))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|taken| StartError(format!("Another plugin serves them: {taken}.")))?;
        context.status.set(state, message);
        Ok(Box::new(Offered { registrations, stop }))
    }
}

/// The tasks of streams belong to the plugin whose pipes they run in, which waits for them; here they are only told to
/// end.
struct Offered {
    registrations: Vec<StreamRegistration>,
    stop: CancellationToken,
}

#[async_trait]
impl Running for Offered {
    async fn died(&self) -> String {
        std::future::pending().await
    }

    async fn stop(self: Box<Self>) {
        drop(self.registrations);
        self.stop.cancel();
    }
}
