//! One supervisor per plugin: it alone starts, watches and stops it, one thing at a time.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use skald_core_api::{
    Event, Events, LocalWeb, PluginContext, PluginHttp, PluginState, PluginStatus, Running, StartError,
    StatusReporter,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::config::Stored;
use super::entry::{Command, Entry};
use super::guard::{Guarded, calm};
use super::{PluginInfo, Surroundings, alive};
use crate::{Error, FieldError};

/// A plugin at work, seen from outside.
struct Life {
    stop: CancellationToken,
    keeper: JoinHandle<()>,
    began: Duration,
}

/// Why a start gave no life.
enum NoStart {
    /// The plugin says what to do; trying again changes nothing.
    Refused(String),
    /// It broke; trying again may help.
    Broke(String),
    /// The host stops.
    Stopping,
}

pub(super) struct Supervisor {
    entry: Arc<Entry>,
    commands: mpsc::Receiver<Command>,
    around: Surroundings,
    local_web: Option<Arc<dyn LocalWeb>>,
    life: Option<Life>,
    died: Option<oneshot::Receiver<String>>,
    reports: Option<watch::Receiver<PluginStatus>>,
    retry: Option<BoxFuture<'static, ()>>,
    failures: u32,
}

async fn cause_of_death(died: &mut Option<oneshot::Receiver<String>>) -> String {
    match died {
        Some(rx) => {
            rx.await.unwrap_or_else(|_| "It stopped unexpectedly; this is a fault in the plugin.".into())
        }
        None => pending().await,
    }
}

async fn next_report(reports: &mut Option<watch::Receiver<PluginStatus>>) -> Option<PluginStatus> {
    match reports {
        Some(rx) => match rx.changed().await {
            Ok(()) => Some(rx.borrow_and_update().clone()),
            Err(_) => None,
        },
        None => pending().await,
    }
}

async fn due(retry: &mut Option<BoxFuture<'static, ()>>) {
    match retry {
        Some(timer) => timer.await,
        None => pending().await,
    }
}

