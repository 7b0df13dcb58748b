//! The bridge of a relay that has no keys of its own.

use std::io::ErrorKind;
use std::path::PathBuf;

use async_trait::async_trait;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::key::RelayKey;
use super::wire::{Answer, PUSH_PATH, Request};
use crate::bridge::{Bridge, Lane, Provider};
use crate::bridges::SetupError;
use crate::http::{Roots, Versions, answer, builder, failure, file_error, finish, retry_after};
use crate::push::{Push, WallClock};
use crate::verdict::Verdict;

/// The section `[push.gateway]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySettings {
    /// The gateway's address, such as `https://push.example.org`.
    pub url: String,
    /// The file with this relay's key, which the gateway's operator made.
    pub key_file: PathBuf,
}

impl GatewaySettings {
    /// Whether the gateway is on this machine and reached without TLS.
    pub fn is_plain(&self) -> bool {
        self.endpoint().is_ok_and(|url| url.scheme() == "http")
    }

    fn endpoint(&self) -> Result<Url, SetupError> {
        endpoint(&self.url)
    }
}

/// The bridge to a gateway.
pub struct GatewayBridge {
    client: reqwest::Client,
    url: Url,
    bearer: HeaderValue,
    clock: WallClock,
}

const KEY_FILE: &str = "push.gateway.key_file";

impl GatewayBridge {
    /// Makes the bridge. Plain HTTP is for a gateway on the same machine alone, and the relay's settings have a say in
    /// it besides.
    pub fn open(settings: &GatewaySettings, roots: &Roots, clock: WallClock) -> Result<Self, SetupError> {
        let url = settings.endpoint()?;
        let wrong = |problem: String| SetupError::Content {
            setting: KEY_FILE,
            path: settings.key_file.clone(),
            problem,
        };
        let text = match std::fs::read_to_string(&settings.key_file) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(wrong("is no text".to_owned()));
            }
            Err(error) => return Err(file_error(KEY_FILE, &settings.key_file, error)),
        };
        let key = RelayKey::parse(&text).map_err(|error| wrong(error.to_string()))?;
        let bearer = Zeroizing::new(format!("Bearer {}", key.as_str()));
        let mut bearer = HeaderValue::from_str(&bearer).map_err(|_| wrong("holds no key".to_owned()))?;
        bearer.set_sensitive(true);
        let client = builder(roots, Versions::Any).https_only(url.scheme() == "https");
        Ok(Self { client: finish(client)?, url, bearer, clock })
    }

    async fn post(&self, push: &Push) -> Result<Verdict, Verdict> {
        let body =
            serde_json::to_vec(&Request::of(push)).map_err(|_| Verdict::ours("the push is no JSON"))?;
        let sent = self
            .client
            .post(self.url.clone())
            .header(AUTHORIZATION, self.bearer.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .send()
            .await;
        let response = sent.map_err(|error| Verdict::unreachable(failure(&error)))?;
        let (status, wait) = (response.status().as_u16(), retry_after(response.headers(), self.clock.now()));
        let body = answer(response).await;
        Ok(match status {
            200 => serde_json::from_slice(&body)
                .ok()
                .and_then(Answer::read)
                .ok_or_else(|| Verdict::unreachable("the gateway's answer makes no sense"))?,
            400 | 422 => Verdict::ours(format!("the gateway does not understand the push ({status})")),
            401 | 403 => {
                Verdict::operator("the gateway does not know this relay's key: ask its operator for one")
            }
            404 | 405 => Verdict::operator(format!(
                "there is no push gateway at the address ({status}): check its url"
            )),
            413 => Verdict::TooLarge,
            429 if is_about_token(&body) => Verdict::later_for_device(wait),
            429 | 500..=599 => Verdict::later_for_lane(wait),
            300..=399 => {
                Verdict::operator(format!("the gateway redirects ({status}), which is not followed"))
            }
            _ => Verdict::ours(format!("the gateway refuses the push ({status})")),
        })
    }
}

#[async_trait]
impl Bridge for GatewayBridge {
    fn provider(&self) -> Provider {
        Provider::Gateway
    }

    fn lane(&self, push: &Push) -> Lane {
        // Apple's service may be out of order behind a gateway while Google's is not.
        Lane::host(Provider::Gateway, push.platform.name())
    }

    async fn send(&self, push: &Push) -> Verdict {
        self.post(push).await.unwrap_or_else(|verdict| verdict)
    }
}

/// Whether it is the device that gets too many pushes, and not the relay that sends too many.
fn is_about_token(problem: &[u8]) -> bool {
    let problem: Option<serde_json::Value> = serde_json::from_slice(problem).ok();
    problem.is_some_and(|problem| problem.get("limit").is_some_and(|limit| limit == "token"))
}

fn endpoint(text: &str) -> Result<Url, SetupError> {
    let wrong =
        |problem: &str| SetupError::Value { setting: "push.gateway.url", problem: problem.to_owned() };
    let no_address = || wrong("is no address: it must be such as https://push.example.org");
    let mut url = Url::parse(text).map_err(|_| no_address())?;
    let bare = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !bare || !url.has_host() {
        return Err(no_address());
    }
    let loopback = match url.host_str().unwrap_or_default().trim_matches(['[', ']']) {
        "localhost" => true,
        host => host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()),
    };
    match url.scheme() {
        "https" => {}
        "http" if loopback => {}
        "http" => return Err(wrong("must begin with https:// (plain http is for loopback addresses alone)")),
        _ => return Err(no_address()),
    }
    let path = format!("{}{PUSH_PATH}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_reached_over_tls_or_on_this_machine() {
        assert_eq!(
            endpoint("https://push.example.org").unwrap().as_str(),
            "https://push.example.org/v1/push"
        );
        assert_eq!(endpoint("https://h:8443/a/").unwrap().as_str(), "https://h:8443/a/v1/push");
        for local in ["http://127.0.0.1:9", "http://[::1]:9", "http://localhost:9"] {
            assert!(endpoint(local).is_ok(), "{local}");
        }
        for wrong in [
            "",
            "push.example.org",
            "http://push.example.org",
            "ftp://h",
            "https://u:p@h",
            "https://h?x",
            "https://h#x",
        ] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }
}
