//! Apple's push service: HTTP/2 alone, provider tokens verified, headers checked, and its answers by name.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Version;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::server::{Act, Alpn, Clock, FakeServer, Incoming, Reply};
use crate::Authority;

/// The key's name in every fake.
pub const KEY_ID: &str = "ABC123DEFG";
/// The team's name.
pub const TEAM_ID: &str = "DEF123GHIJ";
/// The app.
pub const TOPIC: &str = "org.example.skald";
/// Apple's limits.
const LARGEST: usize = 4096;
const HOUR: i64 = 3600;
const SOONEST: i64 = 20 * 60;

/// The service, running.
#[derive(Debug)]
pub struct ApnsFake {
    server: FakeServer,
    state: Arc<State>,
    pushes: tokio::sync::Mutex<mpsc::UnboundedReceiver<Value>>,
    key: String,
}

struct State {
    clock: Clock,
    public: Vec<u8>,
    told: mpsc::UnboundedSender<Value>,
    inner: Mutex<Inner>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("State")
    }
}

#[derive(Default)]
struct Inner {
    script: VecDeque<Act>,
    faults: Vec<String>,
    requests: usize,
    /// The provider token in use and since when.
    token: Option<(String, i64)>,
    tokens: usize,
    /// Connections that have seen a valid token.
    warm: HashMap<u64, bool>,
}

impl ApnsFake {
    /// Starts the service with a signing key of its own.
    pub async fn start(authority: &Authority, clock: Clock) -> Result<Self> {
        let random = SystemRandom::new();
        let wrong = |_| anyhow::anyhow!("no key");
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(wrong)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random)
            .ok()
            .context("no key")?;
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(pkcs8.as_ref())
        );
        let (told, pushes) = mpsc::unbounded_channel();
        let public = pair.public_key().as_ref().to_vec();
        let state = Arc::new(State { clock, public, told, inner: Mutex::default() });
        let handler = Arc::clone(&state);
        let answer = Arc::new(move |request: Incoming| {
            let act = handler.act(&request);
            Box::pin(async move { act }) as _
        });
        let server = FakeServer::start(authority, "apns", Alpn::H2, answer).await?;
        Ok(Self { server, state, pushes: tokio::sync::Mutex::new(pushes), key })
    }

    /// The `.p8` file for the relay.
    pub fn key_file(&self) -> &str {
        &self.key
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// What it does with the next requests instead of taking them, in this order.
    pub fn script(&self, acts: impl IntoIterator<Item = Act>) {
        self.lock().script.extend(acts);
    }

    /// An answer by status and reason, as Apple gives it.
    pub fn refusal(status: u16, reason: &str) -> Act {
        Reply::json(status, &json!({"reason": reason})).into()
    }

    /// The answer for a token that is dead since so many milliseconds after 1970.
    pub fn unregistered(since_ms: i64) -> Act {
        Reply::json(410, &json!({"reason": "Unregistered", "timestamp": since_ms})).into()
    }

    /// The next push that was taken: `{token, headers…, body}`.
    pub async fn next_push(&self) -> Option<Value> {
        self.pushes.lock().await.recv().await
    }

    /// A push that was taken already.
    pub async fn taken(&self) -> Option<Value> {
        self.pushes.lock().await.try_recv().ok()
    }

    /// What a client did that Apple's documents forbid.
    pub fn faults(&self) -> Vec<String> {
        self.lock().faults.clone()
    }

    /// How many requests came.
    pub fn requests(&self) -> usize {
        self.lock().requests
    }

    /// How many different provider tokens were seen.
    pub fn tokens(&self) -> usize {
        self.lock().tokens
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        self.server.connections()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.state.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn act(&self, request: &Incoming) -> Act {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.requests += 1;
        let warm = inner.warm.get(&request.connection).copied().unwrap_or(false);
        if request.in_flight > 1 && !warm {
            inner.faults.push("a second stream before a valid token was seen".to_owned());
        }
        if request.version != Version::HTTP_2 {
            inner.faults.push("not HTTP/2".to_owned());
        }
        if let Err((status, reason)) = self.token(request, &mut inner) {
            inner.faults.push(reason.to_owned());
            return ApnsFake::refusal(status, reason);
        }
        inner.warm.insert(request.connection, true);
        if let Some(act) = inner.script.pop_front() {
            return act;
        }
        match push(request, (self.clock)()) {
            Ok(push) => {
                let _ = self.told.send(push);
                let id = request.header("apns-id").unwrap_or("EB4D2E0A-7D9A-4B26-8B23-4F4F7A1C0001");
                Reply::status(200).with_header("apns-id", id).into()
            }
            Err((status, reason)) => {
                inner.faults.push(reason.to_owned());
                ApnsFake::refusal(status, reason)
            }
        }
    }

    /// Verifies the provider token as Apple does.
    fn token(&self, request: &Incoming, inner: &mut Inner) -> Result<(), (u16, &'static str)> {
        let bearer = request.header("authorization").and_then(|value| value.strip_prefix("bearer "));
        let token = bearer.ok_or((403, "MissingProviderToken"))?;
        let invalid = (403, "InvalidProviderToken");
        let (signed, signature) = token.rsplit_once('.').ok_or(invalid)?;
        let (header, claims) = signed.split_once('.').ok_or(invalid)?;
        let json = |part: &str| -> Option<Value> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
        };
        let (header, claims) = (json(header).ok_or(invalid)?, json(claims).ok_or(invalid)?);
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| invalid)?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.public);
        key.verify(signed.as_bytes(), &signature).map_err(|_| invalid)?;
        if header["alg"] != "ES256" || header["kid"] != KEY_ID || claims["iss"] != TEAM_ID {
            return Err(invalid);
        }
        let (now, issued) = ((self.clock)(), claims["iat"].as_i64().ok_or(invalid)?);
        if now - issued > HOUR {
            return Err((403, "ExpiredProviderToken"));
        }
        if issued > now + 60 {
            return Err(invalid);
        }
        if inner.token.as_ref().is_none_or(|(known, _)| known != token) {
            if inner.token.as_ref().is_some_and(|(_, since)| now - since < SOONEST) {
                return Err((429, "TooManyProviderTokenUpdates"));
            }
            inner.token = Some((token.to_owned(), now));
            inner.tokens += 1;
        }
        Ok(())
    }
}

