//! Over TLS, with a private authority and without it.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use skald_relay::{Relay, Running, Settings};
use skald_relay_client::{AgentOptions, LinkProblem, LinkState, RelayClient, StartError, device};

/// An authority, and a relay under it that goes by `name`.
async fn tls_relay(place: &Place, name: &str) -> (Running, PathBuf) {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let write = |name: &str, text: String| {
        let path = place.path(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca = write("ca.pem", ca.pem());
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        data: place.path("relay"),
        tls_cert: Some(write("cert.pem", cert.pem())),
        tls_key: Some(write("key.pem", key.serialize_pem())),
        ..Settings::default()
    };
    (Relay::start(settings).await.unwrap(), ca)
}

async fn agent(url: &str, dir: &Path, ca: Option<PathBuf>) -> (RelayClient, skald_relay_client::Events) {
    let options = AgentOptions { timings: timings(), extra_ca: ca, ..AgentOptions::new(url, dir) };
    RelayClient::start_agent(options).await.unwrap()
}

#[tokio::test]
async fn messages_and_pipes_pass_over_tls() {
    let place = Place::new();
    let (relay, ca) = tls_relay(&place, "127.0.0.1").await;
    let url = relay.url();
    assert!(url.starts_with("wss://"));
    let (agent, mut agent_events) = agent(&url, &place.path("agent"), Some(ca.clone())).await;
    let window = agent.open_pairing(std::time::Duration::ZERO).await.unwrap();
    let mut options = device_options(&place.path("device"));
    options.extra_ca = Some(ca);
    device::pair(&options, &window.qr).await.unwrap();
    next(&mut agent_events).await.ack().await.unwrap();
    let (phone, mut phone_events) = device::start(options).await.unwrap();
    let key = phone.identity().ed25519_pub;
    agent.authorize(&key).await.unwrap();
    reaches(&phone, LinkState::Connected).await;
    agent.send(&key, "hello", STORED).await.unwrap();
    assert_eq!(next_message(&mut phone_events).await.1, "hello");

    sees(&phone, &phone.agent().unwrap()).await;
    let mut incoming = agent.incoming_pipes();
    let responder = async { agent.accept_pipe(&incoming.recv().await.unwrap()).await.unwrap() };
    let owner = phone.agent().unwrap();
    let initiator = async { phone.open_pipe(&owner, "test", BTreeMap::new()).await.unwrap() };
    let (mut a, b) = soon("a pipe", async { tokio::join!(initiator, responder) }).await;
    let data = blob(1 << 20, 1);
    a.send(&data).await.unwrap();
    let (_send, mut recv) = b.split();
    let mut got = Vec::new();
    while got.len() < data.len() {
        got.extend(soon("a piece", recv.recv()).await.unwrap().unwrap());
    }
    assert!(got == data);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_not_for_this_name_is_said_to_be_so() {
    let place = Place::new();
    let (relay, _ca) = tls_relay(&place, "127.0.0.1").await;
    let (stranger, _events) = agent(&relay.url(), &place.path("a"), None).await;
    reaches(&stranger, LinkState::Waiting).await;
    let problem = stranger.status().borrow().last_error.clone();
    assert!(matches!(problem, Some(LinkProblem::CertificateUntrusted(_))), "{problem:?}");

    let place = Place::new();
    let (relay, ca) = tls_relay(&place, "relay.example").await;
    let (misled, _events) = agent(&relay.url(), &place.path("b"), Some(ca)).await;
    reaches(&misled, LinkState::Waiting).await;
    let problem = misled.status().borrow().last_error.clone();
    assert!(matches!(problem, Some(LinkProblem::CertificateName(_))), "{problem:?}");
}

#[tokio::test]
async fn an_authority_file_that_cannot_be_used_stops_the_start() {
    let place = Place::new();
    std::fs::write(place.path("empty.pem"), "nothing here").unwrap();
    for name in ["empty.pem", "missing.pem"] {
        let options = AgentOptions {
            extra_ca: Some(place.path(name)),
            ..AgentOptions::new("wss://127.0.0.1:9", place.path("agent"))
        };
        let error = RelayClient::start_agent(options).await.err().expect("it does not start");
        assert!(matches!(error, StartError::Ca { .. }), "{error}");
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_a_state_and_not_an_error() {
    let place = Place::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (lonely, _events) = agent(&format!("ws://{free}"), &place.path("agent"), None).await;
    reaches(&lonely, LinkState::Waiting).await;
    let problem = lonely.status().borrow().last_error.clone();
    assert!(matches!(problem, Some(LinkProblem::Unreachable(_))), "{problem:?}");
    let refused =
        soon("a refusal", lonely.open_pairing(std::time::Duration::ZERO)).await.unwrap_err().to_string();
    assert!(refused.contains("cannot be reached"), "{refused}");
}
