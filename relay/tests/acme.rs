//! Certificates from an authority, which is played and verifies everything.
#![cfg(unix)]

mod common;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{PATIENCE, start_in};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use skald_relay::{Options, Running};
use skald_testkit::fakes::{AcmeFault, FakeAcme};
use skald_testkit::{Authority, Scratch};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

const DAY: Duration = Duration::from_secs(86_400);

struct World {
    scratch: Scratch,
    authority: Authority,
    acme: FakeAcme,
}

impl World {
    async fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        let authority = Authority::open(scratch.join("ca")).unwrap();
        let acme = FakeAcme::start(&authority).await.unwrap();
        Self { scratch, authority, acme }
    }

    fn data(&self) -> std::path::PathBuf {
        self.scratch.join("data")
    }

    async fn relay(&self, domains: &[&str]) -> Running {
        let relay = start_in(
            &self.data(),
            |settings| {
                settings.insecure = false;
                settings.acme.domains = domains.iter().map(ToString::to_string).collect();
                settings.acme.contact = vec!["mailto:operator@relay.test".to_owned()];
                settings.acme.directory = self.acme.directory();
                settings.acme.root_ca = Some(self.authority.certificate());
            },
            Options::default(),
        )
        .await;
        assert!(relay.url().starts_with("wss://"));
        relay
    }

    async fn connect(&self, to: SocketAddr, name: &str, protocol: Option<&str>) -> std::io::Result<()> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.acme.root().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocol.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(to).await?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map(drop)
    }
}

async fn reaches(mut count: watch::Receiver<u64>, wanted: u64) {
    tokio::time::timeout(PATIENCE, count.wait_for(|&count| count >= wanted)).await.unwrap().unwrap();
}

async fn certified(relay: &Running, times: u64) {
    reaches(relay.certificates().unwrap(), times).await;
}

fn modes(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777).collect()
}

#[tokio::test]
async fn a_relay_gets_its_certificate_and_a_restart_serves_the_kept_one_at_once() {
    let world = World::new().await;
    let relay = world.relay(&["relay.test", "Other.test"]).await;
    // The authority cannot reach it yet: it starts all the same, and refuses who is no authority.
    assert!(world.connect(relay.local_addr(), "relay.test", None).await.is_err());
    reaches(world.acme.refused(), 1).await;
    world.acme.reach(relay.local_addr());
    relay.reload();
    certified(&relay, 1).await;
    for name in ["relay.test", "other.test"] {
        world.connect(relay.local_addr(), name, Some("http/1.1")).await.unwrap();
    }
    let asked = world.connect(relay.local_addr(), "relay.test", Some("acme-tls/1")).await;
    assert!(asked.is_err(), "nothing is answered that was not asked for");
    relay.shutdown().await;
    assert_eq!(modes(&world.data().join("acme")), [0o600, 0o600]);

    let relay = world.relay(&["relay.test", "other.test"]).await;
    world.connect(relay.local_addr(), "relay.test", None).await.unwrap();
    relay.shutdown().await;
    assert_eq!((*world.acme.issued().borrow(), world.acme.accounts()), (1, 1));
}

#[tokio::test]
async fn a_certificate_near_its_end_is_served_while_another_is_asked_for_with_the_same_account() {
    let world = World::new().await;
    world.acme.issue_for(DAY * 70, DAY * 20);
    let first = world.relay(&["relay.test"]).await;
    world.acme.reach(first.local_addr());
    // Whichever came first, the address or the first try.
    first.reload();
    certified(&first, 1).await;
    world.acme.issue_for(DAY, DAY * 90);
    first.shutdown().await;
    let issued = *world.acme.issued().borrow();

    let relay = world.relay(&["relay.test"]).await;
    world.acme.reach(relay.local_addr());
    relay.reload();
    let mut seen = relay.certificates().unwrap();
    assert!(*seen.borrow_and_update() >= 1, "the kept one serves at once");
    reaches(world.acme.issued(), issued + 1).await;
    certified(&relay, 2).await;
    assert_eq!(world.acme.accounts(), 1);
    relay.shutdown().await;
}

#[tokio::test]
async fn another_name_is_asked_for_though_the_kept_certificate_is_young() {
    let world = World::new().await;
    let relay = world.relay(&["relay.test"]).await;
    world.acme.reach(relay.local_addr());
    relay.reload();
    certified(&relay, 1).await;
    relay.shutdown().await;

    let relay = world.relay(&["relay.test", "second.test"]).await;
    world.connect(relay.local_addr(), "relay.test", None).await.unwrap();
    world.acme.reach(relay.local_addr());
    relay.reload();
    certified(&relay, 2).await;
    world.connect(relay.local_addr(), "second.test", None).await.unwrap();
    relay.shutdown().await;
}

#[tokio::test]
async fn what_an_authority_refuses_is_tried_again() {
    for fault in [AcmeFault::RateLimited(3600), AcmeFault::Overloaded, AcmeFault::ChallengeInvalid] {
        let world = World::new().await;
        world.acme.fail(fault);
        let relay = world.relay(&["relay.test"]).await;
        world.acme.reach(relay.local_addr());
        reaches(world.acme.refused(), 1).await;
        assert_eq!(*relay.certificates().unwrap().borrow(), 0, "{fault:?}");
        relay.reload();
        certified(&relay, 1).await;
        world.connect(relay.local_addr(), "relay.test", None).await.unwrap();
        relay.shutdown().await;
    }
}

#[tokio::test]
async fn a_stale_nonce_and_slow_signing_are_no_failures() {
    let world = World::new().await;
    let relay = world.relay(&["relay.test"]).await;
    world.acme.reach(relay.local_addr());
    world.acme.fail(AcmeFault::BadNonce);
    world.acme.fail(AcmeFault::BadNonce);
    world.acme.fail(AcmeFault::SlowToSign);
    relay.reload();
    certified(&relay, 1).await;
    world.connect(relay.local_addr(), "relay.test", None).await.unwrap();
    relay.shutdown().await;
}
