//! The bridge to browsers against a push service that checks and opens what it gets.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skald_relay_common::frame::Platform;
use skald_relay_common::ids::{MessageNonce, NamespaceId, PublicKey};
use skald_relay_push::guard::Lookup;
use skald_relay_push::http::Roots;
use skald_relay_push::webpush::WebPush;
use skald_relay_push::webpush::settings::WebPushSettings;
use skald_relay_push::{Bridge as _, Content, Fault, Push, Throttled, Token, UnixMillis, Verdict, WallClock};
use skald_testkit::Authority;
use skald_testkit::fakes::{Act, FakeWebPush, Reply};

const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

struct Fixture {
    folder: tempfile::TempDir,
    service: FakeWebPush,
    settings: WebPushSettings,
    roots: Roots,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open(folder.path().join("ca")).unwrap();
        let service = FakeWebPush::start(&authority, Arc::new(|| NOW.secs()), 7).await.unwrap();
        let mut settings = WebPushSettings::new("mailto:ops@example.org".parse().unwrap());
        settings.private_hosts = vec![service.host().parse().unwrap()];
        let roots = Roots::load(Some(&authority.certificate())).unwrap();
        Self { folder, service, settings, roots }
    }

    fn bridge(&self) -> WebPush {
        let clock = WallClock::from_fn(|| NOW);
        WebPush::open(&self.settings, self.folder.path(), &self.roots, clock).unwrap()
    }
}

