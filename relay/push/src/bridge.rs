//! The one interface to push providers.

use std::sync::Arc;

use async_trait::async_trait;

use crate::push::Push;
use crate::verdict::Verdict;

/// A kind of push service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provider {
    /// Apple's.
    Apns,
    /// Google's.
    Fcm,
    /// Browsers' and UnifiedPush.
    WebPush,
    /// Plain ntfy, which gets no content.
    Ntfy,
    /// Another operator's gateway, which has Apple's and Google's keys.
    Gateway,
}

impl Provider {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Apns, Self::Fcm, Self::WebPush, Self::Ntfy, Self::Gateway];

    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apns => "apns",
            Self::Fcm => "fcm",
            Self::WebPush => "webpush",
            Self::Ntfy => "ntfy",
            Self::Gateway => "gateway",
        }
    }
}

/// What fails together: a provider, or one of the hosts behind it where it has many. A way that is out of order is left
/// alone for all its devices, and no other way suffers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// Which provider.
    pub provider: Provider,
    /// Which of its hosts, where devices name them. Not for logs: an operator's users chose it.
    pub host: Option<Arc<str>>,
}

impl Lane {
    /// The provider as a whole.
    pub const fn whole(provider: Provider) -> Self {
        Self { provider, host: None }
    }

    /// One host of a provider.
    pub fn host(provider: Provider, host: &str) -> Self {
        Self { provider, host: Some(host.into()) }
    }
}

/// A way to one provider.
///
/// `send` makes one attempt, which may include what the provider's own rules ask for within it (a fresh access token, a
/// new connection). Retrying, back-off and coalescing are the caller's. It needs no deadline of its own: the caller drops
/// the future when its patience ends.
#[async_trait]
pub trait Bridge: Send + Sync + 'static {
    /// Which provider.
    fn provider(&self) -> Provider;

    /// What fails together with this push.
    fn lane(&self, push: &Push) -> Lane {
        let _ = push;
        Lane::whole(self.provider())
    }

    /// Hands the push over.
    async fn send(&self, push: &Push) -> Verdict;
}
