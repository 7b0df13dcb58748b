//! Access tokens for a service account (RFC 7523), kept until shortly before they end.

use std::path::Path;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::bridges::SetupError;
use crate::http::{self as client, file_error};
use crate::jwt::SigningKey;
use crate::push::{UnixMillis, WallClock};
use crate::verdict::Verdict;

const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
const GRANT: &str = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
/// How long an assertion is good for, which is Google's limit.
const ASSERTED: Duration = Duration::from_secs(3600);
/// A token is replaced so long before it ends.
const EARLY: Duration = Duration::from_secs(5 * 60);

/// What the file of a service account says.
pub(super) struct ServiceAccount {
    file: File,
    key: SigningKey,
}

#[derive(Deserialize)]
struct File {
    project_id: String,
    client_email: String,
    #[serde(deserialize_with = "secret")]
    private_key: Zeroizing<String>,
    #[serde(default)]
    private_key_id: String,
    token_uri: String,
}

/// Text that erases itself.
fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}

impl ServiceAccount {
    pub(super) fn load(path: &Path) -> Result<Self, SetupError> {
        const SETTING: &str = "push.fcm.service_account";
        let text = Zeroizing::new(std::fs::read(path).map_err(|cause| file_error(SETTING, path, cause))?);
        let wrong = |problem: &str| SetupError::Content {
            setting: SETTING,
            path: path.to_owned(),
            problem: format!(
                "{problem}: it must be the JSON file that the Firebase console made for the account"
            ),
        };
        let mut file: File =
            serde_json::from_slice(&text).map_err(|_| wrong("is no service account's file"))?;
        let plain = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
        };
        if !plain(&file.project_id) {
            return Err(wrong("holds no project_id"));
        }
        client::base_url(SETTING, Some(&file.token_uri), "https://oauth2.googleapis.com/token")
            .map_err(|_| wrong("holds no https token_uri"))?;
        let pem = std::mem::take(&mut file.private_key);
        let key = SigningKey::rs256(pem.as_bytes()).ok_or_else(|| wrong("holds no RSA private_key"))?;
        Ok(Self { file, key })
    }

    pub(super) fn project_id(&self) -> &str {
        &self.file.project_id
    }

    fn assertion(&self, now: UnixMillis) -> Option<Zeroizing<String>> {
        let claims = json!({
            "iss": self.file.client_email,
            "scope": SCOPE,
            "aud": self.file.token_uri,
            "iat": now.secs(),
            "exp": now.plus(ASSERTED).secs(),
        });
        let mut header = vec![("typ", "JWT")];
        if !self.file.private_key_id.is_empty() {
            header.push(("kid", &self.file.private_key_id));
        }
        self.key.sign(&header, &claims).ok()
    }
}

/// The source of access tokens.
pub(super) struct Access {
    account: ServiceAccount,
    client: reqwest::Client,
    /// Held while one is fetched, so that many pushes make one request.
    current: Mutex<Option<Granted>>,
}

struct Granted {
    token: Zeroizing<String>,
    until: UnixMillis,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(deserialize_with = "secret")]
    access_token: Zeroizing<String>,
    expires_in: u32,
}

#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: String,
}

impl Access {
    pub(super) fn new(account: ServiceAccount, client: reqwest::Client) -> Self {
        Self { account, client, current: Mutex::new(None) }
    }

    /// The token to use now, fetched if need be.
    pub(super) async fn token(&self, clock: &WallClock) -> Result<Zeroizing<String>, Verdict> {
        let mut current = self.current.lock().await;
        let now = clock.now();
        if let Some(granted) = current.as_ref().filter(|granted| now.plus(EARLY) < granted.until) {
            return Ok(granted.token.clone());
        }
        let granted = self.fetch(now, clock).await?;
        let token = granted.token.clone();
        *current = Some(granted);
        Ok(token)
    }

    /// A token was refused before its time.
    pub(super) async fn refused(&self, token: &str) {
        let mut current = self.current.lock().await;
        // Someone else may have replaced it meanwhile.
        if current.as_ref().is_some_and(|granted| *granted.token == token) {
            *current = None;
        }
    }

    async fn fetch(&self, now: UnixMillis, clock: &WallClock) -> Result<Granted, Verdict> {
        let assertion = self.account.assertion(now).ok_or_else(|| Verdict::ours("nothing can be signed"))?;
        // The assertion consists of letters that a form leaves as they are.
        let form = Zeroizing::new(format!("grant_type={GRANT}&assertion={}", assertion.as_str()));
        let request = || {
            let request = self.client.post(&self.account.file.token_uri);
            let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            request.body(form.as_bytes().to_vec()).send()
        };
        let response = client::twice(request).await?;
        let status = response.status().as_u16();
        let after = client::retry_after(response.headers(), clock.now());
        let body = Zeroizing::new(client::answer(response).await);
        match status {
            200 => {
                let answer: Answer = serde_json::from_slice(&body)
                    .map_err(|_| Verdict::unreachable("an access token that cannot be read"))?;
                let span = Duration::from_secs(answer.expires_in.into());
                Ok(Granted { token: answer.access_token, until: now.plus(span) })
            }
            429 | 500..=599 => Err(Verdict::later_for_lane(after)),
            400..=499 => {
                let said: Refusal = serde_json::from_slice(&body).unwrap_or_default();
                Err(Verdict::operator(client::word(&said.error, "no access token is given")))
            }
            _ => Err(Verdict::unreachable("an answer that is none")),
        }
    }
}
