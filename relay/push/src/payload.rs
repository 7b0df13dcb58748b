//! What the bodies say (relay-server "Push"). One place, so that every provider's device reads the same fields.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};
use skald_relay_common::ids::NamespaceId;

use crate::push::{Content, Push};

/// Ciphertext whose base64 is longer than this stays at the relay, and the push only wakes.
pub const LARGEST_CONTENT: usize = 3500;

/// What the visible alert says: nobody on the way may know more.
pub const TITLE: &str = "Skald";
/// The alert's text.
pub const BODY: &str = "Action required";

/// The fields that the device reads.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Fields {
    /// The message itself.
    Sealed {
        /// The namespace, hex.
        ns: String,
        /// The sender's key, hex.
        from: String,
        /// The nonce, hex.
        n: String,
        /// The ciphertext, base64 with padding.
        c: String,
    },
    /// A reason to fetch.
    Wake {
        /// The namespace, hex.
        ns: String,
        /// Always true.
        wake: bool,
    },
}

impl Fields {
    /// The fields of a push: its content, if it is small enough.
    pub fn of(push: &Push) -> Self {
        match &push.content {
            Content::Sealed { sender, nonce, ciphertext } if fits(ciphertext.len()) => Self::Sealed {
                ns: push.namespace.to_hex(),
                from: sender.to_hex(),
                n: nonce.to_hex(),
                c: STANDARD.encode(ciphertext),
            },
            Content::Sealed { .. } | Content::Wake => Self::wake(&push.namespace),
        }
    }

    /// The fields that carry nothing.
    pub fn wake(namespace: &NamespaceId) -> Self {
        Self::Wake { ns: namespace.to_hex(), wake: true }
    }

    /// As JSON, for Web Push.
    pub fn to_json(&self) -> Vec<u8> {
        // A struct of strings and a flag cannot fail to serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Whether ciphertext of so many bytes rides inside.
const fn fits(bytes: usize) -> bool {
    bytes.div_ceil(3) * 4 <= LARGEST_CONTENT
}

#[derive(Serialize)]
struct Apns {
    aps: Aps,
    d: Fields,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Aps {
    alert: Alert,
    badge: u32,
    sound: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mutable_content: Option<u32>,
    category: &'static str,
}

#[derive(Serialize)]
struct Alert {
    title: &'static str,
    body: &'static str,
}

/// The body for APNs. With content, the app's extension may put its own text in place of the alert; a wake-up shows the
/// alert as it is.
pub fn apns(push: &Push) -> Vec<u8> {
    let d = Fields::of(push);
    let mutable_content = matches!(d, Fields::Sealed { .. }).then_some(1);
    let alert = Alert { title: TITLE, body: BODY };
    let aps = Aps { alert, badge: 1, sound: "default", mutable_content, category: "skald_inbox" };
    serde_json::to_vec(&Apns { aps, d }).unwrap_or_default()
}

/// The data of an FCM message; every value is a string. The SDK keeps the key `from` to itself, so the sender is in `f`
/// as well.
pub fn fcm(push: &Push) -> Map<String, Value> {
    let fields = match Fields::of(push) {
        Fields::Sealed { ns, from, n, c } => {
            vec![("ns", ns), ("from", from.clone()), ("f", from), ("n", n), ("c", c)]
        }
        Fields::Wake { ns, .. } => vec![("ns", ns), ("wake", "1".to_owned())],
    };
    fields.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect()
}

#[cfg(test)]
mod tests {
    use skald_relay_common::frame::Platform;

    use super::*;
    use crate::push::{Token, UnixMillis};

    fn push(bytes: usize) -> Push {
        Push {
            namespace: [0x11; 32].into(),
            device: [0x22; 32].into(),
            platform: Platform::IOS,
            token: Token::new("never in a body".to_owned()),
            expires: UnixMillis(0),
            content: Content::Sealed {
                sender: [0xab; 32].into(),
                nonce: [0x0c; 12].into(),
                ciphertext: vec![0xff; bytes].into(),
            },
        }
    }

    const NS: &str = "1111111111111111111111111111111111111111111111111111111111111111";
    const FROM: &str = "abababababababababababababababababababababababababababababababab";
    const N: &str = "0c0c0c0c0c0c0c0c0c0c0c0c";

    #[test]
    fn content_rides_inside_the_body_for_apple() {
        let expected = format!(
            "{{\"aps\":{{\"alert\":{{\"title\":\"Skald\",\"body\":\"Action required\"}},\"badge\":1,\
             \"sound\":\"default\",\"mutable-content\":1,\"category\":\"skald_inbox\"}},\
             \"d\":{{\"ns\":\"{NS}\",\"from\":\"{FROM}\",\"n\":\"{N}\",\"c\":\"/////w==\"}}}}"
        );
        assert_eq!(String::from_utf8(apns(&push(4))).unwrap(), expected);
    }

    #[test]
    fn a_wake_up_for_apple_shows_its_alert_and_carries_nothing() {
        let expected = format!(
            "{{\"aps\":{{\"alert\":{{\"title\":\"Skald\",\"body\":\"Action required\"}},\"badge\":1,\
             \"sound\":\"default\",\"category\":\"skald_inbox\"}},\"d\":{{\"ns\":\"{NS}\",\"wake\":true}}}}"
        );
        assert_eq!(String::from_utf8(apns(&push(4).as_wake())).unwrap(), expected);
    }

    #[test]
    fn the_fields_for_google_are_text_and_name_the_sender_twice() {
        let sealed = serde_json::to_string(&fcm(&push(1))).unwrap();
        let expected = format!(r#"{{"ns":"{NS}","from":"{FROM}","f":"{FROM}","n":"{N}","c":"/w=="}}"#);
        assert_eq!(sealed, expected);
        let wake = serde_json::to_string(&fcm(&push(1).as_wake())).unwrap();
        assert_eq!(wake, format!(r#"{{"ns":"{NS}","wake":"1"}}"#));
    }

    #[test]
    fn the_fields_of_web_push_are_the_same() {
        let json = String::from_utf8(Fields::of(&push(1)).to_json()).unwrap();
        assert_eq!(json, format!(r#"{{"ns":"{NS}","from":"{FROM}","n":"{N}","c":"/w=="}}"#));
    }

    #[test]
    fn content_of_3500_letters_rides_inside_within_every_limit_and_more_only_wakes() {
        let largest = push(2625);
        let Fields::Sealed { c, .. } = Fields::of(&largest) else { panic!("it only wakes") };
        assert_eq!(c.len(), 3500);
        assert!(apns(&largest).len() <= 4096);
        let google: usize = fcm(&largest).iter().map(|(k, v)| k.len() + v.as_str().unwrap().len()).sum();
        assert!(google <= 4096, "{google}");
        assert!(matches!(Fields::of(&push(2626)), Fields::Wake { .. }));
    }
}
