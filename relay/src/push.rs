//! Waking absent devices.
//!
//! The queue holds the message; a push only makes its device look. What is pushed is therefore read from the queue
//! when the push leaves: if several messages came within the window the newest goes, and if the device has connected
//! and confirmed meanwhile nothing goes (relay-server "Push").

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skald_relay_common::frame::{Message, Platform};
use skald_relay_common::ids::{NamespaceId, PublicKey};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// Messages to one device within this time make one push.
pub const WINDOW: Duration = Duration::from_secs(2);
/// How many devices may wait for the coalescer. When it is full a push is left out: the message is still queued.
const MAILBOX: usize = 4096;
/// How many pushes are with their providers at a time.
const AT_ONCE: usize = 64;
/// How long a provider may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A push on its way to a provider.
pub struct Push {
    /// Whose device.
    pub namespace: NamespaceId,
    /// Which device.
    pub device: PublicKey,
    /// What it runs on, and so which provider reaches it.
    pub platform: Platform,
    /// Its token with that provider. Never shown anywhere.
    pub token: String,
    /// The newest message that waits for it; `peer` is its sender.
    pub message: Message,
}

/// What a provider said.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushOutcome {
    /// It took the push.
    Sent,
    /// The token is dead and must be forgotten.
    TokenDead,
    /// It did not; the text says why, without the token.
    Failed(String),
}

/// A way to providers.
#[async_trait]
pub trait PushSender: Send + Sync + 'static {
    /// Hands a push to the provider of its platform.
    async fn send(&self, push: &Push) -> PushOutcome;
}

/// Writes a line to the log in place of a push.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogSender;

#[async_trait]
impl PushSender for LogSender {
    async fn send(&self, push: &Push) -> PushOutcome {
        tracing::info!(
            namespace = %push.namespace.short(),
            device = %push.device.short(),
            platform = push.platform.name(),
            "a device could be woken, but no push provider is set up"
        );
        PushOutcome::Sent
    }
}

/// Where absent devices are reported.
#[derive(Clone)]
pub(crate) struct PushQueue(mpsc::Sender<(NamespaceId, PublicKey)>);

impl PushQueue {
    pub(crate) fn new() -> (Self, mpsc::Receiver<(NamespaceId, PublicKey)>) {
        let (send, receive) = mpsc::channel(MAILBOX);
        (Self(send), receive)
    }

    /// A message waits for a device that is absent.
    pub(crate) fn absent(&self, namespace: NamespaceId, device: PublicKey) {
        if self.0.try_send((namespace, device)).is_err() {
            tracing::warn!(device = %device.short(), "too many devices wait for a push; this one is left out");
        }
    }
}

/// Coalesces and sends, until stopped.
pub(crate) async fn run(
    mut reports: mpsc::Receiver<(NamespaceId, PublicKey)>,
    store: Store,
    sender: Arc<dyn PushSender>,
    stop: CancellationToken,
) {
    let mut waiting: HashMap<(NamespaceId, PublicKey), Instant> = HashMap::new();
    let mut sending = JoinSet::new();
    loop {
        let next = waiting.values().min().copied().filter(|_| sending.len() < AT_ONCE);
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            report = reports.recv() => match report {
                Some(device) => {
                    if let Entry::Vacant(first) = waiting.entry(device) {
                        first.insert(Instant::now() + WINDOW);
                    }
                }
                None => break,
            },
            () = due => {
                let now = Instant::now();
                let ripe: Vec<_> = waiting.iter().filter(|(_, at)| **at <= now).map(|(device, _)| *device).collect();
                for (namespace, device) in ripe.into_iter().take(AT_ONCE) {
                    waiting.remove(&(namespace, device));
                    sending.spawn(push(store.clone(), Arc::clone(&sender), namespace, device));
                }
            }
            Some(done) = sending.join_next(), if !sending.is_empty() => {
                if let Err(error) = done {
                    tracing::error!(%error, "a push ended badly");
                }
            }
        }
    }
    sending.shutdown().await;
}

async fn push(store: Store, sender: Arc<dyn PushSender>, namespace: NamespaceId, device: PublicKey) {
    let absent = match store.absent_device(&namespace, &device).await {
        Ok(Some(absent)) => absent,
        Ok(None) => return,
        Err(error) => {
            tracing::error!(%error, "a push cannot be read from the database");
            return;
        }
    };
    let push =
        Push { namespace, device, platform: absent.platform, token: absent.token, message: absent.newest };
    let outcome = tokio::time::timeout(PATIENCE, sender.send(&push)).await;
    match outcome {
        Ok(PushOutcome::Sent) => {}
        Ok(PushOutcome::TokenDead) => {
            tracing::info!(device = %device.short(), platform = push.platform.name(), "a push token is dead");
            if store.forget_token(namespace, device, push.token).await.is_err() {
                tracing::warn!(device = %device.short(), "a dead push token could not be forgotten");
            }
        }
        Ok(PushOutcome::Failed(reason)) => {
            tracing::warn!(device = %device.short(), platform = push.platform.name(), reason, "a push failed");
        }
        Err(_) => tracing::warn!(device = %device.short(), "a push provider does not answer"),
    }
}
