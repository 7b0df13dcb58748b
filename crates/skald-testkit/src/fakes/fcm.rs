//! Google's push service with the token endpoint before it: assertions verified, access tokens that end, and answers with
//! their codes in `error.details[]`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Version;
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::server::{Act, Alpn, Clock, FakeServer, Incoming, Reply};
use crate::Authority;

/// The project.
pub const PROJECT: &str = "skald-example";
const EMAIL: &str = "relay@skald-example.iam.gserviceaccount.com";
const KEY_ID: &str = "f00df00df00df00d";
/// The account's key in every fake. It is in the source, so it opens nothing.
const KEY: &str = include_str!("service_account.pem");
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
const GRANT: &str = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
const LARGEST: usize = 4096;
const FCM_ERROR: &str = "type.googleapis.com/google.firebase.fcm.v1.FcmError";

/// The service, running.
#[derive(Debug)]
pub struct FcmFake {
    server: FakeServer,
    state: Arc<State>,
    pushes: tokio::sync::Mutex<mpsc::UnboundedReceiver<Value>>,
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
    /// Known once the server listens.
    token_uri: String,
    sends: VecDeque<Act>,
    grants: VecDeque<Act>,
    faults: Vec<String>,
    granted: usize,
    /// The access token in force and when it ends.
    access: Option<(String, i64)>,
}

