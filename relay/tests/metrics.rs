//! The metrics as a monitoring system reads them.

mod common;

use common::{Id, Peer, TestRelay};
use skald_relay::Options;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn http(relay: &TestRelay, request: &str) -> String {
    let mut stream = TcpStream::connect(relay.running.metrics_addr().unwrap()).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn with_metrics() -> TestRelay {
    TestRelay::with(|s| s.metrics_listen = Some("127.0.0.1:0".parse().unwrap()), Options::default()).await
}

#[tokio::test]
async fn metrics_are_served_on_an_address_of_their_own_and_nothing_else_is() {
    let relay = with_metrics().await;
    let answer = http(&relay, "GET /metrics").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("application/openmetrics-text"),
        "{answer}"
    );
    assert!(answer.ends_with("# EOF\n"));
    assert!(http(&relay, "GET /").await.starts_with("HTTP/1.1 404"));
    assert!(http(&relay, "GET /healthz").await.starts_with("HTTP/1.1 404"));
    assert!(http(&relay, "POST /metrics").await.starts_with("HTTP/1.1 405"));
    let plain = TestRelay::start().await;
    assert_eq!(plain.running.metrics_addr(), None, "nothing is served unless it is asked for");
    drop(Peer::agent(plain.addr(), &Id::new(1)).await);
}

fn value(text: &str, sample: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("{sample} is not shown"))
}

/// Reads the metrics until a sample has this value: what happens at the end of a connection takes a moment to be counted.
async fn reaches(relay: &TestRelay, sample: &str, wanted: f64) {
    let reached = async {
        while value(&http(relay, "GET /metrics").await, sample) != wanted {
            tokio::task::yield_now().await;
        }
    };
    let patience = tokio::time::timeout(common::PATIENCE, reached).await;
    assert!(patience.is_ok(), "{sample} never became {wanted}");
}

#[tokio::test]
async fn a_message_is_counted_on_its_way_and_nothing_secret_is_shown() {
    let relay = with_metrics().await;
    let (agent, phone, away) = (Id::new(1), Id::new(2), Id::new(3));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone, &away]).await;
    let mut device = Peer::try_device(relay.addr(), agent.namespace(), &phone, "CANARY-token").await.unwrap();
    home.message(&phone, "CANARY-live", 1, true).await;
    device.recv_message().await;
    home.message(&away, "CANARY-live", 2, true).await;
    home.message(&phone, "CANARY-stored", 3, false).await;
    device.recv_message().await;
    home.message(&away, "CANARY-stored", 4, false).await;
    home.message(&Id::new(9), "CANARY-lost", 5, false).await;
    home.settle().await;
    // The device's library answers the relay's Ping while it reads.
    device.settle().await;

    let messages =
        |class, outcome| format!("skald_relay_messages_total{{class=\"{class}\",outcome=\"{outcome}\"}}");
    for (class, outcome, wanted) in [
        ("live", "delivered", 1.0),
        ("live", "offline", 1.0),
        ("stored", "queued", 2.0),
        ("stored", "confirmed", 1.0),
        ("stored", "not_found", 1.0),
    ] {
        reaches(&relay, &messages(class, outcome), wanted).await;
    }
    reaches(&relay, "skald_relay_queue_messages", 1.0).await;
    reaches(&relay, "skald_relay_delivery_seconds_count", 1.0).await;
    reaches(&relay, "skald_relay_connections{role=\"agent\"}", 1.0).await;
    reaches(&relay, "skald_relay_connections{role=\"client\"}", 1.0).await;
    reaches(&relay, "skald_relay_connections{role=\"unauthenticated\"}", 0.0).await;
    reaches(&relay, "skald_relay_handshakes_total{protocol=\"control\",outcome=\"accepted\"}", 2.0).await;
    drop(device);
    reaches(&relay, "skald_relay_connections{role=\"client\"}", 0.0).await;
    reaches(&relay, "skald_relay_outboxes_bytes", 0.0).await;

    let text = http(&relay, "GET /metrics").await;
    for secret in ["CANARY", &agent.public.to_hex(), &phone.public.to_hex(), &agent.namespace().to_hex()] {
        assert!(!text.contains(secret) && !text.contains(&secret[..6]), "{secret} is in the metrics");
    }
    assert!(!text.contains("127.0.0.1"), "an address is in the metrics");
}

#[tokio::test]
async fn a_database_at_its_cap_refuses_stored_messages_in_plain_words_and_live_ones_pass() {
    let relay = TestRelay::with(
        |s| {
            s.limits.max_database_bytes = 200_000;
            s.metrics_listen = Some("127.0.0.1:0".parse().unwrap());
        },
        Options::default(),
    )
    .await;
    let (agent, phone) = (Id::new(1), Id::new(2));
    let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
    for counter in 1..=3 {
        home.message(&phone, vec![1; 60_000], counter, false).await;
    }
    assert_eq!(home.refusal().await, skald_relay_common::ErrorCode::QueueFull);
    home.message(&agent, "live", 9, true).await;
    assert!(home.recv_message().await.live);
    let text = http(&relay, "GET /metrics").await;
    assert!(value(&text, "skald_relay_limits_hit_total{limit=\"max_database_bytes\"}") >= 1.0);
}

#[tokio::test]
async fn an_address_that_makes_too_many_namespaces_is_refused_and_known_agents_are_not() {
    let change = |s: &mut skald_relay::Settings| s.limits.new_namespaces_per_ip_per_hour = 2;
    let relay = TestRelay::with(change, Options::default()).await;
    for n in 1..=2 {
        drop(Peer::agent(relay.addr(), &Id::new(n)).await);
    }
    let stranger = Id::new(3);
    let mut peer = Peer::open(relay.addr()).await;
    let answer = peer.auth(&stranger, skald_relay_common::frame::Role::Agent(stranger.public)).await;
    assert_eq!(common::code(&answer), skald_relay_common::ErrorCode::RateLimited);
    for n in [1, 2, 1, 2] {
        drop(Peer::agent(relay.addr(), &Id::new(n)).await);
    }
}
