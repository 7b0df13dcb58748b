//! A browser's push service and the browsers behind it (RFC 8030, 8291, 8292).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use aes_gcm::aead::{Aead as _, KeyInit as _};
use aes_gcm::{Aes128Gcm, Nonce};
use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use p256::elliptic_curve::sec1::ToSec1Point as _;
use p256::{PublicKey, SecretKey};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use sha2::Sha256;
use tokio::sync::mpsc;

use super::{Act, Alpn, Clock, FakeServer, Incoming, Reply};
use crate::{Authority, Rng};

/// A day, the longest that a sender's token may be valid.
const DAY: i64 = 24 * 60 * 60;

/// A message as the browser reads it.
#[derive(Debug, Clone)]
pub struct WebPushMessage {
    /// What the page's worker is handed.
    pub plaintext: Vec<u8>,
    /// How many seconds the service would have kept it.
    pub ttl: u64,
    /// What it would have replaced.
    pub topic: String,
    /// How long the request's body was.
    pub body_bytes: usize,
    /// The sender's token, for comparing two.
    pub authorization: String,
    /// On which connection it came.
    pub connection: u64,
}

/// The service. It checks every request as a browser vendor's does and opens it as the browser does.
#[derive(Debug)]
pub struct FakeWebPush {
    server: FakeServer,
    state: Arc<Mutex<State>>,
    seen: mpsc::UnboundedReceiver<Result<WebPushMessage, String>>,
}

#[derive(Debug)]
struct State {
    browsers: HashMap<String, Browser>,
    script: VecDeque<Act>,
    rng: Rng,
    origin: String,
}

/// The secrets of one subscription.
#[derive(Debug, Clone)]
struct Browser {
    secret: SecretKey,
    auth: [u8; 16],
    sender: Vec<u8>,
}

impl FakeWebPush {
    /// Starts a service.
    pub async fn start(authority: &Authority, clock: Clock, seed: u64) -> Result<Self> {
        let (send, seen) = mpsc::unbounded_channel();
        let state = State {
            browsers: HashMap::new(),
            script: VecDeque::new(),
            rng: Rng::new(seed),
            origin: String::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let held = Arc::clone(&state);
        let handler = Arc::new(move |request: Incoming| {
            let (state, send, now) = (Arc::clone(&held), send.clone(), clock());
            let act = {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let checked = state.open(&request, now);
                let next = state.script.pop_front();
                let act = match &checked {
                    Ok(_) => next.unwrap_or_else(|| Reply::status(201).into()),
                    Err((status, _)) => Reply::status(*status).into(),
                };
                // Nobody waits any more where the test has ended.
                let _ = send.send(checked.map_err(|(_, why)| format!("{why:#}")));
                act
            };
            Box::pin(async move { act }) as _
        });
        let server = FakeServer::start(authority, "webpush", Alpn::Any, handler).await?;
        state.lock().unwrap_or_else(PoisonError::into_inner).origin = server.url();
        Ok(Self { server, state, seen })
    }

    /// A new browser that lets the sender with this key push; its subscription as JSON.
    pub fn subscribe(&self, sender: &[u8]) -> Result<String> {
        let mut state = self.lock();
        let secret = SecretKey::from_slice(&state.rng.bytes(32)).ok().context("this seed makes no key")?;
        let auth: [u8; 16] = state.rng.bytes(16).try_into().ok().context("no secret")?;
        let path = format!("/wpush/v2/{}", URL_SAFE_NO_PAD.encode(state.rng.bytes(32)));
        let subscription = serde_json::json!({
            "endpoint": format!("{}{path}", self.server.url()),
            "expirationTime": null,
            "keys": {
                "p256dh": URL_SAFE_NO_PAD.encode(secret.public_key().to_sec1_point(false).as_bytes()),
                "auth": URL_SAFE_NO_PAD.encode(auth),
            },
        });
        state.browsers.insert(path, Browser { secret, auth, sender: sender.to_vec() });
        Ok(subscription.to_string())
    }

    /// Answers the next sound request like this instead of with 201. Several are kept in order.
    pub fn next(&self, act: impl Into<Act>) {
        self.lock().script.push_back(act.into());
    }

    /// The next message, or what was wrong with it.
    pub async fn message(&mut self) -> Result<WebPushMessage> {
        match self.seen.recv().await {
            Some(Ok(message)) => Ok(message),
            Some(Err(why)) => bail!("{why}"),
            None => bail!("the service has ended"),
        }
    }

    /// `localhost:PORT`.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.server.address().port())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Checks a request and opens it; or the status that refuses it, and why.
    fn open(&self, request: &Incoming, now: i64) -> Result<WebPushMessage, (u16, anyhow::Error)> {
        let browser =
            self.browsers.get(&request.path).context("no such subscription").map_err(|e| (404, e))?;
        let header = |name: &'static str| request.header(name).with_context(|| format!("{name} is missing"));
        let authorization = self.check_sender(request, browser, now).map_err(|e| (403, e))?;
        let read = || -> Result<WebPushMessage> {
            ensure!(request.method == http::Method::POST, "messages are posted");
            ensure!(request.body.len() <= 4096, "the body is too large");
            ensure!(header("content-encoding")? == "aes128gcm", "the encoding is not aes128gcm");
            ensure!(header("urgency")? == "high", "the urgency is not high");
            let ttl = header("ttl")?.parse().context("the TTL is no number")?;
            let topic = header("topic")?.to_owned();
            let plain = topic.bytes().all(|byte| byte.is_ascii_alphanumeric());
            ensure!(plain && (1..=32).contains(&topic.len()), "the topic {topic:?} is not taken everywhere");
            let plaintext = browser.decrypt(&request.body)?;
            let (body_bytes, connection) = (request.body.len(), request.connection);
            Ok(WebPushMessage { plaintext, ttl, topic, body_bytes, authorization, connection })
        };
        read().map_err(|e| (400, e))
    }

    fn check_sender(&self, request: &Incoming, browser: &Browser, now: i64) -> Result<String> {
        let authorization = request.header("authorization").context("there is no sender")?;
        let (token, key) = authorization
            .strip_prefix("vapid t=")
            .and_then(|rest| rest.split_once(", k="))
            .context("the sender is not given as vapid t=…, k=…")?;
        let key = URL_SAFE_NO_PAD.decode(key).context("the key is no base64url")?;
        ensure!(key == browser.sender, "the subscription is another sender's");
        let (signed, signature) = token.rsplit_once('.').context("the token is no JWT")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).context("the signature is no base64url")?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &key)
            .verify(signed.as_bytes(), &signature)
            .ok()
            .context("the signature is wrong")?;
        let (head, claims) = signed.split_once('.').context("the token has no claims")?;
        let json = |part: &str| -> Result<serde_json::Value> {
            Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part)?)?)
        };
        ensure!(json(head)?["alg"] == "ES256", "the token is not signed by ES256");
        let claims = json(claims)?;
        ensure!(claims["aud"] == self.origin.as_str(), "the token is for {}", claims["aud"]);
        let exp = claims["exp"].as_i64().context("the token has no end")?;
        ensure!(exp > now && exp <= now + DAY, "the token ends in {} s", exp - now);
        let sub = claims["sub"].as_str().context("the token has no contact")?;
        ensure!(sub.starts_with("mailto:") || sub.starts_with("https:"), "the contact is {sub:?}");
        Ok(authorization.to_owned())
    }
}

