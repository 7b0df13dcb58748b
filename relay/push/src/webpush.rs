//! Web Push (RFC 8030, 8291, 8292), UnifiedPush included.
//!
//! A device's token is its subscription, which names an address and two keys. The fields that every provider carries
//! are sealed a second time, for the browser, and padded to one length, so that its push service learns neither the
//! kind nor the length of what passes. UnifiedPush takes the very same request.

pub mod encrypt;
pub mod settings;
pub mod subscription;
pub mod vapid;

use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::bridge::{Bridge, Lane, Provider};
use crate::bridges::SetupError;
use crate::guard::Guard;
use crate::http::{Roots, Versions, answer, builder, failure, finish, retry_after};
use crate::payload::{BODY, Fields, TITLE};
use crate::push::{Content, Push, WallClock};
use crate::verdict::Verdict;

use encrypt::PLAINTEXT_BYTES;
use settings::{PageUrl, WebPushSettings};
use subscription::Subscription;
use vapid::Vapid;

/// No push service keeps a message for longer.
const LONGEST_TTL: Duration = Duration::from_secs(28 * 24 * 3600);
/// What a wake-up is padded to when a service has called the full length too large.
const WAKE_BYTES: usize = 512;

/// The bridge to browsers' push services.
pub struct WebPush {
    client: reqwest::Client,
    guard: Guard,
    vapid: Vapid,
    page: Option<PageUrl>,
    clock: WallClock,
}

/// The message for browsers that show a notification without asking the page's worker (Declarative Web Push). Others
/// find the same fields at the top and never look at the rest.
#[derive(Serialize)]
struct Declarative<'a> {
    #[serde(flatten)]
    fields: &'a Fields,
    web_push: u32,
    mutable: bool,
    notification: Notification<'a>,
}

#[derive(Serialize)]
struct Notification<'a> {
    title: &'static str,
    body: &'static str,
    navigate: &'a str,
}

impl WebPush {
    /// Makes the bridge; the key is in `folder`, and made if there is none.
    pub fn open(
        settings: &WebPushSettings,
        folder: &std::path::Path,
        roots: &Roots,
        clock: WallClock,
    ) -> Result<Self, SetupError> {
        Self::with_guard(settings, settings.guard(), folder, roots, clock)
    }

    /// The same with another guard, whose lookup is the caller's.
    pub fn with_guard(
        settings: &WebPushSettings,
        guard: Guard,
        folder: &std::path::Path,
        roots: &Roots,
        clock: WallClock,
    ) -> Result<Self, SetupError> {
        let vapid = Vapid::open(folder, settings.contact.clone()).map_err(|error| SetupError::Value {
            setting: "push.webpush",
            problem: format!("needs its key, but {error}"),
        })?;
        let client = finish(guard.protect(builder(roots, Versions::Any)))?;
        Ok(Self { client, guard, vapid, page: settings.page_url.clone(), clock })
    }

    /// The key that subscriptions must name: an uncompressed point of 65 bytes.
    pub fn public_key(&self) -> &[u8] {
        self.vapid.public_key()
    }

    fn plaintext(&self, push: &Push) -> Zeroizing<Vec<u8>> {
        let fields = Fields::of(push);
        let plain = Zeroizing::new(fields.to_json());
        let Some(page) = &self.page else { return plain };
        let notification = Notification { title: TITLE, body: BODY, navigate: page.as_str() };
        let message = Declarative { fields: &fields, web_push: 8030, mutable: true, notification };
        match serde_json::to_vec(&message) {
            Ok(json) if json.len() <= PLAINTEXT_BYTES => Zeroizing::new(json),
            _ => plain,
        }
    }

