//! What is pushed.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use skald_relay_common::frame::Platform;
use skald_relay_common::ids::{MessageNonce, NamespaceId, PublicKey};
use zeroize::Zeroizing;

/// Milliseconds since 1970, by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// Whole seconds since 1970, rounded down.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// How long it is until `later`; zero where that has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }

    /// So much later.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// The wall clock, replaceable for tests: provider tokens and expiries go by it.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> UnixMillis + Send + Sync>);

impl WallClock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::from_fn(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        })
    }

    /// Another clock.
    pub fn from_fn(now: impl Fn() -> UnixMillis + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What it says.
    pub fn now(&self) -> UnixMillis {
        (self.0)()
    }
}

/// A device's token with its provider. Whoever has it can wake the device, so it cannot be printed and erases itself.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

impl Token {
    /// Takes the token as the device gave it.
    pub fn new(token: String) -> Self {
        Self(Zeroizing::new(token))
    }

    /// The token, for the provider and for comparison alone.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a push carries.
#[derive(Clone)]
pub enum Content {
    /// A sealed message. It rides in the push if it is small enough, and otherwise only wakes.
    Sealed {
        /// Who sent it.
        sender: PublicKey,
        /// Its AEAD nonce.
        nonce: MessageNonce,
        /// What nobody between the two ends can open.
        ciphertext: Bytes,
    },
    /// Nothing: the device wakes and fetches.
    Wake,
}

/// A push on its way to a provider.
#[derive(Clone)]
pub struct Push {
    /// Whose device.
    pub namespace: NamespaceId,
    /// Which device.
    pub device: PublicKey,
    /// What it runs on.
    pub platform: Platform,
    /// Its token.
    pub token: Token,
    /// When the message ends to be worth anything.
    pub expires: UnixMillis,
    /// What it carries.
    pub content: Content,
}

impl Push {
    /// The same without its content, for a provider that calls it too large.
    #[must_use]
    pub fn as_wake(mut self) -> Self {
        self.content = Content::Wake;
        self
    }
}