fn push(token: String, ciphertext: usize) -> Push {
    Push {
        namespace: NamespaceId::from_bytes([1; 32]),
        device: PublicKey::from_bytes([2; 32]),
        platform: Platform::WEB,
        token: Token::new(token),
        expires: NOW.plus(Duration::from_secs(600)),
        content: Content::Sealed {
            sender: PublicKey::from_bytes([3; 32]),
            nonce: MessageNonce::from_bytes([4; 12]),
            ciphertext: vec![5; ciphertext].into(),
        },
    }
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

#[tokio::test]
async fn the_browser_reads_the_fields_and_its_service_sees_one_length() {
    let mut fixture = Fixture::new().await;
    let bridge = fixture.bridge();
    let token = fixture.service.subscribe(bridge.public_key()).unwrap();
    for size in [1, 100, 2625] {
        let sent = push(token.clone(), size);
        assert_eq!(bridge.send(&sent).await, Verdict::Accepted);
        let message = fixture.service.message().await.unwrap();
        let Content::Sealed { ciphertext, .. } = &sent.content else { panic!("it was sealed") };
        use base64::Engine as _;
        let expected = serde_json::json!({
            "ns": "01".repeat(32),
            "from": "03".repeat(32),
            "n": "04".repeat(12),
            "c": base64::engine::general_purpose::STANDARD.encode(ciphertext),
        });
        assert_eq!(json(&message.plaintext), expected);
        assert_eq!((message.ttl, message.body_bytes), (600, 4096));
    }
    assert_eq!(bridge.send(&push(token, 2626)).await, Verdict::Accepted);
    let message = fixture.service.message().await.unwrap();
    assert_eq!(json(&message.plaintext), serde_json::json!({"ns": "01".repeat(32), "wake": true}));
    assert_eq!(message.body_bytes, 4096, "a push without content cannot be told from one with it");
}

#[tokio::test]
async fn a_device_keeps_its_topic_and_an_origin_its_token() {
    let mut fixture = Fixture::new().await;
    let bridge = fixture.bridge();
    let token = fixture.service.subscribe(bridge.public_key()).unwrap();
    let mut other = push(token.clone(), 10);
    other.device = PublicKey::from_bytes([9; 32]);
    let mut seen = Vec::new();
    for push in [push(token.clone(), 10), push(token, 20), other] {
        assert_eq!(bridge.send(&push).await, Verdict::Accepted);
        seen.push(fixture.service.message().await.unwrap());
    }
    assert_eq!(seen[0].topic, seen[1].topic);
    assert_ne!(seen[0].topic, seen[2].topic);
    assert_eq!(seen[0].authorization, seen[2].authorization, "one token serves an origin");
    assert_eq!(seen[0].connection, seen[2].connection, "one connection serves an origin");
}

#[tokio::test]
async fn a_page_address_rides_beside_the_fields_and_never_displaces_them() {
    let mut fixture = Fixture::new().await;
    fixture.settings.page_url = Some("https://app.example.org/inbox".parse().unwrap());
    let bridge = fixture.bridge();
    let token = fixture.service.subscribe(bridge.public_key()).unwrap();
    assert_eq!(bridge.send(&push(token, 2625)).await, Verdict::Accepted);
    let message = json(&fixture.service.message().await.unwrap().plaintext);
    assert_eq!(message["web_push"], 8030);
    assert_eq!(message["mutable"], true);
    let shown = serde_json::json!({
        "title": "Skald", "body": "Action required", "navigate": "https://app.example.org/inbox"
    });
    assert_eq!(message["notification"], shown);
    assert_eq!(message["ns"], "01".repeat(32));
    assert_eq!(message["c"].as_str().unwrap().len(), 3500);
}

#[tokio::test]
async fn every_answer_of_a_service_has_its_consequence() {
    let mut fixture = Fixture::new().await;
    let bridge = fixture.bridge();
    let token = fixture.service.subscribe(bridge.public_key()).unwrap();
    let wait = |secs: u64| Some(Duration::from_secs(secs));
    let plain = Reply::status;
    let after = |status, secs: &str| Reply::status(status).with_header("retry-after", secs);
    for (reply, expected) in [
        (plain(200), Verdict::Accepted),
        (plain(202), Verdict::Accepted),
        (plain(404), Verdict::TokenDead { since: None }),
        (plain(410), Verdict::TokenDead { since: None }),
        (plain(413), Verdict::TooLarge),
        (after(429, "90"), Verdict::Later { after: wait(90), who: Throttled::Device }),
        (plain(429), Verdict::Later { after: None, who: Throttled::Device }),
        (plain(500), Verdict::Later { after: None, who: Throttled::Lane }),
        (after(503, "30"), Verdict::Later { after: wait(30), who: Throttled::Lane }),
        (plain(507), Verdict::Later { after: None, who: Throttled::Lane }),
    ] {
        let status = reply.status;
        fixture.service.next(reply);
        assert_eq!(bridge.send(&push(token.clone(), 10)).await, expected, "{status}");
        fixture.service.message().await.unwrap();
    }
    let said = serde_json::json!({"reason": "BadJwtToken"});
    let elsewhere = Reply::status(307).with_header("location", "https://localhost:1/");
    for (reply, whose, text) in [
        (Reply::status(400), Fault::Ours, "400"),
        (Reply::status(401), Fault::Device, "401"),
        (Reply::json(403, &said), Fault::Device, "BadJwtToken"),
        (elsewhere, Fault::Device, "redirects"),
    ] {
        fixture.service.next(reply);
        let verdict = bridge.send(&push(token.clone(), 10)).await;
        let Verdict::Refused { fault, reason } = verdict else { panic!("{verdict:?}") };
        assert_eq!(fault, whose, "{reason}");
        assert!(reason.contains(text), "{reason}");
        fixture.service.message().await.unwrap();
    }
    fixture.service.next(Act::Reset);
    let verdict = bridge.send(&push(token, 10)).await;
    assert!(matches!(verdict, Verdict::Unreachable { .. }), "{verdict:?}");
}

#[tokio::test]
async fn a_wake_up_is_short_enough_for_a_service_that_called_the_message_too_large() {
    let mut fixture = Fixture::new().await;
    let bridge = fixture.bridge();
    let token = fixture.service.subscribe(bridge.public_key()).unwrap();
    fixture.service.next(Reply::status(413));
    assert_eq!(bridge.send(&push(token.clone(), 2000)).await, Verdict::TooLarge);
    fixture.service.message().await.unwrap();
    assert_eq!(bridge.send(&push(token, 2000).as_wake()).await, Verdict::Accepted);
    assert!(fixture.service.message().await.unwrap().body_bytes < 1024);
}

#[tokio::test]
async fn a_subscription_made_with_another_relays_key_harms_nobody_else() {
    let mut fixture = Fixture::new().await;
    let bridge = fixture.bridge();
    let elsewhere = tempfile::tempdir().unwrap();
    let clock = WallClock::from_fn(|| NOW);
    let other = WebPush::open(&fixture.settings, elsewhere.path(), &fixture.roots, clock).unwrap();
    let foreign = fixture.service.subscribe(other.public_key()).unwrap();
    let verdict = bridge.send(&push(foreign, 10)).await;
    assert!(matches!(verdict, Verdict::Refused { fault: Fault::Device, .. }), "{verdict:?}");
    assert!(fixture.service.message().await.unwrap_err().to_string().contains("another sender's"));
    let own = fixture.service.subscribe(bridge.public_key()).unwrap();
    assert_eq!(bridge.send(&push(own, 10)).await, Verdict::Accepted);
}

#[tokio::test]
async fn what_is_no_subscription_is_forgotten_and_a_host_that_is_not_allowed_is_named() {
    let mut fixture = Fixture::new().await;
    let real = fixture.service.subscribe(fixture.bridge().public_key()).unwrap();
    let dead = fixture.bridge().send(&push("{}".to_owned(), 10)).await;
    assert_eq!(dead, Verdict::TokenDead { since: None });
    fixture.settings.private_hosts.clear();
    let verdict = fixture.bridge().send(&push(real.clone(), 10)).await;
    let Verdict::Refused { fault: Fault::Device, reason } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("localhost") && !reason.contains("wpush"), "{reason}");
    // Allowed by name, it is still not called at an address of this machine.
    fixture.settings.hosts = vec![fixture.service.host().parse().unwrap()];
    let verdict = fixture.bridge().send(&push(real, 10)).await;
    let Verdict::Refused { fault: Fault::Device, reason } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("no public address"), "{reason}");
}

/// Names every host this machine.
struct Rebinding;

#[async_trait]
impl Lookup for Rebinding {
    async fn addresses(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into(), "::ffff:127.0.0.1".parse().unwrap()])
    }
}

#[tokio::test]
async fn a_public_name_that_leads_home_is_not_followed() {
    let fixture = Fixture::new().await;
    let real = fixture.service.subscribe(fixture.bridge().public_key()).unwrap();
    let token = real.replace(&fixture.service.host(), "fcm.googleapis.com");
    let guard = fixture.settings.guard().with_lookup(Arc::new(Rebinding));
    let (folder, clock) = (fixture.folder.path(), WallClock::from_fn(|| NOW));
    let bridge = WebPush::with_guard(&fixture.settings, guard, folder, &fixture.roots, clock).unwrap();
    let verdict = bridge.send(&push(token, 10)).await;
    let Verdict::Refused { fault: Fault::Device, reason } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("no public address"), "{reason}");
}
