//! A certificate authority that speaks ACME (RFC 8555) and validates over TLS (RFC 8737).
//!
//! Every request's signature, nonce and address are verified, and a challenge is met by really connecting to who asks
//! for the certificate. Only names are not looked up: each leads to the address given with [`FakeAcme::reach`].

mod issue;
mod jws;
mod validate;

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::sync::watch;

use self::issue::Issuer;
use self::jws::{Jws, Signer};
use super::{Act, Alpn, FakeServer, Incoming, Reply};
use crate::Authority;

/// What goes wrong with the next request that it fits, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeFault {
    /// A good nonce is refused, and another one given.
    BadNonce,
    /// A new order is refused with 429 and a `Retry-After` of this many seconds.
    RateLimited(u32),
    /// A request is answered with 503 and text that is no JSON.
    Overloaded,
    /// The challenge is judged unmet, whatever it looked like.
    ChallengeInvalid,
    /// Signing takes until the order is asked for again.
    SlowToSign,
}

/// A certificate authority in this process. It ends when this is dropped.
#[derive(Debug)]
pub struct FakeAcme {
    server: FakeServer,
    shared: Arc<Shared>,
}

struct Shared {
    base: watch::Sender<String>,
    state: Mutex<State>,
    issuer: Issuer,
    issued: watch::Sender<u64>,
    refused: watch::Sender<u64>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("issued", &*self.issued.borrow()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    nonces: HashSet<String>,
    given: u64,
    accounts: Vec<Signer>,
    orders: Vec<Order>,
    faults: VecDeque<AcmeFault>,
    target: Option<SocketAddr>,
    lifetime: Option<(Duration, Duration)>,
}

struct Order {
    account: usize,
    names: Vec<Name>,
    status: &'static str,
    certificate: Option<String>,
}

struct Name {
    name: String,
    token: String,
    status: &'static str,
    error: Option<String>,
}

impl FakeAcme {
    /// Listens on loopback; its own certificate comes from `authority`.
    pub async fn start(authority: &Authority) -> Result<Self> {
        let shared = Arc::new(Shared {
            base: watch::Sender::new(String::new()),
            state: Mutex::default(),
            issuer: Issuer::new()?,
            issued: watch::Sender::new(0),
            refused: watch::Sender::new(0),
        });
        let handling = Arc::clone(&shared);
        let handler = move |request| {
            let shared = Arc::clone(&handling);
            Box::pin(async move { shared.handle(request).await }) as _
        };
        let server = FakeServer::start(authority, "acme", Alpn::Any, Arc::new(handler)).await?;
        shared.base.send_replace(server.url());
        Ok(Self { server, shared })
    }

    /// The address of the directory.
    pub fn directory(&self) -> String {
        format!("{}/directory", self.server.url())
    }

    /// Where every name leads from now on.
    pub fn reach(&self, target: SocketAddr) {
        self.shared.state().target = Some(target);
    }

    /// What goes wrong next; several faults wait for their turn.
    pub fn fail(&self, fault: AcmeFault) {
        self.shared.state().faults.push_back(fault);
    }

    /// From now on certificates began `age` ago and end in `left`; in place of yesterday and 90 days.
    pub fn issue_for(&self, age: Duration, left: Duration) {
        self.shared.state().lifetime = Some((age, left));
    }

    /// The root that its certificates lead to, PEM.
    pub fn root(&self) -> String {
        self.shared.issuer.root()
    }

    /// How many accounts were made.
    pub fn accounts(&self) -> usize {
        self.shared.state().accounts.len()
    }

    /// How many certificates were handed out; changes when another one is.
    pub fn issued(&self) -> watch::Receiver<u64> {
        self.shared.issued.subscribe()
    }

    /// How many requests were refused or challenges found unmet; changes with each.
    pub fn refused(&self) -> watch::Receiver<u64> {
        self.shared.refused.subscribe()
    }
}

fn problem(status: u16, kind: &str, detail: &str) -> Reply {
    let body =
        json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail, "status": status});
    Reply {
        headers: vec![("content-type".into(), "application/problem+json".into())],
        ..Reply::json(status, &body)
    }
}

