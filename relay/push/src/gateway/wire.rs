//! What passes between a relay and a gateway. Both sides are here, so that they cannot drift apart.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use skald_relay_common::frame::Platform;
use skald_relay_common::ids::{MessageNonce, NamespaceId, PublicKey};

use crate::payload::{Fields, LARGEST_CONTENT};
use crate::push::{Content, Push, Token, UnixMillis};
use crate::verdict::{Fault, Throttled, Verdict};

/// Where pushes are posted.
pub const PUSH_PATH: &str = "/v1/push";
/// The largest request that a gateway reads, in bytes.
pub const REQUEST_BYTES: usize = 16 * 1024;
/// The longest token that a gateway takes, in bytes; providers' own are far shorter.
const TOKEN_BYTES: usize = 4096;
/// The longest reason that is passed on, in bytes.
const REASON_BYTES: usize = 300;

/// A push on its way to a gateway.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    platform: &'static str,
    token: &'a str,
    /// When the message ends to be worth anything: seconds since 1970.
    expires: i64,
    /// What the device reads.
    push: Fields,
}

impl<'a> Request<'a> {
    pub(super) fn of(push: &'a Push) -> Self {
        Self {
            platform: push.platform.name(),
            token: push.token.as_str(),
            expires: push.expires.secs(),
            push: Fields::of(push),
        }
    }
}

/// The same as a gateway reads it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Received {
    platform: String,
    token: String,
    expires: i64,
    push: ReceivedFields,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReceivedFields {
    ns: String,
    from: Option<String>,
    n: Option<String>,
    c: Option<String>,
    wake: Option<bool>,
}

/// Why a request is not understood, as its sender is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misunderstood {
    #[error("The body is not the JSON of a push: send platform, token, expires and push, and nothing else.")]
    Json,
    #[error("The platform must be ios or android: other devices are reached without a gateway.")]
    Platform,
    #[error("The token is empty or too long.")]
    Token,
    #[error(
        "The push must hold ns with either from, n and c or wake set to true, as hexadecimal digits and base64."
    )]
    Fields,
}

impl Received {
    pub(super) fn parse(body: &[u8]) -> Result<Push, Misunderstood> {
        let received: Self = serde_json::from_slice(body).map_err(|_| Misunderstood::Json)?;
        let token = Token::new(received.token);
        let platform = [Platform::IOS, Platform::ANDROID]
            .into_iter()
            .find(|platform| platform.name() == received.platform)
            .ok_or(Misunderstood::Platform)?;
        let length = token.as_str().len();
        // An APNs or FCM token is a word; anything else would be taken for another provider's.
        let word =
            token.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:.=+/".contains(&byte));
        if length == 0 || length > TOKEN_BYTES || !word || token.as_str().starts_with("ntfy:") {
            return Err(Misunderstood::Token);
        }
        let (namespace, content) = received.push.read().ok_or(Misunderstood::Fields)?;
        let expires = UnixMillis(received.expires.saturating_mul(1000));
        // Who the device is stays at the relay; for whom it was the token says, and that is enough to collapse by.
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_str().as_bytes());
        let device = PublicKey::from_bytes(digest.as_ref().try_into().map_err(|_| Misunderstood::Token)?);
        Ok(Push { namespace, device, platform, token, expires, content })
    }
}

impl ReceivedFields {
    fn read(self) -> Option<(NamespaceId, Content)> {
        let namespace = NamespaceId::from_bytes(bytes(&self.ns)?);
        match (self.from, self.n, self.c, self.wake) {
            (None, None, None, Some(true)) => Some((namespace, Content::Wake)),
            (Some(from), Some(nonce), Some(text), None) if text.len() <= LARGEST_CONTENT => {
                let sender = PublicKey::from_bytes(bytes(&from)?);
                let nonce = MessageNonce::from_bytes(bytes(&nonce)?);
                let ciphertext = STANDARD.decode(text).ok()?.into();
                Some((namespace, Content::Sealed { sender, nonce, ciphertext }))
            }
            _ => None,
        }
    }
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    hex::decode_to_slice(text, &mut out).ok()?;
    Some(out)
}

/// A provider's verdict, as a gateway gives it back.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    verdict: Cow<'static, str>,
    /// When the provider found the token dead: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
    /// How long the provider wants to be left alone, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    /// Whether only this device is to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device_only: Option<bool>,
    /// The provider's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'static, str>>,
}

impl Answer {
    pub(super) fn of(verdict: Verdict) -> Self {
        let plain = |name| Self {
            verdict: Cow::Borrowed(name),
            since: None,
            retry_after: None,
            device_only: None,
            reason: None,
        };
        match verdict {
            Verdict::Accepted => plain("accepted"),
            Verdict::TokenDead { since } => Self { since: since.map(|at| at.0), ..plain("token_dead") },
            Verdict::Later { after, who } => Self {
                retry_after: after.map(|wait| wait.as_secs()),
                device_only: Some(who == Throttled::Device),
                ..plain("later")
            },
            Verdict::TooLarge => plain("too_large"),
            Verdict::Refused { fault, reason } => {
                let name = match fault {
                    Fault::Operator => "refused_operator",
                    Fault::Partly => "refused_partly",
                    Fault::Device => "refused_device",
                    Fault::Ours => "refused",
                };
                Self { reason: Some(reason), ..plain(name) }
            }
            Verdict::Unreachable { reason } => Self { reason: Some(reason), ..plain("unreachable") },
            Verdict::NoProvider => plain("no_provider"),
        }
    }

    /// The verdict as the relay acts upon it; nothing where it makes no sense.
    pub(super) fn read(self) -> Option<Verdict> {
        let wait = self.retry_after.map(Duration::from_secs);
        let who = if self.device_only == Some(false) { Throttled::Lane } else { Throttled::Device };
        let said = |what: &str| {
            let reason = self.reason.as_deref().filter(|reason| is_plain(reason));
            reason.map_or_else(|| what.to_owned(), |reason| format!("{what}: {reason}"))
        };
        Some(match self.verdict.as_ref() {
            "accepted" => Verdict::Accepted,
            "token_dead" => Verdict::TokenDead { since: self.since.map(UnixMillis) },
            "later" => Verdict::Later { after: wait, who },
            "too_large" => Verdict::TooLarge,
            "refused_operator" => Verdict::operator(said("the gateway's key with its provider is refused")),
            "refused_partly" => Verdict::Refused {
                fault: Fault::Partly,
                reason: said("the gateway's key with its provider is partly refused").into(),
            },
            "refused_device" => Verdict::device(said("the gateway's provider refuses this device")),
            "refused" => Verdict::ours(said("the gateway's provider refuses the push")),
            "unreachable" => Verdict::later_for_lane(None),
            "no_provider" => Verdict::operator("the gateway has no key for this platform"),
            _ => return None,
        })
    }
}

/// Whether text from the other side may go to the log.
fn is_plain(text: &str) -> bool {
    text.len() <= REASON_BYTES && !text.chars().any(char::is_control)
}
