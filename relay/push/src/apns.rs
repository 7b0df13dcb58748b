//! Apple's service: HTTP/2, tokens signed by the operator's key, one connection that is kept.

mod answer;
mod signer;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use zeroize::Zeroizing;

use self::answer::Next;
use self::signer::Signer;
use crate::bridge::{Bridge, Provider};
use crate::bridges::SetupError;
use crate::http::{self as client, Roots, Versions};
use crate::payload;
use crate::push::{Push, WallClock};
use crate::settings::ApnsSettings;
use crate::verdict::Verdict;

const PRODUCTION: &str = "https://api.push.apple.com";
const SANDBOX: &str = "https://api.sandbox.push.apple.com";
/// Apple's tokens are 32 bytes today and may grow; this much is no token of theirs.
const LONGEST_TOKEN: usize = 200;
/// How many requests one push makes at most: the first, one with a fresh token, and one on a fresh connection.
const REQUESTS: u32 = 3;

/// The way to Apple's service.
pub struct Apns {
    roots: Roots,
    base_url: String,
    topic: HeaderValue,
    signer: Signer,
    clock: WallClock,
    connection: Mutex<Connection>,
    /// Held by the one request that may be under way before the connection has seen a valid token.
    alone: AsyncMutex<()>,
}

/// A client stands for one connection: HTTP/2 needs no more, and a new client is a new connection.
#[derive(Clone)]
struct Connection {
    number: u64,
    client: reqwest::Client,
    /// It has seen a valid token, so Apple allows many streams on it.
    warm: bool,
}

impl Apns {
    /// Reads the key and makes ready. Nothing is sent yet.
    pub fn new(settings: &ApnsSettings, roots: &Roots, clock: &WallClock) -> Result<Self, SetupError> {
        let signer = Signer::load(settings)?;
        let topic = HeaderValue::from_str(&settings.topic).ok().filter(|topic| !topic.is_empty());
        let topic = topic.ok_or_else(|| SetupError::Value {
            setting: "push.apns.topic",
            problem: "must be the app's bundle identifier, such as org.example.app".to_owned(),
        })?;
        let own = if settings.sandbox { SANDBOX } else { PRODUCTION };
        let base_url = client::base_url("push.apns.base_url", settings.base_url.as_deref(), own)?;
        let connection = Connection { number: 0, client: connect(roots)?, warm: false };
        Ok(Self {
            roots: roots.clone(),
            base_url,
            topic,
            signer,
            clock: clock.clone(),
            connection: Mutex::new(connection),
            alone: AsyncMutex::new(()),
        })
    }

    fn connection(&self) -> Connection {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the right to use the connection: until it is warm one request at a time has it.
    async fn enter(&self) -> (Connection, Option<MutexGuard<'_, ()>>) {
        let connection = self.connection();
        if connection.warm {
            return (connection, None);
        }
        let alone = self.alone.lock().await;
        // Whoever was before has warmed it, or another has taken its place.
        let connection = self.connection();
        let alone = (!connection.warm).then_some(alone);
        (connection, alone)
    }

    fn warmed(&self, number: u64) {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.warm |= connection.number == number;
    }

    /// Leaves this connection, unless someone else has done so already.
    fn reconnect(&self, number: u64) {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.number != number {
            return;
        }
        // What could be made once can be made again; should it fail the old client opens a connection by itself.
        if let Ok(client) = connect(&self.roots) {
            *connection = Connection { number: number + 1, client, warm: false };
        }
    }

    fn headers(&self, push: &Push, token: &str) -> Option<HeaderMap> {
        let mut bearer = HeaderValue::try_from(Zeroizing::new(format!("bearer {token}")).as_str()).ok()?;
        bearer.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer);
        headers.insert("apns-topic", self.topic.clone());
        headers.insert("apns-push-type", HeaderValue::from_static("alert"));
        headers.insert("apns-priority", HeaderValue::from_static("10"));
        headers.insert("apns-expiration", HeaderValue::from(push.expires.secs().max(0)));
        headers.insert("apns-collapse-id", HeaderValue::try_from(collapse_id(push)).ok()?);
        Some(headers)
    }
}

fn connect(roots: &Roots) -> Result<reqwest::Client, SetupError> {
    client::finish(client::builder(roots, Versions::Two))
}

/// The same for every push to a device, so that a later one takes the place of an earlier one that was not looked at, and
/// meaningless to whoever reads it.
fn collapse_id(push: &Push) -> String {
    let mut hash = Sha256::new();
    hash.update(b"skald push collapse");
    hash.update(push.namespace.as_bytes());
    hash.update(push.device.as_bytes());
    hex::encode(&hash.finalize()[..16])
}

#[async_trait]
impl Bridge for Apns {
    fn provider(&self) -> Provider {
        Provider::Apns
    }

    async fn send(&self, push: &Push) -> Verdict {
        let device = push.token.as_str();
        let hex = device.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hex || !(2..=LONGEST_TOKEN).contains(&device.len()) {
            // It would not even make an address.
            return Verdict::TokenDead { since: None };
        }
        let url = Zeroizing::new(format!("{}/3/device/{device}", self.base_url));
        let body = payload::apns(push);
        let (mut signed_again, mut reconnected) = (false, false);
        let mut verdict = Verdict::unreachable("the connection was lost");
        for _ in 0..REQUESTS {
            let (connection, _alone) = self.enter().await;
            let Ok(token) = self.signer.token(self.clock.now()) else {
                return Verdict::ours("no token could be signed");
            };
            let Some(headers) = self.headers(push, &token) else {
                return Verdict::ours("a header cannot be written");
            };
            let request = connection.client.post(url.as_str()).headers(headers).body(body.clone());
            let response = match request.send().await {
                Ok(response) => response,
                Err(error) => {
                    verdict = Verdict::unreachable(client::failure(&error));
                    self.reconnect(connection.number);
                    if std::mem::replace(&mut reconnected, true) {
                        return verdict;
                    }
                    continue;
                }
            };
            let status = response.status();
            let headers = response.headers().clone();
            let said = client::answer(response).await;
            let next = answer::judge(status.as_u16(), &said, client::retry_after(&headers, self.clock.now()));
            if status != StatusCode::FORBIDDEN {
                self.warmed(connection.number);
            }
            match next {
                Next::Done(done) => {
                    if status == StatusCode::OK {
                        let id = headers.get("apns-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
                        tracing::debug!(device = %push.device.short(), apns_id = id, "Apple took a push");
                    }
                    return done;
                }
                Next::OtherEnvironment(done) => {
                    tracing::warn!(
                        device = %push.device.short(),
                        "Apple does not know a device's token; if it is a fresh one, the app belongs to the other \
                         environment (see push.apns.sandbox) or to another topic"
                    );
                    return done;
                }
                Next::Reconnect(done) => {
                    self.reconnect(connection.number);
                    return done;
                }
                Next::SignAgain => {
                    verdict = Verdict::operator("ExpiredProviderToken");
                    let again = self.signer.refused(&token, self.clock.now());
                    if std::mem::replace(&mut signed_again, true) || !again {
                        tracing::error!("Apple calls a fresh token expired: set this machine's clock right");
                        return verdict;
                    }
                }
                Next::OtherConnection(done) => {
                    verdict = done;
                    self.reconnect(connection.number);
                    if std::mem::replace(&mut reconnected, true) {
                        return verdict;
                    }
                }
            }
        }
        verdict
    }
}

impl Apns {
    /// The bridge to hand to [`crate::Bridges`].
    pub fn shared(self) -> Arc<dyn Bridge> {
        Arc::new(self)
    }
}
