//! From a relay without keys through a real gateway to Apple's service, and back with its verdict.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skald_relay::gateway::{GatewaySettings, RunningGateway};
use skald_relay_common::frame::Platform;
use skald_relay_common::ids::{MessageNonce, NamespaceId, PublicKey};
use skald_relay_push::gateway::{GatewayBridge, GatewaySettings as Way, RelayAccess, RelayKey};
use skald_relay_push::http::Roots;
use skald_relay_push::{
    Bridge, Bridges, Content, Fault, Provider, Push, Throttled, Token, UnixMillis, Verdict, WallClock,
};
use skald_testkit::Authority;
use tokio::sync::mpsc;

/// Apple's place: says what the token says, and shows what it was given.
struct Apple(mpsc::UnboundedSender<Push>);

#[async_trait]
impl Bridge for Apple {
    fn provider(&self) -> Provider {
        Provider::Apns
    }

    async fn send(&self, push: &Push) -> Verdict {
        self.0.send(push.clone()).unwrap();
        match push.token.as_str() {
            "dead" => Verdict::TokenDead { since: Some(UnixMillis(77)) },
            "busy" => Verdict::later_for_device(Some(Duration::from_secs(40))),
            "large" => Verdict::TooLarge,
            "revoked" => Verdict::operator("InvalidProviderToken"),
            _ => Verdict::Accepted,
        }
    }
}

struct Fixture {
    _folder: tempfile::TempDir,
    gateway: RunningGateway,
    apple: mpsc::UnboundedReceiver<Push>,
    roots: Roots,
    way: Way,
}

async fn fixture(change: impl FnOnce(&mut GatewaySettings)) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::open(folder.path().join("ca")).unwrap();
    let files = authority.issue("gateway").unwrap();
    let key = RelayKey::generate().unwrap();
    let key_file = folder.path().join("key");
    std::fs::write(&key_file, key.as_str()).unwrap();
    let mut settings = GatewaySettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        data: folder.path().to_owned(),
        tls_cert: Some(files.certificate),
        tls_key: Some(files.key),
        relays: vec![RelayAccess {
            name: "home".to_owned(),
            key_sha256: key.hash(),
            per_minute: 600,
            burst: 200,
        }],
        ..GatewaySettings::default()
    };
    change(&mut settings);
    let (send, apple) = mpsc::unbounded_channel();
    let bridges = Bridges::none().with(Arc::new(Apple(send)));
    let gateway = RunningGateway::start_with(settings, bridges).await.unwrap();
    let url = format!("https://localhost:{}", gateway.local_addr().port());
    let roots = Roots::load(Some(&authority.certificate())).unwrap();
    Fixture { _folder: folder, gateway, apple, roots, way: Way { url, key_file } }
}

impl Fixture {
    fn bridge(&self) -> GatewayBridge {
        GatewayBridge::open(&self.way, &self.roots, WallClock::system()).unwrap()
    }
}

fn push(token: &str) -> Push {
    Push {
        namespace: NamespaceId::from_bytes([1; 32]),
        device: PublicKey::from_bytes([2; 32]),
        platform: Platform::IOS,
        token: Token::new(token.to_owned()),
        expires: UnixMillis(4_000_000_000_000),
        content: Content::Sealed {
            sender: PublicKey::from_bytes([3; 32]),
            nonce: MessageNonce::from_bytes([4; 12]),
            ciphertext: b"sealed".to_vec().into(),
        },
    }
}

#[tokio::test]
async fn the_fields_pass_the_gateway_and_the_verdict_comes_back() {
    let mut fixture = fixture(|_| {}).await;
    let bridge = fixture.bridge();
    assert_eq!(bridge.send(&push("well")).await, Verdict::Accepted);
    let got = fixture.apple.recv().await.unwrap();
    let Content::Sealed { sender, nonce, ciphertext } = got.content else { panic!("the content is gone") };
    assert_eq!((sender.as_bytes()[0], nonce.as_bytes()[0], &ciphertext[..]), (3, 4, &b"sealed"[..]));
    assert_eq!((got.token.as_str(), got.expires.0), ("well", 4_000_000_000_000));
    assert_ne!(got.device, PublicKey::from_bytes([2; 32]), "which device it is stays at the relay");
    assert_eq!(bridge.send(&push("wake").as_wake()).await, Verdict::Accepted);
    assert!(matches!(fixture.apple.recv().await.unwrap().content, Content::Wake));
    let dead = Verdict::TokenDead { since: Some(UnixMillis(77)) };
    assert_eq!(bridge.send(&push("dead")).await, dead);
    let busy = Verdict::Later { after: Some(Duration::from_secs(40)), who: Throttled::Device };
    assert_eq!(bridge.send(&push("busy")).await, busy);
    assert_eq!(bridge.send(&push("large")).await, Verdict::TooLarge);
    let verdict = bridge.send(&push("revoked")).await;
    let Verdict::Refused { fault: Fault::Operator, reason } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("InvalidProviderToken"), "{reason}");
    fixture.gateway.shutdown().await;
    let verdict = bridge.send(&push("well")).await;
    assert!(
        matches!(verdict, Verdict::Unreachable { .. }),
        "a gateway that is down loses nothing: {verdict:?}"
    );
}

#[tokio::test]
async fn a_flood_is_held_off_by_token_and_by_relay() {
    let fixture = fixture(|settings| {
        settings.tokens.burst = 2;
        settings.relays[0].burst = 5;
        settings.relays[0].per_minute = 1;
    })
    .await;
    let bridge = fixture.bridge();
    for _ in 0..2 {
        assert_eq!(bridge.send(&push("one")).await, Verdict::Accepted);
    }
    let verdict = bridge.send(&push("one")).await;
    assert!(matches!(verdict, Verdict::Later { after: Some(_), who: Throttled::Device }), "{verdict:?}");
    for token in ["two", "three"] {
        assert_eq!(bridge.send(&push(token)).await, Verdict::Accepted);
    }
    let verdict = bridge.send(&push("four")).await;
    assert!(matches!(verdict, Verdict::Later { after: Some(_), who: Throttled::Lane }), "{verdict:?}");
}

#[tokio::test]
async fn a_wrong_key_reaches_no_provider_and_soon_is_not_even_compared() {
    let mut fixture = fixture(|settings| settings.strangers_per_ip_per_minute = 2).await;
    std::fs::write(&fixture.way.key_file, RelayKey::generate().unwrap().as_str()).unwrap();
    let bridge = fixture.bridge();
    for _ in 0..2 {
        let verdict = bridge.send(&push("well")).await;
        assert!(matches!(verdict, Verdict::Refused { fault: Fault::Operator, .. }), "{verdict:?}");
    }
    let verdict = bridge.send(&push("well")).await;
    assert!(matches!(verdict, Verdict::Later { who: Throttled::Lane, .. }), "{verdict:?}");
    assert!(fixture.apple.try_recv().is_err());
}
