//! `skald-relay check`, as an operator runs it.
#![cfg(unix)]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Id, Peer, start_in};
use skald_relay::Options;
use skald_testkit::Authority;
use skald_testkit::fakes::{ApnsFake, system_clock};

/// The exit code, and what was found: kind, subject, sentence.
fn check(folder: &Path, toml: &str) -> Found {
    check_with(folder, toml, &[])
}

type Found = (i32, Vec<(String, String, String)>);

fn check_with(folder: &Path, toml: &str, more: &[&str]) -> Found {
    let config = folder.join("relay.toml");
    std::fs::write(&config, toml).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_skald-relay"))
        .env_clear()
        .args(["check", "--json", "--config"])
        .arg(&config)
        .args(more)
        .current_dir(folder)
        .output()
        .unwrap();
    let body: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let code = output.status.code().unwrap();
    assert_eq!(body["ok"], code == 0);
    let text = |finding: &serde_json::Value, of: &str| finding[of].as_str().unwrap().to_owned();
    let findings = body["findings"].as_array().unwrap().iter();
    (code, findings.map(|f| (text(f, "level"), text(f, "about"), text(f, "text"))).collect())
}

fn certify(folder: &Path, from: (i32, u8, u8), to: (i32, u8, u8)) {
    let mut params = rcgen::CertificateParams::new(["relay.test".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
    params.not_after = rcgen::date_time_ymd(to.0, to.1, to.2);
    let key = rcgen::KeyPair::generate().unwrap();
    std::fs::write(folder.join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    std::fs::set_permissions(folder.join("key.pem"), std::fs::Permissions::from_mode(0o600)).unwrap();
}

const FILES: &str = "data = \"data\"\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n";

#[tokio::test]
async fn a_good_setup_is_fine_before_the_first_start_while_it_runs_and_after() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), (2020, 1, 1), (2999, 1, 1));
    let fine = |when: &str| {
        let (code, findings) = check(dir.path(), FILES);
        assert_eq!(code, 0, "{when}: {findings:?}");
        assert!(findings.iter().any(|(_, about, text)| about == "tls" && text.contains("relay.test")));
        findings
    };
    fine("before");
    assert!(!dir.path().join("data").exists(), "nothing is changed");
    let relay = start_in(&dir.path().join("data"), |_| {}, Options::default()).await;
    let running = fine("running");
    assert!(running.iter().any(|(_, _, text)| text.contains("is whole")), "{running:?}");
    relay.shutdown().await;
    fine("after");
}

#[tokio::test]
async fn every_fault_is_found_and_named_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let found = |toml: &str, about: &str, part: &str| {
        let (code, findings) = check(dir.path(), toml);
        assert_eq!(code, 1, "{toml}: {findings:?}");
        let named =
            findings.iter().any(|(level, of, text)| level == "problem" && of == about && text.contains(part));
        assert!(named, "{toml}: {findings:?}");
        assert!(
            findings.iter().all(|(_, _, text)| text.ends_with('.') && !text.contains('\n')),
            "{findings:?}"
        );
    };
    found("max_pipes = 3", "settings", "max_pipes");
    found("insecure = true\nlisten = \"0.0.0.0:1\"", "settings", "loopback");
    found("", "tls", "every connection would be refused");
    found("trusted_proxies = [\"0.0.0.0/0\"]", "tls", "Everybody is trusted");
    found(FILES, "tls", "cert.pem");
    certify(dir.path(), (2020, 1, 1), (2021, 1, 1));
    found(FILES, "tls", "has ended");
    certify(dir.path(), (2998, 1, 1), (2999, 1, 1));
    found(FILES, "tls", "not valid yet");
    certify(dir.path(), (2020, 1, 1), (2999, 1, 1));
    std::fs::write(dir.path().join("key.pem"), rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    found(FILES, "tls", "cannot be used");
    found("data = \"relay.toml\"\ninsecure = true", "folder", "no folder");

    let data = dir.path().join("data");
    start_in(&data, |_| {}, Options::default()).await.shutdown().await;
    let database = data.join("relay.db");
    let whole = std::fs::read(&database).unwrap();
    let mut damaged = whole.clone();
    damaged[4096..8192].fill(0xAA);
    std::fs::write(&database, damaged).unwrap();
    found("data = \"data\"\ninsecure = true", "database", "restore a backup");
    std::fs::write(&database, "something else entirely ".repeat(500)).unwrap();
    found("data = \"data\"\ninsecure = true", "database", "cannot be read");
}