    async fn post(&self, push: &Push) -> Result<Verdict, Verdict> {
        let now = self.clock.now();
        let ttl = now.until(push.expires).min(LONGEST_TTL).as_secs();
        let subscription =
            Subscription::parse(push.token.as_str()).map_err(|_| Verdict::TokenDead { since: None })?;
        let url =
            self.guard.check(&subscription.endpoint).map_err(|error| Verdict::device(error.to_string()))?;
        let origin = url.origin().ascii_serialization();
        let padded = if matches!(push.content, Content::Wake) { WAKE_BYTES } else { PLAINTEXT_BYTES };
        let body = encrypt::seal(&subscription.recipient, &self.plaintext(push), padded)
            .map_err(|error| Verdict::ours(error.to_string()))?;
        let authorization = self
            .vapid
            .authorization(&origin, now)
            .ok_or_else(|| Verdict::ours("no token could be signed"))?;
        // One push waits for one device at its service: a newer one takes the place of an older.
        let topic = self.vapid.opaque(&[push.namespace.as_bytes(), push.device.as_bytes()]);
        let sent = self
            .client
            .post(url)
            .header("ttl", ttl)
            .header("urgency", "high")
            .header("topic", topic)
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(body)
            .send()
            .await;
        let response = match sent {
            Ok(response) => response,
            Err(error) if crate::guard::is_private(&error) => {
                return Err(Verdict::device(crate::guard::NO_PUBLIC_ADDRESS.to_owned()));
            }
            Err(error) => return Err(Verdict::unreachable(failure(&error))),
        };
        let (status, wait) = (response.status(), retry_after(response.headers(), now));
        let said = if status.is_success() { None } else { reason(&answer(response).await) };
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.vapid.forget(&origin);
        }
        Ok(verdict(status, wait, said.as_deref()))
    }
}

#[async_trait]
impl Bridge for WebPush {
    fn provider(&self) -> Provider {
        Provider::WebPush
    }

    fn lane(&self, push: &Push) -> Lane {
        let entry = Subscription::parse(push.token.as_str()).ok();
        let entry = entry.and_then(|subscription| self.guard.entry(&subscription.endpoint));
        entry.map_or(Lane::whole(Provider::WebPush), |entry| Lane::host(Provider::WebPush, &entry))
    }

    async fn send(&self, push: &Push) -> Verdict {
        self.post(push).await.unwrap_or_else(|verdict| verdict)
    }
}

fn verdict(status: StatusCode, wait: Option<Duration>, said: Option<&str>) -> Verdict {
    let says = |what: &str| match said {
        Some(said) => format!("{what} ({}, {said})", status.as_u16()),
        None => format!("{what} ({})", status.as_u16()),
    };
    match status.as_u16() {
        200..=202 | 204 => Verdict::Accepted,
        404 | 410 => Verdict::TokenDead { since: None },
        413 => Verdict::TooLarge,
        429 => Verdict::later_for_device(wait),
        500..=599 => Verdict::later_for_lane(wait),
        // A subscription that was made with another relay's key is refused like this, so one device is to blame until
        // the same is said of others.
        401 | 403 => {
            Verdict::device(says("the push service does not take this relay's key for the subscription"))
        }
        400 => Verdict::ours(says("the push service does not understand the request")),
        300..=399 => Verdict::device(says("the push service redirects, which is not followed")),
        _ => Verdict::ours(says("the push service refuses")),
    }
}

/// The code that a service gives beside its status: Apple's `reason`, Mozilla's `errno`. Free text is left out, for it
/// may repeat the address.
fn reason(body: &[u8]) -> Option<String> {
    let said: serde_json::Value = serde_json::from_slice(body).ok()?;
    if let Some(number) = said.get("errno").and_then(serde_json::Value::as_u64) {
        return Some(format!("errno {number}"));
    }
    let reason = said.get("reason")?.as_str()?;
    let plain = reason.len() <= 40 && reason.bytes().all(|byte| byte.is_ascii_alphabetic());
    (plain && !reason.is_empty()).then(|| reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_of_a_service_are_repeated() {
        assert_eq!(reason(br#"{"reason":"BadJwtToken"}"#).unwrap(), "BadJwtToken");
        assert_eq!(reason(br#"{"code":401,"errno":109,"message":"secret"}"#).unwrap(), "errno 109");
        for other in
            [&b""[..], b"secret", br#"{"reason":"no /such/path"}"#, br#"{"reason":""}"#, br#"{"reason":7}"#]
        {
            assert_eq!(reason(other), None);
        }
    }
}