impl FcmFake {
    /// Starts the service.
    pub async fn start(authority: &Authority, clock: Clock) -> Result<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).context("no key")?;
        let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok().context("no key")?;
        let (told, pushes) = mpsc::unbounded_channel();
        let public = pair.public_key().as_ref().to_vec();
        let state = Arc::new(State { clock, public, told, inner: Mutex::default() });
        let handler = Arc::clone(&state);
        let answer = Arc::new(move |request: Incoming| {
            let act = handler.act(&request);
            Box::pin(async move { act }) as _
        });
        let server = FakeServer::start(authority, "fcm", Alpn::H2, answer).await?;
        state.lock().token_uri = format!("{}/token", server.url());
        Ok(Self { server, state, pushes: tokio::sync::Mutex::new(pushes) })
    }

    /// The service account's file for the relay.
    pub fn service_account(&self) -> String {
        let account = json!({
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": KEY_ID,
            "private_key": KEY,
            "client_email": EMAIL,
            "client_id": "1",
            "token_uri": self.state.lock().token_uri,
        });
        account.to_string()
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// What it does with the next messages instead of taking them, in this order.
    pub fn script(&self, acts: impl IntoIterator<Item = Act>) {
        self.state.lock().sends.extend(acts);
    }

    /// The same for requests of an access token.
    pub fn script_grants(&self, acts: impl IntoIterator<Item = Act>) {
        self.state.lock().grants.extend(acts);
    }

    /// An answer with a code of the messaging service, as Google gives it.
    pub fn refusal(status: u16, code: &str) -> Reply {
        Self::error(status, "refused", code, &json!([{"@type": FCM_ERROR, "errorCode": code}]))
    }

    /// An answer with these details.
    pub fn error(status: u16, message: &str, name: &str, details: &Value) -> Reply {
        let error = json!({"code": status, "message": message, "status": name, "details": details});
        Reply::json(status, &json!({"error": error}))
    }

    /// The next message that was taken.
    pub async fn next_push(&self) -> Option<Value> {
        self.pushes.lock().await.recv().await
    }

    /// Ends every access token before its time.
    pub fn revoke(&self) {
        self.state.lock().access = None;
    }

    /// What a client did that Google's documents forbid.
    pub fn faults(&self) -> Vec<String> {
        self.state.lock().faults.clone()
    }

    /// How many access tokens were given.
    pub fn granted(&self) -> usize {
        self.state.lock().granted
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&self, request: &Incoming) -> Act {
        let mut inner = self.lock();
        if request.version != Version::HTTP_2 {
            inner.faults.push("not HTTP/2".to_owned());
        }
        let now = (self.clock)();
        match request.path.as_str() {
            "/token" => self.grant(request, now, &mut inner),
            path if path == format!("/v1/projects/{PROJECT}/messages:send") => {
                self.send(request, now, &mut inner)
            }
            _ => Reply::status(404).into(),
        }
    }

    fn grant(&self, request: &Incoming, now: i64, inner: &mut Inner) -> Act {
        if let Some(act) = inner.grants.pop_front() {
            return act;
        }
        if let Err(fault) = self.assertion(request, now, &inner.token_uri) {
            inner.faults.push(fault.to_owned());
            return Reply::json(400, &json!({"error": "invalid_grant", "error_description": fault})).into();
        }
        inner.granted += 1;
        let token = format!("ya29.granted-{}", inner.granted);
        inner.access = Some((token.clone(), now + 3599));
        let answer = json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"});
        Reply::json(200, &answer).into()
    }

    /// Verifies the assertion as Google does.
    fn assertion(&self, request: &Incoming, now: i64, token_uri: &str) -> Result<(), &'static str> {
        if request.header("content-type") != Some("application/x-www-form-urlencoded") {
            return Err("not a form");
        }
        let form = std::str::from_utf8(&request.body).map_err(|_| "not text")?;
        let token = form.strip_prefix(GRANT).ok_or("another grant")?;
        let (signed, signature) = token.rsplit_once('.').ok_or("no signature")?;
        let (header, claims) = signed.split_once('.').ok_or("no claims")?;
        let part = |part: &str| -> Option<Value> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
        };
        let (header, claims) = (part(header).ok_or("no header")?, part(claims).ok_or("no claims")?);
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "no signature")?;
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public);
        key.verify(signed.as_bytes(), &signature).map_err(|_| "a wrong signature")?;
        let time = |name: &str| claims[name].as_i64().unwrap_or_default();
        let (issued, ends) = (time("iat"), time("exp"));
        let good = [
            (header["alg"] == "RS256" && header["kid"] == KEY_ID, "a wrong header"),
            (claims["iss"] == EMAIL, "a wrong iss"),
            (claims["scope"] == SCOPE, "a wrong scope"),
            (claims["aud"] == token_uri, "a wrong aud"),
            ((now - issued).abs() < 300, "a wrong iat"),
            (ends > now && ends <= issued + 3600, "a wrong exp"),
        ];
        good.iter().find(|(good, _)| !good).map_or(Ok(()), |(_, fault)| Err(*fault))
    }

    fn send(&self, request: &Incoming, now: i64, inner: &mut Inner) -> Act {
        let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let known = inner.access.as_ref().filter(|(_, ends)| now < *ends).map(|(token, _)| token.as_str());
        if bearer.is_none() || bearer != known {
            return FcmFake::error(401, "invalid credentials", "UNAUTHENTICATED", &json!([])).into();
        }
        if let Some(act) = inner.sends.pop_front() {
            return act;
        }
        match message(request) {
            Ok(message) => {
                let _ = self.told.send(message);
                Reply::json(200, &json!({"name": format!("projects/{PROJECT}/messages/1")})).into()
            }
            Err(fault) => {
                inner.faults.push(fault.to_owned());
                let details = json!([{"@type": "type.googleapis.com/google.rpc.BadRequest",
                    "fieldViolations": [{"field": "message", "description": fault}]}]);
                FcmFake::error(400, fault, "INVALID_ARGUMENT", &details).into()
            }
        }
    }
}

/// Checks a message, and gives it.
fn message(request: &Incoming) -> Result<Value, &'static str> {
    let body: Value = serde_json::from_slice(&request.body).map_err(|_| "not JSON")?;
    let message = &body["message"];
    if !message["token"].is_string() {
        return Err("no token");
    }
    let data = message["data"].as_object().ok_or("no data")?;
    let mut size = 0;
    for (key, value) in data {
        size += key.len() + value.as_str().ok_or("a value that is no text")?.len();
        if key.starts_with("google") || key.starts_with("gcm") {
            return Err("a reserved key");
        }
    }
    if size > LARGEST {
        return Err("Android message is too big");
    }
    let ttl = message["android"]["ttl"].as_str().and_then(|ttl| ttl.strip_suffix('s'));
    let ttl = ttl.and_then(|ttl| ttl.parse::<u32>().ok()).ok_or("a wrong ttl")?;
    if ttl > 28 * 24 * 3600 || message["android"]["priority"] != "HIGH" {
        return Err("a wrong ttl or priority");
    }
    if message.get("notification").is_some() {
        return Err("not data alone");
    }
    Ok(message.clone())
}
