//! A plugin that does what the test says, good or bad, and a host with two of them.

use async_trait::async_trait;
use serde_json::{Value, json};
use skald_core_api::*;
use skald_host::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, watch};

use super::common::*;

/// What the test and the plugin share.
#[derive(Default)]
pub struct Control {
    /// Starts that began, and the settings of the last.
    pub starts: watch::Sender<(usize, Value)>,
    /// Stops that began and stops that ended.
    pub stopping: watch::Sender<usize>,
    pub stopped: watch::Sender<usize>,
    pub kill: Notify,
    pub alive: AtomicUsize,
    pub most_alive: AtomicUsize,
}

pub struct Unruly {
    pub id: &'static str,
    pub control: Arc<Control>,
}

pub struct Living {
    pub mode: String,
    pub control: Arc<Control>,
    pub context: PluginContext,
    pub _registration: StreamRegistration,
}

pub struct Routes {
    pub panic: bool,
}

pub struct Handler(pub String);

#[async_trait]
impl StreamHandler for Handler {
    fn stream_type(&self) -> &str {
        &self.0
    }
    async fn serve(
        &self,
        _: StreamOffer,
        _: Box<dyn ByteStream>,
        _: tokio_util::sync::CancellationToken,
    ) -> Result<(), StreamError> {
        Ok(())
    }
}

#[async_trait]
impl Plugin for Unruly {
    fn manifest(&self) -> Manifest {
        Manifest {
            id: self.id.into(),
            name: "Unruly".into(),
            description: "Does what the test says.".into(),
            config_schema: json!({"type": "object", "additionalProperties": false, "properties": {
                "mode": {"type": "string", "default": "run", "title": "Mode"},
                "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            }}),
        }
    }

    fn check_config(&self, config: &Value) -> Result<(), Vec<ConfigFault>> {
        match config["mode"].as_str() {
            Some("unthinkable") => {
                Err(vec![ConfigFault { field: "mode".into(), message: "`mode` must be thinkable.".into() }])
            }
            Some("panic_check") => panic!("as told"),
            _ => Ok(()),
        }
    }

    async fn start(&self, config: Value, context: PluginContext) -> Result<Box<dyn Running>, StartError> {
        let mode = config["mode"].as_str().unwrap_or_default().to_owned();
        self.control.starts.send_modify(|s| *s = (s.0 + 1, config));
        match mode.as_str() {
            "refuse" => return Err(StartError("The door is shut: open it.".into())),
            "panic_start" => panic!("as told"),
            "hang_start" => std::future::pending::<()>().await,
            "degraded" => {
                context.status.set(PluginState::Degraded, Some("The relay cannot be reached.".into()));
            }
            _ => {}
        }
        let registration = context
            .streams
            .register(Arc::new(Handler(format!("{}-stream", self.id))))
            .map_err(|e| StartError(e.to_string()))?;
        let now = self.control.alive.fetch_add(1, Ordering::SeqCst) + 1;
        self.control.most_alive.fetch_max(now, Ordering::SeqCst);
        let control = self.control.clone();
        Ok(Box::new(Living { mode, control, context, _registration: registration }))
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.control.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Running for Living {
    fn http(&self) -> Option<Arc<dyn PluginHttp>> {
        Some(Arc::new(Routes { panic: self.mode == "panic_http" }))
    }
    async fn died(&self) -> String {
        match self.mode.as_str() {
            "panic_run" => panic!("as told"),
            "late_status" => {
                self.control.kill.notified().await;
                self.context.status.set(PluginState::Degraded, Some("Later.".into()));
                std::future::pending().await
            }
            _ => {
                self.control.kill.notified().await;
                "The line was cut.".into()
            }
        }
    }
    async fn stop(self: Box<Self>) {
        self.control.stopping.send_modify(|n| *n += 1);
        if self.mode == "hang_stop" {
            std::future::pending::<()>().await;
        }
        self.control.stopped.send_modify(|n| *n += 1);
    }
}

#[async_trait]
impl PluginHttp for Routes {
    async fn handle(&self, request: PluginRequest) -> PluginResponse {
        assert!(!self.panic, "as told");
        PluginResponse::json(200, &request.path)
    }
}

pub async fn world() -> (Fixture, Arc<Control>, Arc<Control>) {
    let (bad, good) = (Arc::new(Control::default()), Arc::new(Control::default()));
    let plugins: Vec<Arc<dyn Plugin>> = vec![
        Arc::new(Unruly { id: "bad", control: bad.clone() }),
        Arc::new(Unruly { id: "good", control: good.clone() }),
    ];
    let f = Fixture::with(plugins).await;
    f.host.start(Arc::new(NoWeb)).await;
    f.host.plugins().update("good", Some(true), None).await.unwrap();
    (f, bad, good)
}

pub async fn enable(f: &Fixture, mode: &str) -> Result<PluginInfo, Error> {
    f.host.plugins().update("bad", Some(true), Some(json!({ "mode": mode }))).await
}

pub async fn until(f: &Fixture, id: &str, state: PluginState) -> PluginStatus {
    let mut status = f.host.plugins().status(id).unwrap();
    soon(status.wait_for(|s| s.state == state)).await.unwrap().clone()
}

pub async fn started(control: &Control, times: usize) {
    soon(control.starts.subscribe().wait_for(|s| s.0 == times)).await.unwrap();
}

pub fn state(f: &Fixture, id: &str) -> PluginState {
    f.host.plugins().get(id).unwrap().status.state
}

pub fn request() -> PluginRequest {
    PluginRequest {
        method: "GET".into(),
        path: vec!["x".into()],
        query: Default::default(),
        body: Default::default(),
        principal: Principal::Owner,
    }
}

/// Whatever the bad one did, the good one works.
pub async fn unharmed(f: &Fixture, good: &Control) {
    assert_eq!(state(f, "good"), PluginState::Running);
    assert_eq!(good.starts.borrow().0, 1);
    assert_eq!(f.host.plugins().http("good").unwrap().handle(request()).await.status, 200);
    f.host.inbox().create_approval(&Actor::Owner, bash("ls")).await.unwrap();
}
