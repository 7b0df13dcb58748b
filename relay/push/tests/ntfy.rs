//! The bridge to ntfy servers.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use skald_relay_common::frame::Platform;
use skald_relay_common::ids::{MessageNonce, NamespaceId, PublicKey};
use skald_relay_push::http::Roots;
use skald_relay_push::ntfy::{Ntfy, NtfySettings};
use skald_relay_push::{Bridge as _, Content, Fault, Push, Throttled, Token, UnixMillis, Verdict, WallClock};
use skald_testkit::Authority;
use skald_testkit::fakes::{FakeNtfy, Reply};

const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

struct Fixture {
    folder: tempfile::TempDir,
    server: FakeNtfy,
    settings: NtfySettings,
    roots: Roots,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open(folder.path().join("ca")).unwrap();
        let server = FakeNtfy::start(&authority).await.unwrap();
        let settings =
            NtfySettings { private_hosts: vec![server.host().parse().unwrap()], ..NtfySettings::default() };
        let roots = Roots::load(Some(&authority.certificate())).unwrap();
        Self { folder, server, settings, roots }
    }

    fn bridge(&self) -> Ntfy {
        Ntfy::open(&self.settings, &self.roots, WallClock::from_fn(|| NOW)).unwrap()
    }

    fn push(&self, topic: &str, nonce: u8) -> Push {
        Push {
            namespace: NamespaceId::from_bytes([1; 32]),
            device: PublicKey::from_bytes([2; 32]),
            platform: Platform::DESKTOP,
            token: Token::new(format!("ntfy:https://{}/{topic}", self.server.host())),
            expires: NOW.plus(Duration::from_secs(600)),
            content: Content::Sealed {
                sender: PublicKey::from_bytes([3; 32]),
                nonce: MessageNonce::from_bytes([nonce; 12]),
                ciphertext: b"canary".to_vec().into(),
            },
        }
    }
}

#[tokio::test]
async fn a_topic_learns_that_something_waits_and_nothing_else() {
    let mut fixture = Fixture::new().await;
    let bridge = fixture.bridge();
    let mut texts = Vec::new();
    for nonce in [4, 4, 5] {
        assert_eq!(bridge.send(&fixture.push("phone", nonce)).await, Verdict::Accepted);
        let request = fixture.server.request().await.unwrap();
        assert_eq!((request.path.as_str(), request.header("title")), ("/phone", Some("Skald")));
        assert_eq!((request.header("priority"), request.header("authorization")), (Some("4"), None));
        texts.push(String::from_utf8(request.body.to_vec()).unwrap());
    }
    assert!(texts[0].starts_with("Action required ("), "{}", texts[0]);
    assert_eq!(texts[0].len(), "Action required (0123456789abcdef)".len());
    assert_eq!(texts[0], texts[1], "the same message has the same identifier");
    assert_ne!(texts[0], texts[2], "another one has another");
    for secret in ["canary", "01010101", "02020202", "03030303", "04040404"] {
        assert!(!texts[0].contains(secret), "{}", texts[0]);
    }
}

#[tokio::test]
async fn a_private_topic_is_written_to_with_the_hosts_token() {
    let mut fixture = Fixture::new().await;
    let verdict = fixture.bridge().send(&fixture.push("private", 4)).await;
    let Verdict::Refused { fault: Fault::Device, reason } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("token_files") && !reason.contains("private"), "{reason}");
    let file = fixture.folder.path().join("token");
    std::fs::write(&file, "tk_secret\n").unwrap();
    fixture.settings.token_files.insert(fixture.server.host(), file.clone());
    assert_eq!(fixture.bridge().send(&fixture.push("private", 4)).await, Verdict::Accepted);
    for wrong in ["", "two words", "tk_\u{e9}"] {
        std::fs::write(&file, wrong).unwrap();
        let Err(error) = Ntfy::open(&fixture.settings, &fixture.roots, WallClock::system()) else {
            panic!("{wrong:?} was taken")
        };
        assert!(error.to_string().contains("token"), "{error}");
    }
}

#[tokio::test]
async fn every_answer_of_a_server_has_its_consequence() {
    let mut fixture = Fixture::new().await;
    let bridge = fixture.bridge();
    let later = |who, secs: Option<u64>| Verdict::Later { after: secs.map(Duration::from_secs), who };
    let limited = Reply::status(429).with_header("retry-after", "5");
    for (reply, expected) in [
        (limited, later(Throttled::Lane, Some(5))),
        (Reply::status(507), later(Throttled::Device, None)),
        (Reply::status(503), later(Throttled::Lane, None)),
        (Reply::status(404), Verdict::TokenDead { since: None }),
    ] {
        fixture.server.next(reply);
        assert_eq!(bridge.send(&fixture.push("phone", 4)).await, expected);
        fixture.server.request().await.unwrap();
    }
}

#[tokio::test]
async fn a_token_that_names_no_topic_is_forgotten_and_no_other_host_is_called() {
    let fixture = Fixture::new().await;
    let bridge = fixture.bridge();
    for topic in ["", "a/b", "a?x=1", "a%2Fb", "../a/b", "\u{e9}", &"x".repeat(65), "a#b"] {
        let verdict = bridge.send(&fixture.push(topic, 4)).await;
        assert_eq!(verdict, Verdict::TokenDead { since: None }, "{topic}");
    }
    for (address, says) in
        [("https://evil.example/topic", "evil.example"), ("https://127.0.0.1/topic", "127.0.0.1")]
    {
        let mut push = fixture.push("phone", 4);
        push.token = Token::new(format!("ntfy:{address}"));
        let verdict = bridge.send(&push).await;
        let Verdict::Refused { fault: Fault::Device, reason } = verdict else { panic!("{verdict:?}") };
        assert!(reason.contains(says) && !reason.contains("topic"), "{reason}");
    }
}
