//! What a gateway does with a request, without sockets: the program around it brings bytes and the time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};

use super::key::KeyHash;
use super::limits::{Rate, TokenLimits, Tokens};
use super::wire::{Answer, Received};
use crate::bridges::Bridges;
use crate::verdict::{Fault, Verdict};

/// A relay that may use the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayAccess {
    /// What it is called in logs and metrics.
    pub name: String,
    /// The hash of its key, as `skald-relay gateway key` prints it.
    pub key_sha256: KeyHash,
    /// Pushes a minute in the long run.
    #[serde(default = "default_per_minute")]
    pub per_minute: u32,
    /// Pushes at once.
    #[serde(default = "default_burst")]
    pub burst: u32,
}

fn default_per_minute() -> u32 {
    600
}

fn default_burst() -> u32 {
    200
}

struct Member {
    name: String,
    hash: KeyHash,
    rate: Rate,
    paid: Mutex<Option<Instant>>,
}

/// A relay that has shown its key.
#[derive(Debug, Clone, Copy)]
pub struct Known(usize);

/// A gateway.
pub struct Gateway {
    bridges: Bridges,
    members: Vec<Member>,
    tokens: Mutex<Tokens>,
    metrics: GatewayMetrics,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    relay: String,
    outcome: &'static str,
}

/// Counters of requests. Cheap to clone; every clone counts the same.
#[derive(Debug, Clone, Default)]
pub struct GatewayMetrics {
    requests: Family<Asked, Counter>,
    tokens: Gauge,
}

impl GatewayMetrics {
    /// Adds everything to a registry, under names that begin with `gateway_`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "gateway_requests",
            "Requests by relay and what became of them; strangers are under the name -",
            self.requests.clone(),
        );
        registry.register("gateway_tokens", "Tokens whose rate is remembered", self.tokens.clone());
    }

    fn count(&self, relay: &str, outcome: &'static str) {
        self.requests.get_or_create(&Asked { relay: relay.to_owned(), outcome }).inc();
    }
}

/// Why a request is refused: a problem in the sense of RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    detail: String,
    /// Whose limit is reached, and for how long.
    limit: Option<(&'static str, Duration)>,
}

impl Problem {
    /// A problem with this status, told in one sentence.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), limit: None }
    }

    fn limited(whose: &'static str, wait: Duration) -> Self {
        let secs = wait.as_secs() + 1;
        let detail = format!("There are too many pushes for this {whose}: try again in {secs} s.");
        Self { status: StatusCode::TOO_MANY_REQUESTS, detail, limit: Some((whose, wait)) }
    }

    /// The answer that tells it.
    pub fn response(&self) -> Response<Bytes> {
        let mut problem = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Some((whose, _)) = self.limit {
            problem["limit"] = whose.into();
        }
        let mut response = Response::new(Bytes::from(problem.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some((_, wait)) = self.limit {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl Gateway {
    /// A gateway for these relays; fails where the system gives no random bytes.
    pub fn new(
        bridges: Bridges,
        relays: &[RelayAccess],
        limits: &TokenLimits,
        metrics: GatewayMetrics,
    ) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let members = relays.iter().map(|relay| Member {
            name: relay.name.clone(),
            hash: relay.key_sha256,
            rate: Rate::new(relay.per_minute, relay.burst),
            paid: Mutex::default(),
        });
        let members = members.collect();
        Ok(Self { bridges, members, tokens: Mutex::new(Tokens::new(limits, &secret)), metrics })
    }

    /// Who is asking. Every known key is compared, whichever is the right one.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Known, Problem> {
        let given = headers.get(AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
        let key = match given.split_at_checked(7) {
            Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key,
            _ => b"",
        };
        let mut known = None;
        for (index, member) in self.members.iter().enumerate() {
            if member.hash.is_of(key) {
                known = Some(Known(index));
            }
        }
        known.ok_or_else(|| {
            self.metrics.count("-", "unauthorised");
            let detail = "This gateway does not know the key: send the one that its operator gave you as a bearer token.";
            Problem::new(StatusCode::UNAUTHORIZED, detail)
        })
    }

    /// Whether the relay may push now.
    pub fn admit(&self, relay: Known, now: Instant) -> Result<(), Problem> {
        let member = self.member(relay)?;
        let mut paid = member.paid.lock().unwrap_or_else(PoisonError::into_inner);
        member.rate.take(paid.get_or_insert(now), now).map_err(|wait| {
            self.metrics.count(&member.name, "relay_limited");
            Problem::limited("relay", wait)
        })
    }

    /// Hands a push of an admitted relay to its provider, and answers with the verdict.
    pub async fn push(&self, relay: Known, body: &[u8], now: Instant) -> Response<Bytes> {
        self.try_push(relay, body, now).await.unwrap_or_else(|problem| problem.response())
    }

    async fn try_push(&self, relay: Known, body: &[u8], now: Instant) -> Result<Response<Bytes>, Problem> {
        let member = self.member(relay)?;
        let push = Received::parse(body).map_err(|error| {
            self.metrics.count(&member.name, "malformed");
            Problem::new(StatusCode::BAD_REQUEST, error.to_string())
        })?;
        {
            let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = tokens.take(push.token.as_str(), now);
            self.metrics.tokens.set(i64::try_from(tokens.len()).unwrap_or(i64::MAX));
            taken.map_err(|wait| {
                self.metrics.count(&member.name, "token_limited");
                Problem::limited("token", wait)
            })?;
        }
        let verdict = self.bridges.send(&push).await;
        if let Verdict::Refused { fault, reason } = &verdict {
            let platform = push.platform.name();
            match fault {
                Fault::Operator | Fault::Partly => {
                    tracing::error!(platform, %reason, "a provider refuses this gateway's key");
                }
                Fault::Device | Fault::Ours => tracing::warn!(platform, %reason, "a provider refused a push"),
            }
        }
        self.metrics.count(&member.name, "answered");
        let body = serde_json::to_vec(&Answer::of(verdict)).unwrap_or_default();
        let mut response = Response::new(Bytes::from(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    /// Forgets tokens that have not been pushed to of late.
    pub fn forget_idle(&self, now: Instant) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.forget_idle(now);
        self.metrics.tokens.set(i64::try_from(tokens.len()).unwrap_or(i64::MAX));
    }

    /// The name of a relay.
    pub fn name(&self, relay: Known) -> &str {
        self.members.get(relay.0).map_or("-", |member| member.name.as_str())
    }

    fn member(&self, relay: Known) -> Result<&Member, Problem> {
        // A value of this type comes from this gateway's own list.
        self.members.get(relay.0).ok_or_else(|| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "The gateway has lost track of its relays.")
        })
    }
}