impl Supervisor {
    pub(super) fn new(entry: Arc<Entry>, commands: mpsc::Receiver<Command>, around: Surroundings) -> Self {
        Self {
            entry,
            commands,
            around,
            local_web: None,
            life: None,
            died: None,
            reports: None,
            retry: None,
            failures: 0,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                () = self.around.stop.cancelled() => break,
                cause = cause_of_death(&mut self.died) => self.bury(cause).await,
                report = next_report(&mut self.reports) => match report {
                    Some(s) => self.entry.show(s.state, s.message),
                    None => self.reports = None,
                },
                command = self.commands.recv() => match command {
                    Some(Command::Begin(web)) => {
                        self.local_web = Some(web);
                        self.start_if_enabled().await;
                    }
                    Some(Command::Update { enabled, config, reply }) => {
                        let result = self.update(enabled, config).await;
                        // The one who asked may have gone; the change stands.
                        let _ = reply.send(result);
                    }
                    None => break,
                },
                () = due(&mut self.retry) => {
                    self.retry = None;
                    self.start_if_enabled().await;
                }
            }
        }
        self.stop_life().await;
    }

    async fn update(&mut self, enabled: Option<bool>, config: Option<Value>) -> Result<PluginInfo, Error> {
        let old = self.entry.stored();
        let new = Stored {
            enabled: enabled.unwrap_or(old.enabled),
            config: config.clone().or_else(|| old.config.clone()),
        };
        if let Some(config) = &config {
            let complete = self.entry.schema.check(config)?;
            self.plugin_check(&complete)?;
        }
        let settled = alive(self.entry.state()) || !new.enabled;
        if new == old && settled {
            return Ok(self.entry.info());
        }
        if new != old {
            self.save(&new).await?;
            self.entry.store(new);
            self.entry.events.publish(Event::Plugins);
        }
        self.stop_life().await;
        self.failures = 0;
        self.start_if_enabled().await;
        Ok(self.entry.info())
    }

    fn plugin_check(&self, complete: &Value) -> Result<(), Error> {
        match calm(|| self.entry.plugin.check_config(complete)) {
            Some(result) => result.map_err(|faults| {
                Error::Invalid(faults.into_iter().map(|f| FieldError::new(f.field, f.message)).collect())
            }),
            None => Err(Error::field(
                "config",
                "The plugin failed over these settings; this is a fault in the plugin.",
            )),
        }
    }

    async fn save(&mut self, new: &Stored) -> Result<(), Error> {
        let Some(config) = &new.config else {
            // Unreadable settings stay as they are stored until new ones are given.
            let mut tx = self.around.store.write().await?;
            sqlx::query("UPDATE plugins SET enabled = ? WHERE id = ?")
                .bind(new.enabled)
                .bind(&self.entry.manifest.id)
                .execute(&mut *tx)
                .await?;
            return Ok(tx.commit().await?);
        };
        let mut tx = self.around.store.write().await?;
        sqlx::query(
            "INSERT INTO plugins (id, enabled, config) VALUES (?, ?, ?)
             ON CONFLICT (id) DO UPDATE SET enabled = excluded.enabled, config = excluded.config",
        )
        .bind(&self.entry.manifest.id)
        .bind(new.enabled)
        .bind(config.to_string())
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// Starts the plugin if it is to run and can.
    async fn start_if_enabled(&mut self) {
        let stored = self.entry.stored();
        if !stored.enabled || self.around.stop.is_cancelled() {
            self.entry.show(PluginState::Disabled, None);
            return;
        }
        let Some(local_web) = self.local_web.clone() else { return };
        if self.life.is_some() {
            return;
        }
        let config = match &stored.config {
            None => Err("Its stored settings cannot be read: save them anew.".to_owned()),
            Some(config) => self.entry.schema.check(config).map_err(|e| e.to_string()),
        };
        let config = match config.and_then(|c| self.plugin_check(&c).map(|()| c).map_err(|e| e.to_string())) {
            Ok(config) => config,
            Err(cause) => return self.entry.show(PluginState::Failed, Some(cause)),
        };
        self.entry.show(PluginState::Starting, None);
        match self.start(config, local_web).await {
            Ok(()) | Err(NoStart::Stopping) => {}
            Err(NoStart::Refused(cause)) => {
                tracing::warn!(plugin = self.entry.manifest.id, cause, "a plugin could not start");
                self.reports = None;
                self.entry.show(PluginState::Failed, Some(cause));
            }
            Err(NoStart::Broke(cause)) => {
                self.reports = None;
                self.failed(cause);
            }
        }
    }

    async fn start(&mut self, config: Value, local_web: Arc<dyn LocalWeb>) -> Result<(), NoStart> {
        let starting = PluginStatus::new(PluginState::Starting, None);
        let (status, mut reports) = watch::channel(starting);
        let context = PluginContext {
            data_dir: self.around.data_dir.clone(),
            db: self.around.store.pool().clone(),
            inbox: Arc::new(self.around.inbox.clone()),
            events: Arc::new(self.around.events.clone()),
            streams: Arc::new(self.around.streams.clone()),
            local_web,
            status: StatusReporter::new(status.clone()),
        };
        let mut patience = self.around.clock.sleep(self.around.timings.start);
        let plugin = self.entry.plugin.clone();
        // A task of its own: a panic ends the task, and a start that blocks blocks nobody else.
        let mut task: JoinHandle<Result<Box<dyn Running>, StartError>> =
            tokio::spawn(async move { plugin.start(config, context).await });
        let started = loop {
            tokio::select! {
                biased;
                result = &mut task => break Some(result),
                changed = reports.changed() => if changed.is_ok() {
                    let s = reports.borrow_and_update().clone();
                    self.entry.show(s.state, s.message);
                },
                () = self.around.stop.cancelled() => {
                    task.abort();
                    self.settle_aborted(task).await;
                    return Err(NoStart::Stopping);
                }
                () = &mut patience => break None,
            }
        };
        let running = match started {
            Some(Ok(Ok(running))) => running,
            Some(Ok(Err(StartError(cause)))) => return Err(NoStart::Refused(cause)),
            Some(Err(_)) => {
                return Err(NoStart::Broke(
                    "It failed while it started; this is a fault in the plugin.".into(),
                ));
            }
            None => {
                task.abort();
                self.settle_aborted(task).await;
                let secs = self.around.timings.start.as_secs();
                return Err(NoStart::Broke(format!("It did not start within {secs} seconds.")));
            }
        };
        self.entry.set_http(calm(|| running.http()).flatten().map(|http| {
            let plugin = self.entry.manifest.id.clone();
            Arc::new(Guarded { plugin, http }) as Arc<dyn PluginHttp>
        }));
        // A plugin that said nothing of itself is at work.
        status.send_if_modified(|s| {
            let silent = s.state == PluginState::Starting;
            if silent {
                *s = PluginStatus::new(PluginState::Running, None);
            }
            silent
        });
        let s = reports.borrow_and_update().clone();
        self.entry.show(s.state, s.message);
        let (tell, died) = oneshot::channel();
        let stop = CancellationToken::new();
        let keeper = tokio::spawn(keep(running, stop.clone(), tell));
        self.life = Some(Life { stop, keeper, began: self.around.clock.monotonic() });
        self.died = Some(died);
        self.reports = Some(reports);
        Ok(())
    }

    /// After an abort the task ends at its next await; one that never awaits is left behind.
    async fn settle_aborted<T>(&mut self, mut task: JoinHandle<T>) {
        let patience = self.around.clock.sleep(self.around.timings.stop);
        tokio::select! {
            _ = &mut task => {}
            () = patience => tracing::error!(plugin = self.entry.manifest.id, "a plugin does not let go"),
        }
    }

    /// The plugin died by itself: clean up after it, show the cause, try again later.
    async fn bury(&mut self, cause: String) {
        let lived = self.life.as_ref().map(|l| self.around.clock.monotonic().saturating_sub(l.began));
        self.stop_life().await;
        if lived.is_some_and(|lived| lived >= self.around.timings.steady) {
            self.failures = 0;
        }
        self.failed(cause);
    }

    fn failed(&mut self, cause: String) {
        let timings = &self.around.timings;
        let pause = timings.backoff_first.saturating_mul(1 << self.failures.min(16)).min(timings.backoff_max);
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(
            plugin = self.entry.manifest.id,
            cause,
            "a plugin failed; it is started again in a while"
        );
        self.retry = Some(self.around.clock.sleep(pause));
        self.entry.show(PluginState::Failed, Some(cause));
    }

    /// Stops the plugin and waits for it, but not for ever.
    async fn stop_life(&mut self) {
        self.retry = None;
        self.died = None;
        self.reports = None;
        self.entry.set_http(None);
        let Some(mut life) = self.life.take() else { return };
        let patience = self.around.clock.sleep(self.around.timings.stop);
        life.stop.cancel();
        tokio::select! {
            biased;
            ended = &mut life.keeper => {
                if ended.is_err() {
                    tracing::error!(plugin = self.entry.manifest.id, "a plugin panicked");
                }
            }
            () = patience => {
                tracing::error!(plugin = self.entry.manifest.id, "a plugin did not stop in time and is cut off");
                life.keeper.abort();
                self.settle_aborted(life.keeper).await;
            }
        }
    }
}

/// Owns the plugin while it runs.
async fn keep(running: Box<dyn Running>, stop: CancellationToken, tell: oneshot::Sender<String>) {
    let cause = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        cause = running.died() => Some(cause),
    };
    if let Some(cause) = cause {
        // Told before the clean-up, which may take its time.
        let _ = tell.send(cause);
    }
    running.stop().await;
}
