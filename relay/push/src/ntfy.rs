//! Plain ntfy: a generic text and an opaque identifier, never content.
//!
//! A topic is read by whoever knows its name, and its server keeps what it is sent in clear. So nothing goes there but
//! the fact that something waits. (A device that registers with ntfy through UnifiedPush has a Web Push subscription
//! instead, and gets its message.)

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use async_trait::async_trait;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::Url;
use ring::{digest, hmac};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::bridge::{Bridge, Lane, Provider};
use crate::bridges::SetupError;
use crate::guard::{self, Guard, HostEntry};
use crate::http::{Roots, Versions, answer, builder, failure, file_error, finish, retry_after};
use crate::payload::{BODY, TITLE};
use crate::push::{Content, Push, WallClock};
use crate::verdict::Verdict;

/// The server that is allowed without being named.
const USUAL: &str = "ntfy.sh";
/// What a token begins with; the address of the topic follows.
const SCHEME: &str = "ntfy:";
/// The longest name of a topic.
const TOPIC_BYTES: usize = 64;

/// The section `[push.ntfy]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NtfySettings {
    /// More servers than `ntfy.sh`.
    pub hosts: Vec<HostEntry>,
    /// Servers that may be in a private network.
    pub private_hosts: Vec<HostEntry>,
    /// Access tokens by host, each the path of a file that holds one: `"ntfy.example.org" = "/etc/skald/ntfy.token"`.
    pub token_files: HashMap<String, PathBuf>,
}

/// The bridge to ntfy servers.
pub struct Ntfy {
    client: reqwest::Client,
    guard: Guard,
    /// By host and, where it is not 443, port.
    tokens: HashMap<String, HeaderValue>,
    identifiers: hmac::Key,
    clock: WallClock,
}

impl Ntfy {
    /// Makes the bridge and reads the access tokens.
    pub fn open(settings: &NtfySettings, roots: &Roots, clock: WallClock) -> Result<Self, SetupError> {
        let usual = USUAL.parse().into_iter();
        let hosts = usual.chain(settings.hosts.iter().cloned()).collect();
        let guard = Guard::new(hosts, settings.private_hosts.clone());
        let mut tokens = HashMap::new();
        for (host, path) in &settings.token_files {
            const SETTING: &str = "push.ntfy.token_files";
            let wrong = |problem: &str| SetupError::Content {
                setting: SETTING,
                path: path.clone(),
                problem: problem.to_owned(),
            };
            let entry: HostEntry = host.parse().map_err(|_| SetupError::Value {
                setting: SETTING,
                problem: format!("names {host:?}, which is no host such as ntfy.example.org"),
            })?;
            if guard.check(&format!("https://{entry}/")).is_err() {
                return Err(SetupError::Value {
                    setting: SETTING,
                    problem: format!("names {entry}, to which nothing is sent: add it to push.ntfy.hosts"),
                });
            }
            let token = match std::fs::read_to_string(path) {
                Ok(token) => Zeroizing::new(token),
                Err(error) if error.kind() == ErrorKind::InvalidData => return Err(wrong("is no text")),
                Err(error) => return Err(file_error(SETTING, path, error)),
            };
            let token = token.trim();
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(wrong("holds no access token: it must be the token alone, such as tk_…"));
            }
            let bearer = Zeroizing::new(format!("Bearer {token}"));
            let mut header = HeaderValue::from_str(&bearer).map_err(|_| wrong("holds no access token"))?;
            header.set_sensitive(true);
            tokens.insert(entry.to_string(), header);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| SetupError::Value {
            setting: "push.ntfy",
            problem: "needs random bytes, and the system gives none".to_owned(),
        })?;
        let seed = digest::digest(&digest::SHA256, &seed);
        let identifiers = hmac::Key::new(hmac::HMAC_SHA256, seed.as_ref());
        let client = finish(guard.protect(builder(roots, Versions::Any)))?;
        Ok(Self { client, guard, tokens, identifiers, clock })
    }

    /// The topic of a token: an https address with one plain name as its path.
    fn topic(&self, token: &str) -> Result<Url, Verdict> {
        let dead = || Verdict::TokenDead { since: None };
        let address = token.trim().strip_prefix(SCHEME).ok_or_else(dead)?;
        let url = self.guard.check(address).map_err(|error| match error {
            guard::GuardError::Malformed => dead(),
            error => Verdict::device(error.to_string()),
        })?;
        let name = url.path().strip_prefix('/').unwrap_or_default();
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if name.is_empty() || name.len() > TOPIC_BYTES || !plain || url.query().is_some() {
            Err(dead())
        } else {
            Ok(url)
        }
    }

    /// Names a message without telling anything about it; the same while this relay runs, so that whoever gets a
    /// push twice can know.
    fn identifier(&self, push: &Push) -> String {
        let mut context = hmac::Context::with_key(&self.identifiers);
        context.update(push.namespace.as_bytes());
        context.update(push.device.as_bytes());
        if let Content::Sealed { sender, nonce, .. } = &push.content {
            context.update(sender.as_bytes());
            context.update(nonce.as_bytes());
        }
        hex::encode(&context.sign().as_ref()[..8])
    }

    async fn post(&self, push: &Push) -> Result<Verdict, Verdict> {
        let url = self.topic(push.token.as_str())?;
        let now = self.clock.now();
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut request = self
            .client
            .post(url)
            .header("title", TITLE)
            .header("priority", "4")
            .header(CONTENT_TYPE, "text/plain; charset=utf-8")
            .body(format!("{BODY} ({})", self.identifier(push)));
        if let Some(bearer) = self.tokens.get(&host) {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if guard::is_private(&error) => {
                return Err(Verdict::device(guard::NO_PUBLIC_ADDRESS.to_owned()));
            }
            Err(error) => return Err(Verdict::unreachable(failure(&error))),
        };
        let (status, wait) = (response.status().as_u16(), retry_after(response.headers(), now));
        // What is left unread would cost the connection.
        answer(response).await;
        Ok(match status {
            200..=299 => Verdict::Accepted,
            // The server limits its visitors, and this relay is one for all its devices.
            429 => Verdict::later_for_lane(wait),
            // Nobody subscribes to the topic at the moment.
            507 => Verdict::later_for_device(wait),
            500..=599 => Verdict::later_for_lane(wait),
            401 | 403 => Verdict::device(format!(
                "the ntfy server does not let this relay write to the topic ({status}): set its access token in \
                 push.ntfy.token_files"
            )),
            300..=399 => {
                Verdict::device(format!("the ntfy server redirects ({status}), which is not followed"))
            }
            404 | 410 => Verdict::TokenDead { since: None },
            _ => Verdict::ours(format!("the ntfy server refuses ({status})")),
        })
    }
}

#[async_trait]
impl Bridge for Ntfy {
    fn provider(&self) -> Provider {
        Provider::Ntfy
    }

    fn lane(&self, push: &Push) -> Lane {
        let address = push.token.as_str().trim().strip_prefix(SCHEME);
        let entry = address.and_then(|address| self.guard.entry(address));
        entry.map_or(Lane::whole(Provider::Ntfy), |entry| Lane::host(Provider::Ntfy, &entry))
    }

    async fn send(&self, push: &Push) -> Verdict {
        self.post(push).await.unwrap_or_else(|verdict| verdict)
    }
}