/// The text of what was found about push, where it is of this kind.
fn about_push((_, findings): &Found, level: &str) -> Vec<String> {
    let push = findings.iter().filter(|(of, about, _)| of == level && about == "push");
    push.map(|(_, _, text)| text.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_keys_are_read_and_a_test_push_tells_the_providers_verdict_without_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open(dir.path().join("ca")).unwrap();
    // Each check brings a provider token of its own, and Apple wants no two within 20 minutes: so time passes there.
    let (later, now) = (Arc::new(AtomicI64::new(-21 * 60)), system_clock());
    let passed = Arc::clone(&later);
    let clock = Arc::new(move || now() + passed.load(Ordering::SeqCst));
    let apple = ApnsFake::start(&authority, clock).await.unwrap();
    std::fs::write(dir.path().join("apns.p8"), apple.key_file()).unwrap();
    std::fs::write(dir.path().join("broken.p8"), "half a key").unwrap();
    let toml = |key: &str| {
        format!(
            "data = \"data\"\ninsecure = true\n[push]\nextra_ca = \"ca/ca.pem\"\n[push.apns]\nkey = \"{key}\"\n\
             key_id = \"ABC123DEFG\"\nteam_id = \"DEF123GHIJ\"\ntopic = \"org.example.skald\"\n\
             base_url = \"{}\"\n[push.fcm]\nservice_account = \"absent.json\"\n",
            apple.url()
        )
    };
    let broken = check(dir.path(), &toml("broken.p8"));
    assert_eq!(about_push(&broken, "problem").len(), 2, "each provider is looked at: {broken:?}");
    let apns_alone = toml("apns.p8").split("[push.fcm]").next().unwrap().to_owned();
    let good = check(dir.path(), &apns_alone);
    assert!(good.0 == 0 && about_push(&good, "fine")[0].contains("Apple"), "{good:?}");

    const TOKEN: &str = "ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12";
    let (agent, phone) = (Id::new(1), Id::new(2));
    let relay = start_in(&dir.path().join("data"), |_| {}, Options::default()).await;
    Peer::home(relay.local_addr(), &agent, &[&phone]).await;
    let device = Peer::try_device(relay.local_addr(), agent.namespace(), &phone, TOKEN).await;
    device.unwrap_or_else(|error| panic!("{error}"));
    let named = format!("{}:{}", agent.namespace().short(), phone.public.short());
    let test = |device: &str| {
        later.fetch_add(21 * 60, Ordering::SeqCst);
        check_with(dir.path(), &apns_alone, &["--test-push", device])
    };

    let taken = test(&named);
    assert!(
        taken.0 == 0 && about_push(&taken, "fine").iter().any(|text| text.contains("has taken")),
        "{taken:?}"
    );
    assert!(apple.taken().await.is_some());
    apple.script([ApnsFake::refusal(403, "InvalidProviderToken")]);
    let refused = test(&named);
    assert!(
        refused.0 == 1 && about_push(&refused, "problem")[0].contains("InvalidProviderToken"),
        "{refused:?}"
    );
    apple.script([ApnsFake::unregistered(1)]);
    let dead = test(&named);
    assert!(about_push(&dead, "problem")[0].contains("dead"), "{dead:?}");
    // What is no device never gets as far as the provider.
    for wrong in ["tea", "00000000:11111111", &format!("{named}:1")] {
        assert_eq!(about_push(&test(wrong), "problem").len(), 1, "{wrong}");
    }
    assert!(!format!("{taken:?}{refused:?}{dead:?}").contains(TOKEN));
    relay.shutdown().await;
}

#[test]
fn usage_errors_are_told_apart_from_problems() {
    let bogus = Command::new(env!("CARGO_BIN_EXE_skald-relay")).args(["check", "--bogus"]).output().unwrap();
    assert_eq!(bogus.status.code(), Some(2));
}
