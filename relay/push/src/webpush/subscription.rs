//! A browser's subscription, which is its token.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use p256::PublicKey;
use serde::Deserialize;
use serde::de::IgnoredAny;
use zeroize::Zeroizing;

use super::encrypt::{AUTH_BYTES, POINT_BYTES, Recipient};

/// The URL-safe alphabet, with or without padding: browsers leave it out, and some libraries do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The longest subscription that is read, in bytes.
const LONGEST: usize = 4096;

/// Where to send, and for whom to seal.
pub struct Subscription {
    /// The address at the push service; whoever has it can address the browser.
    pub endpoint: Zeroizing<String>,
    /// The browser's keys.
    pub recipient: Recipient,
}

/// A token that is no subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token is no Web Push subscription as a browser writes it")]
pub struct NoSubscription;

/// As `PushSubscription.toJSON()` gives it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    endpoint: String,
    #[serde(default, rename = "expirationTime")]
    _expiration_time: IgnoredAny,
    keys: Keys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    p256dh: String,
    auth: String,
}

impl Subscription {
    /// Reads a token.
    pub fn parse(token: &str) -> Result<Self, NoSubscription> {
        if token.len() > LONGEST {
            return Err(NoSubscription);
        }
        let wire: Wire = serde_json::from_str(token).map_err(|_| NoSubscription)?;
        let endpoint = Zeroizing::new(wire.endpoint);
        let auth = Zeroizing::new(
            BASE64.decode(Zeroizing::new(wire.keys.auth).as_bytes()).map_err(|_| NoSubscription)?,
        );
        let auth: [u8; AUTH_BYTES] = auth[..].try_into().map_err(|_| NoSubscription)?;
        let point = BASE64.decode(wire.keys.p256dh).map_err(|_| NoSubscription)?;
        // The uncompressed form alone; the point must lie on the curve, or the agreed key could be guessed.
        if point.len() != POINT_BYTES {
            return Err(NoSubscription);
        }
        let key = PublicKey::from_sec1_bytes(&point).map_err(|_| NoSubscription)?;
        Ok(Self { endpoint, recipient: Recipient { key, auth: auth.into() } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P256DH: &str =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

    fn token(p256dh: &str, auth: &str) -> String {
        format!(
            r#"{{"endpoint":"https://push.example.org/x","keys":{{"p256dh":"{p256dh}","auth":"{auth}"}}}}"#
        )
    }

    #[test]
    fn what_browsers_write_is_read() {
        let plain = Subscription::parse(&token(P256DH, AUTH)).unwrap();
        assert_eq!(plain.endpoint.as_str(), "https://push.example.org/x");
        let padded = Subscription::parse(&token(&format!("{P256DH}="), &format!("{AUTH}=="))).unwrap();
        assert_eq!(padded.recipient.key, plain.recipient.key);
        assert_eq!(padded.recipient.auth, plain.recipient.auth);
        for expiration in ["null", "1800000000000"] {
            let chrome = format!(
                r#"{{"endpoint":"https://fcm.googleapis.com/fcm/send/x","expirationTime":{expiration},
                    "keys":{{"p256dh":"{P256DH}","auth":"{AUTH}"}}}}"#
            );
            assert!(Subscription::parse(&chrome).is_ok());
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let off_the_curve = format!("{}5", &P256DH[..P256DH.len() - 1]);
        let compressed = "AyVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcx";
        let infinity = "AA";
        for (p256dh, auth) in [
            (off_the_curve.as_str(), AUTH),
            (compressed, AUTH),
            (infinity, AUTH),
            ("", AUTH),
            (P256DH, ""),
            (P256DH, "BTBZMqHH6r4Tts7J_aSI"),
            (P256DH, P256DH),
            ("not base64!", AUTH),
        ] {
            assert!(Subscription::parse(&token(p256dh, auth)).is_err(), "{p256dh} {auth}");
        }
        let whole = token(P256DH, AUTH);
        for text in [
            String::new(),
            "null".to_owned(),
            "[]".to_owned(),
            r#"{"endpoint":"https://push.example.org/x"}"#.to_owned(),
            whole.replace("endpoint", "address"),
            whole.replace(r#""keys""#, r#""more":1,"keys""#),
            whole.replace(r#""auth""#, r#""more":1,"auth""#),
            format!("{whole}x"),
            whole.replace("/x", &"x".repeat(LONGEST)),
        ] {
            assert!(Subscription::parse(&text).is_err(), "{text}");
        }
    }
}
