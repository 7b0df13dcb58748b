//! What the host's tests share.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skald_core_api::*;
use skald_host::*;

pub const NOW: i64 = 1_800_000_000_000;

pub struct NoWeb;
#[async_trait]
impl LocalWeb for NoWeb {
    async fn connect(&self, _: DevicePeer) -> std::io::Result<Box<dyn ByteStream>> {
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
    }
}

pub struct Fixture {
    pub host: Host,
    pub clock: ManualClock,
    pub dir: tempfile::TempDir,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with(Vec::new()).await
    }

    pub async fn with(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(NOW);
        let host = open(dir.path(), &clock, plugins).await.unwrap();
        Self { host, clock, dir }
    }

    /// Copies what is on disk at this moment and opens the copy: exactly what a killed process leaves behind.
    pub async fn crash(self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["skald.db", "skald.db-wal"] {
            let from = self.dir.path().join(name);
            if from.exists() {
                std::fs::copy(from, dir.path().join(name)).unwrap();
            }
        }
        self.host.shutdown().await;
        let host = open(dir.path(), &self.clock, Vec::new()).await.unwrap();
        Self { host, clock: self.clock, dir }
    }

    pub async fn restart(self) -> Self {
        self.host.shutdown().await;
        let host = open(self.dir.path(), &self.clock, Vec::new()).await.unwrap();
        Self { host, ..self }
    }
}

pub async fn open(dir: &Path, clock: &ManualClock, plugins: Vec<Arc<dyn Plugin>>) -> Result<Host, OpenError> {
    let mut config = HostConfig::new(dir, plugins);
    config.clock = Arc::new(clock.clone());
    Host::open(config).await
}

/// No signal takes half a minute; a test that waits longer has failed.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("the signal never came")
}

pub fn token(name: &str) -> Principal {
    Principal::Token { name: name.into() }
}

pub fn device(name: &str) -> Actor {
    Actor::Device { key: "ab".repeat(32), name: name.into() }
}

pub fn bash(summary: &str) -> NewApproval {
    NewApproval { tool_name: "Bash".into(), summary: summary.into(), ..Default::default() }
}

pub fn decide(decision: Decision) -> Answer {
    Answer::Approval { decision, reason: None, bypass_secs: None, proof: None }
}

pub fn accept(content: serde_json::Value) -> Answer {
    Answer::Elicitation { action: ElicitationAction::Accept, content: Some(content) }
}

pub fn password() -> NewElicitation {
    NewElicitation {
        server_name: "db".into(),
        message: "Password of the database".into(),
        field_name: Some("password".into()),
        ..Default::default()
    }
}

/// The fields an error names.
pub fn fields<T: std::fmt::Debug>(result: Result<T, Error>) -> Vec<String> {
    match result {
        Err(Error::Invalid(errors)) => errors.into_iter().map(|e| e.field).collect(),
        other => panic!("expected field errors, got {other:?}"),
    }
}

pub fn on_disk(dir: &Path, needle: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|f| {
        let bytes = std::fs::read(f.unwrap().path()).unwrap_or_default();
        bytes.windows(needle.len()).any(|w| w == needle.as_bytes())
    })
}