/// What a signed request is refused with.
type Refusal = Box<Reply>;

fn refuse(status: u16, kind: &str, detail: &str) -> Refusal {
    Box::new(problem(status, kind, detail))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a fault out of the queue if it is the next one.
    fn fault(&self, wanted: impl Fn(AcmeFault) -> bool) -> Option<AcmeFault> {
        let mut state = self.state();
        let next = state.faults.front().copied().filter(|fault| wanted(*fault))?;
        state.faults.pop_front();
        Some(next)
    }

    fn nonce(&self) -> String {
        let mut state = self.state();
        state.given += 1;
        let nonce = BASE64_URL_SAFE_NO_PAD.encode(format!("nonce-{}", state.given));
        state.nonces.insert(nonce.clone());
        nonce
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", *self.base.borrow())
    }

    async fn handle(&self, request: Incoming) -> Act {
        let reply = match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/directory") => Reply::json(
                200,
                &json!({"newNonce": self.url("/nonce"), "newAccount": self.url("/account"),
                        "newOrder": self.url("/order"), "revokeCert": self.url("/revoke"),
                        "keyChange": self.url("/key"), "meta": {"termsOfService": "https://ca.invalid/terms"}}),
            ),
            ("HEAD" | "GET", "/nonce") => Reply::status(200),
            ("POST", _) => match self.post(&request).await {
                Ok(reply) => reply,
                Err(refusal) => {
                    self.refused.send_modify(|refused| *refused += 1);
                    *refusal
                }
            },
            _ => problem(404, "malformed", "there is nothing here"),
        };
        reply.with_header("replay-nonce", self.nonce()).with_header("cache-control", "no-store").into()
    }

    async fn post(&self, request: &Incoming) -> Result<Reply, Refusal> {
        if self.fault(|fault| fault == AcmeFault::Overloaded).is_some() {
            let busy = Reply::status(503).with_header("retry-after", "7");
            return Err(Box::new(Reply { body: "busy".into(), ..busy }));
        }
        if request.header("content-type") != Some("application/jose+json") {
            return Err(refuse(415, "malformed", "a request is application/jose+json"));
        }
        let jws = Jws::parse(&request.body).map_err(|why| refuse(400, "malformed", &why))?;
        let fresh = self.state().nonces.remove(&jws.nonce);
        if !fresh || self.fault(|fault| fault == AcmeFault::BadNonce).is_some() {
            return Err(refuse(400, "badNonce", "this nonce is not, or no longer, good"));
        }
        if jws.url != self.url(&request.path) {
            return Err(refuse(401, "unauthorized", "the signed address is another one"));
        }
        if request.path == "/account" {
            return self.account(&jws);
        }
        let account = self.signed_by(&jws)?;
        let mut parts = request.path.trim_start_matches('/').split('/');
        let kind = parts.next().unwrap_or_default();
        let numbers: Vec<usize> = parts.filter_map(|part| part.parse().ok()).collect();
        match (kind, numbers[..].first().copied(), numbers.get(1).copied()) {
            ("order", None, _) => self.new_order(&jws, account),
            ("order", Some(order), _) => self.poll(order, account),
            ("authz", Some(order), Some(name)) => self.authorization(order, name, account),
            ("challenge", Some(order), Some(name)) => self.challenge(order, name, account).await,
            ("finalize", Some(order), _) => self.finalize(&jws, order, account),
            ("certificate", Some(order), _) => self.certificate(order, account),
            _ => Err(refuse(404, "malformed", "there is nothing here")),
        }
    }

    fn account(&self, jws: &Jws) -> Result<Reply, Refusal> {
        let Some(signer) = &jws.key else {
            return Err(refuse(400, "malformed", "a new account brings its key"));
        };
        jws.verify(signer).map_err(|why| refuse(400, "malformed", &why))?;
        let payload = jws.json().map_err(|why| refuse(400, "malformed", &why))?;
        let mut state = self.state();
        let known = state.accounts.iter().position(|account| account.thumbprint == signer.thumbprint);
        if known.is_none() && payload["termsOfServiceAgreed"] != true {
            return Err(refuse(403, "userActionRequired", "the terms are not agreed to"));
        }
        let number = known.unwrap_or_else(|| {
            state.accounts.push(signer.clone());
            state.accounts.len() - 1
        });
        drop(state);
        let status = if known.is_some() { 200 } else { 201 };
        let body = json!({"status": "valid", "contact": payload["contact"]});
        Ok(Reply::json(status, &body).with_header("location", self.url(&format!("/account/{number}"))))
    }

    fn signed_by(&self, jws: &Jws) -> Result<usize, Refusal> {
        let prefix = self.url("/account/");
        let number = jws.account.as_deref().and_then(|kid| kid.strip_prefix(&prefix)?.parse::<usize>().ok());
        let known = number.and_then(|number| Some((number, self.state().accounts.get(number)?.clone())));
        let Some((number, signer)) = known else {
            return Err(refuse(400, "accountDoesNotExist", "there is no such account"));
        };
        jws.verify(&signer).map_err(|why| refuse(403, "unauthorized", &why))?;
        Ok(number)
    }

    fn new_order(&self, jws: &Jws, account: usize) -> Result<Reply, Refusal> {
        if let Some(AcmeFault::RateLimited(seconds)) =
            self.fault(|fault| matches!(fault, AcmeFault::RateLimited(_)))
        {
            let refusal = problem(429, "rateLimited", "too many orders; see the documentation");
            return Err(Box::new(refusal.with_header("retry-after", seconds.to_string())));
        }
        let payload = jws.json().map_err(|why| refuse(400, "malformed", &why))?;
        let wanted = payload["identifiers"].as_array().cloned().unwrap_or_default();
        let names: Option<Vec<String>> = wanted
            .iter()
            .map(|id| id["value"].as_str().filter(|_| id["type"] == "dns").map(str::to_owned))
            .collect();
        let Some(names) = names.filter(|names| !names.is_empty()) else {
            return Err(refuse(400, "rejectedIdentifier", "only DNS names are certified"));
        };
        let mut state = self.state();
        let number = state.orders.len();
        let names = names.into_iter().enumerate().map(|(at, name)| Name {
            name,
            token: BASE64_URL_SAFE_NO_PAD.encode(format!("token-{number}-{at}-of-some-length")),
            status: "pending",
            error: None,
        });
        let order = Order { account, names: names.collect(), status: "pending", certificate: None };
        state.orders.push(order);
        drop(state);
        let body = self.order_json(number);
        Ok(Reply::json(201, &body).with_header("location", self.url(&format!("/order/{number}"))))
    }

    fn order_json(&self, number: usize) -> Value {
        let state = self.state();
        let order = &state.orders[number];
        let authorizations: Vec<_> =
            (0..order.names.len()).map(|name| self.url(&format!("/authz/{number}/{name}"))).collect();
        let identifiers: Vec<_> =
            order.names.iter().map(|name| json!({"type": "dns", "value": name.name})).collect();
        let mut body = json!({"status": order.status, "identifiers": identifiers,
            "authorizations": authorizations, "finalize": self.url(&format!("/finalize/{number}"))});
        if order.status == "valid" {
            body["certificate"] = self.url(&format!("/certificate/{number}")).into();
        }
        body
    }

    /// Whether there is such an order, and it is this account's.
    fn owned(&self, order: usize, account: usize) -> Result<(), Refusal> {
        let owner = self.state().orders.get(order).map(|order| order.account);
        if owner == Some(account) { Ok(()) } else { Err(refuse(404, "malformed", "there is no such order")) }
    }

    fn poll(&self, order: usize, account: usize) -> Result<Reply, Refusal> {
        self.owned(order, account)?;
        let body = self.order_json(order);
        let processing = &mut self.state().orders[order];
        if processing.status == "processing" {
            processing.status = "valid";
        }
        Ok(Reply::json(200, &body))
    }

    fn authorization(&self, order: usize, name: usize, account: usize) -> Result<Reply, Refusal> {
        self.owned(order, account)?;
        let challenge = self.challenge_json(order, name)?;
        let state = self.state();
        let of = &state.orders[order].names[name];
        // Another kind comes first, for a client must choose.
        let other =
            json!({"type": "http-01", "status": "pending", "url": self.url("/none"), "token": of.token});
        Ok(Reply::json(
            200,
            &json!({"status": of.status, "identifier": {"type": "dns", "value": of.name},
                    "challenges": [other, challenge]}),
        ))
    }

    fn challenge_json(&self, order: usize, name: usize) -> Result<Value, Refusal> {
        let state = self.state();
        let Some(of) = state.orders[order].names.get(name) else {
            return Err(refuse(404, "malformed", "there is no such name"));
        };
        let mut body = json!({"type": "tls-alpn-01", "status": of.status, "token": of.token,
            "url": self.url(&format!("/challenge/{order}/{name}"))});
        if let Some(error) = &of.error {
            body["error"] =
                json!({"type": "urn:ietf:params:acme:error:unauthorized", "detail": error, "status": 403});
        }
        Ok(body)
    }

    async fn challenge(&self, order: usize, name: usize, account: usize) -> Result<Reply, Refusal> {
        self.owned(order, account)?;
        let before = self.challenge_json(order, name)?;
        let (domain, expected, target) = {
            let state = self.state();
            let of = &state.orders[order].names[name];
            let authorization = format!("{}.{}", of.token, state.accounts[account].thumbprint);
            (of.name.clone(), authorization, state.target)
        };
        let met = if self.fault(|fault| fault == AcmeFault::ChallengeInvalid).is_some() {
            Err("the authority is in a bad mood".to_owned())
        } else {
            validate::tls_alpn(target, &domain, &expected).await
        };
        let mut state = self.state();
        let of = &mut state.orders[order];
        match met {
            Ok(()) => of.names[name].status = "valid",
            Err(why) => {
                of.names[name].status = "invalid";
                of.names[name].error = Some(why);
                of.status = "invalid";
                self.refused.send_modify(|refused| *refused += 1);
            }
        }
        if of.names.iter().all(|name| name.status == "valid") {
            of.status = "ready";
        }
        Ok(Reply::json(200, &before))
    }

    fn finalize(&self, jws: &Jws, order: usize, account: usize) -> Result<Reply, Refusal> {
        self.owned(order, account)?;
        let slow = self.fault(|fault| fault == AcmeFault::SlowToSign).is_some();
        let payload = jws.json().map_err(|why| refuse(400, "malformed", &why))?;
        let csr = payload["csr"].as_str().and_then(|csr| BASE64_URL_SAFE_NO_PAD.decode(csr).ok());
        let Some(csr) = csr else { return Err(refuse(400, "badCSR", "there is no request")) };
        let mut state = self.state();
        let lifetime = state.lifetime;
        let of = &mut state.orders[order];
        if of.status != "ready" {
            return Err(refuse(403, "orderNotReady", "the names are not proved"));
        }
        let names: Vec<_> = of.names.iter().map(|name| name.name.clone()).collect();
        let chain = self.issuer.issue(&csr, &names, lifetime).map_err(|why| refuse(400, "badCSR", &why))?;
        of.certificate = Some(chain);
        of.status = if slow { "processing" } else { "valid" };
        drop(state);
        Ok(Reply::json(200, &self.order_json(order)))
    }

    fn certificate(&self, order: usize, account: usize) -> Result<Reply, Refusal> {
        self.owned(order, account)?;
        let chain = self.state().orders[order].certificate.clone();
        let Some(chain) = chain else { return Err(refuse(404, "malformed", "there is no certificate yet")) };
        self.issued.send_modify(|issued| *issued += 1);
        let reply = Reply { body: chain.into(), ..Reply::status(200) };
        Ok(reply.with_header("content-type", "application/pem-certificate-chain"))
    }
}