impl Browser {
    fn decrypt(&self, body: &[u8]) -> Result<Vec<u8>> {
        let (salt, rest) = body.split_at_checked(16).context("there is no salt")?;
        let (size, rest) = rest.split_at_checked(4).context("there is no record size")?;
        let size = u32::from_be_bytes(size.try_into()?) as usize;
        let (length, rest) = rest.split_first().context("there is no key")?;
        let (sender, record) = rest.split_at_checked(usize::from(*length)).context("the key is cut")?;
        ensure!(record.len() <= size && sender.len() == 65, "the header does not fit the body");
        let key = PublicKey::from_sec1_bytes(sender).ok().context("the sender's key is no point")?;
        let shared = self.secret.diffie_hellman(&key);
        let own = self.secret.public_key().to_sec1_point(false);
        let info = [&b"WebPush: info\0"[..], own.as_bytes(), sender].concat();
        let secret: [u8; 32] = expand(&self.auth, shared.raw_secret_bytes(), &info)?;
        let key: [u8; 16] = expand(salt, &secret, b"Content-Encoding: aes128gcm\0")?;
        let nonce: [u8; 12] = expand(salt, &secret, b"Content-Encoding: nonce\0")?;
        let cipher = Aes128Gcm::new(&key.into());
        let padded = cipher.decrypt(&Nonce::from(nonce), record).ok().context("the message does not open")?;
        let end = padded.iter().rposition(|byte| *byte != 0).context("the message has no end")?;
        ensure!(padded[end] == 2, "the message is not the last record");
        Ok(padded[..end].to_vec())
    }
}

fn expand<const N: usize>(salt: &[u8], secret: &[u8], info: &[u8]) -> Result<[u8; N]> {
    let mut out = [0; N];
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(info, &mut out)
        .ok()
        .context("too much was asked of HKDF")?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_of_rfc_8291_opens() {
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let browser = Browser {
            secret: SecretKey::from_slice(&bytes("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")).unwrap(),
            auth: bytes("BTBZMqHH6r4Tts7J_aSIgg").try_into().unwrap(),
            sender: Vec::new(),
        };
        let body = bytes(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBr\
             u3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
        );
        assert_eq!(browser.decrypt(&body).unwrap(), b"When I grow up, I want to be a watermelon");
    }
}
