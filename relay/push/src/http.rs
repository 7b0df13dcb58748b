//! The client that speaks to providers: rustls on ring, no redirects, no proxy from the environment, bounded answers.

use std::borrow::Cow;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::bridges::SetupError;
use crate::push::UnixMillis;
use crate::verdict::Verdict;

/// How long a connection to a provider may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// As much of a provider's answer is read. What they say is a few hundred bytes.
const ANSWER: usize = 16 * 1024;
/// No provider is left alone for longer, whatever it asks for: it may be a mistake, and messages wait.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The authorities that are trusted for providers.
#[derive(Debug, Clone)]
pub struct Roots(Arc<RootCertStore>);

impl Roots {
    /// Those of the operating system, and those of a file.
    pub fn load(extra: Option<&Path>) -> Result<Self, SetupError> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = extra {
            add(&mut store, path)?;
        }
        if store.is_empty() {
            return Err(SetupError::Value {
                setting: "push",
                problem:
                    "needs certificates to trust, and this machine has none: install ca-certificates, or set \
                          push.extra_ca"
                        .to_owned(),
            });
        }
        Ok(Self(Arc::new(store)))
    }
}

fn add(store: &mut RootCertStore, path: &Path) -> Result<(), SetupError> {
    const SETTING: &str = "push.extra_ca";
    let pem = std::fs::read(path).map_err(|cause| file_error(SETTING, path, cause))?;
    let wrong = || SetupError::Content {
        setting: SETTING,
        path: path.to_owned(),
        problem: "holds no certificate: it must be a PEM file with the authority's certificate".to_owned(),
    };
    let before = store.len();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        store.add(certificate.map_err(|_| wrong())?).map_err(|_| wrong())?;
    }
    if store.len() == before { Err(wrong()) } else { Ok(()) }
}

/// That a file cannot be read.
pub(crate) fn file_error(setting: &'static str, path: &Path, cause: std::io::Error) -> SetupError {
    SetupError::File { setting, path: PathBuf::from(path), cause }
}

/// Which HTTP a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/2 alone.
    Two,
    /// HTTP/2 where the server has it, and HTTP/1.1.
    Any,
}

/// A client to be finished by the bridge that needs it.
pub fn builder(roots: &Roots, versions: Versions) -> reqwest::ClientBuilder {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .https_only(true)
        .connect_timeout(CONNECT)
        .pool_idle_timeout(Duration::from_secs(60 * 60))
        .tcp_keepalive(Duration::from_secs(60))
        .http2_keep_alive_interval(Duration::from_secs(60))
        .http2_keep_alive_timeout(Duration::from_secs(10))
        .http2_keep_alive_while_idle(true);
    // The default versions of TLS are what ring supports, so there is a configuration.
    let Ok(config) = config else { return builder };
    let mut config = config.with_root_certificates(Arc::clone(&roots.0)).with_no_client_auth();
    config.alpn_protocols = match versions {
        Versions::Two => vec![b"h2".to_vec()],
        Versions::Any => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    let builder = builder.tls_backend_preconfigured(config);
    // Knowing that it will be HTTP/2, the client opens one connection where it would else open several at once.
    if versions == Versions::Two { builder.http2_prior_knowledge() } else { builder }
}

/// The client itself.
pub fn finish(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, SetupError> {
    builder.build().map_err(|error| SetupError::Value {
        setting: "push",
        problem: format!("cannot make a TLS client ({})", error.without_url()),
    })
}

/// Where a provider is: the operator's choice or its own address, without a slash at the end. Always https.
pub fn base_url(setting: &'static str, given: Option<&str>, own: &str) -> Result<String, SetupError> {
    let text = given.unwrap_or(own).trim_end_matches('/');
    let good = reqwest::Url::parse(text).is_ok_and(|url| url.scheme() == "https" && url.has_host());
    if good {
        return Ok(text.to_owned());
    }
    Err(SetupError::Value { setting, problem: format!("must be an address such as {own}") })
}

/// As much of an answer as is worth reading.
pub async fn answer(mut response: reqwest::Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = ANSWER - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == ANSWER {
            break;
        }
    }
    body
}

/// What went wrong with a request, without the address: it may hold a token.
pub fn failure(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else if error.is_body() || error.is_decode() {
        "the answer was cut off"
    } else {
        "the connection was lost"
    }
}

/// One request, made again at once if the connection was lost under it: a kept connection may have died unnoticed.
pub async fn twice<F>(request: impl Fn() -> F) -> Result<reqwest::Response, Verdict>
where
    F: Future<Output = Result<reqwest::Response, reqwest::Error>>,
{
    if let Ok(response) = request().await {
        return Ok(response);
    }
    request().await.map_err(|error| Verdict::unreachable(failure(&error)))
}

/// A provider's reason, fit for a log: a word of its own, never a text that might quote what was sent.
pub fn word(given: &str, or: &'static str) -> Cow<'static, str> {
    let plain = given.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain && (1..=48).contains(&given.len()) { given.to_owned().into() } else { or.into() }
}

/// How long the provider wants to be left alone, in seconds or until a date.
pub fn retry_after(headers: &HeaderMap, now: UnixMillis) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(secs) => Duration::from_secs(secs),
        Err(_) => now.until(UnixMillis(http_date(text)?.checked_mul(1000)?)),
    };
    Some(wait.min(LONGEST_WAIT))
}

/// Seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that servers may send.
fn http_date(text: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = text.split_once(", ")?.1.split(' ');
    let mut next = || parts.next();
    let day: i64 = next()?.parse().ok()?;
    let name = next().filter(|name| name.len() == 3)?;
    let month = i64::try_from(MONTHS.find(name)? / 3).ok()? + 1;
    let year: i64 = next()?.parse().ok()?;
    let mut clock = next()?.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if next()? != "GMT" || !(1970..=9999).contains(&year) {
        return None;
    }
    // Days of the civil calendar, counted from a March so that the leap day comes last in its year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, now: i64) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        retry_after(&headers, UnixMillis(now)).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        assert_eq!(after("120", 0), Some(120));
        let at = 784_111_777;
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT", (at - 90) * 1000), Some(90));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT", (at + 90) * 1000), Some(0));
        assert_eq!(after("Thu, 29 Feb 2024 00:00:00 GMT", 1_709_164_000_000), Some(800));
        for odd in ["soon", "", "Sun, 06 Nov 1994", "Sun, 6 November 1994 08:49:37 GMT", "-3"] {
            assert_eq!(after(odd, 0), None, "{odd}");
        }
        assert_eq!(after("99999999999", 0), Some(24 * 60 * 60));
    }
}
