//! Which bridge reaches which device.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skald_relay_common::frame::Platform;
use tokio::time::Instant;

use crate::bridge::{Bridge, Lane, Provider};
use crate::metrics::PushMetrics;
use crate::push::{Push, Token};
use crate::verdict::Verdict;

/// How long a provider may take for one push, its retries within the attempt included.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Why the bridges cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A file with a key or a certificate cannot be read.
    #[error(
        "{setting} names {path}, which cannot be read ({cause}): put the file there, or change the setting"
    )]
    File {
        /// Which setting.
        setting: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// A file holds something else than it should.
    #[error("{setting} names {path}, which {problem}")]
    Content {
        /// Which setting.
        setting: &'static str,
        /// Which file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A value makes no sense.
    #[error("{setting} {problem}")]
    Value {
        /// Which setting.
        setting: &'static str,
        /// What is wrong and what it should be.
        problem: String,
    },
}

/// Every bridge that is set up.
#[derive(Default)]
pub struct Bridges {
    apns: Option<Arc<dyn Bridge>>,
    fcm: Option<Arc<dyn Bridge>>,
    webpush: Option<Arc<dyn Bridge>>,
    ntfy: Option<Arc<dyn Bridge>>,
    gateway: Option<Arc<dyn Bridge>>,
    /// One for everything, in tests.
    only: Option<Arc<dyn Bridge>>,
    metrics: PushMetrics,
    vapid_key: Bytes,
    /// Kinds of device that nothing reaches, so that the log says so once each.
    unserved: Mutex<HashSet<Kind>>,
}

/// What a token's shape and the platform say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    WebPush,
    Ntfy,
    Apple,
    Android,
    /// Nothing that any bridge could take.
    Other,
}

impl Kind {
    fn of(platform: Platform, token: &Token) -> Self {
        let token = token.as_str().trim_start();
        if token.starts_with('{') {
            Self::WebPush
        } else if token.starts_with("ntfy:") {
            Self::Ntfy
        } else if platform == Platform::IOS {
            Self::Apple
        } else if platform == Platform::ANDROID {
            Self::Android
        } else {
            Self::Other
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::WebPush => "a Web Push subscription",
            Self::Ntfy => "an ntfy topic",
            Self::Apple => "an APNs token",
            Self::Android => "an FCM token",
            Self::Other => "a token of no known form",
        }
    }
}

impl Bridges {
    /// None at all: every push ends with [`Verdict::NoProvider`].
    pub fn none() -> Self {
        Self::default()
    }

    /// One bridge for every device, whatever its platform.
    pub fn only(bridge: Arc<dyn Bridge>) -> Self {
        Self { only: Some(bridge), ..Self::default() }
    }

    /// The same with this bridge in its provider's place.
    #[must_use]
    pub fn with(mut self, bridge: Arc<dyn Bridge>) -> Self {
        let place = match bridge.provider() {
            Provider::Apns => &mut self.apns,
            Provider::Fcm => &mut self.fcm,
            Provider::WebPush => &mut self.webpush,
            Provider::Ntfy => &mut self.ntfy,
            Provider::Gateway => &mut self.gateway,
        };
        *place = Some(bridge);
        self
    }

    /// The same with the key that Web Push subscriptions must name.
    #[must_use]
    pub fn with_vapid_key(mut self, key: &[u8]) -> Self {
        self.vapid_key = Bytes::copy_from_slice(key);
        self
    }

    /// The key that Web Push subscriptions must name: an uncompressed P-256 point of 65 bytes, or nothing where there
    /// is no Web Push.
    pub fn vapid_key(&self) -> Bytes {
        self.vapid_key.clone()
    }

    /// The same with these counters.
    #[must_use]
    pub fn counted_by(mut self, metrics: PushMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// The counters.
    pub fn metrics(&self) -> &PushMetrics {
        &self.metrics
    }

    /// The providers that are set up.
    pub fn providers(&self) -> Vec<Provider> {
        let places = [&self.only, &self.apns, &self.fcm, &self.webpush, &self.ntfy, &self.gateway];
        places.into_iter().flatten().map(|bridge| bridge.provider()).collect()
    }

    fn bridge(&self, kind: Kind) -> Option<&Arc<dyn Bridge>> {
        let own = match kind {
            Kind::WebPush => &self.webpush,
            Kind::Ntfy => &self.ntfy,
            // Whoever has no keys of its own hands on to who has.
            Kind::Apple => {
                if self.apns.is_some() {
                    &self.apns
                } else {
                    &self.gateway
                }
            }
            Kind::Android => {
                if self.fcm.is_some() {
                    &self.fcm
                } else {
                    &self.gateway
                }
            }
            Kind::Other => &None,
        };
        self.only.as_ref().or(own.as_ref())
    }

    /// What a push fails together with; nothing where no bridge reaches its device.
    pub fn lane(&self, push: &Push) -> Option<Lane> {
        self.bridge(Kind::of(push.platform, &push.token)).map(|bridge| bridge.lane(push))
    }

    /// Hands a push to the bridge that reaches its device, and counts what became of it.
    pub async fn send(&self, push: &Push) -> Verdict {
        let kind = Kind::of(push.platform, &push.token);
        let Some(bridge) = self.bridge(kind) else {
            self.metrics.unserved();
            let mut unserved = self.unserved.lock().unwrap_or_else(PoisonError::into_inner);
            if unserved.insert(kind) {
                tracing::warn!(
                    platform = push.platform.name(),
                    "a device has {}, and no push provider is set up that takes it: it is not woken",
                    kind.name()
                );
            }
            return Verdict::NoProvider;
        };
        let begun = Instant::now();
        let verdict = tokio::time::timeout(PATIENCE, bridge.send(push)).await;
        let verdict = verdict.unwrap_or_else(|_| Verdict::unreachable("no answer in time"));
        self.metrics.sent(bridge.provider(), &verdict, begun.elapsed());
        verdict
    }
}