/// Checks the rest of a request, and gives what was pushed.
fn push(request: &Incoming, now: i64) -> Result<Value, (u16, &'static str)> {
    if request.method != "POST" {
        return Err((405, "MethodNotAllowed"));
    }
    let token = request.path.strip_prefix("/3/device/").ok_or((404, "BadPath"))?;
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err((400, "BadDeviceToken"));
    }
    if request.header("apns-topic") != Some(TOPIC) {
        return Err((400, "BadTopic"));
    }
    if request.header("apns-push-type") != Some("alert") {
        return Err((400, "InvalidPushType"));
    }
    if !matches!(request.header("apns-priority"), Some("10" | "5" | "1")) {
        return Err((400, "BadPriority"));
    }
    let expiration = request.header("apns-expiration").and_then(|value| value.parse::<i64>().ok());
    let expiration = expiration.filter(|at| *at == 0 || *at > now).ok_or((400, "BadExpirationDate"))?;
    let collapse = request.header("apns-collapse-id").unwrap_or_default();
    if collapse.len() > 64 {
        return Err((400, "BadCollapseId"));
    }
    if request.body.is_empty() {
        return Err((400, "PayloadEmpty"));
    }
    if request.body.len() > LARGEST {
        return Err((413, "PayloadTooLarge"));
    }
    let body: Value = serde_json::from_slice(&request.body).map_err(|_| (400, "PayloadEmpty"))?;
    Ok(json!({
        "token": token,
        "priority": request.header("apns-priority"),
        "expiration": expiration,
        "collapse": collapse,
        "body": body,
    }))
}
