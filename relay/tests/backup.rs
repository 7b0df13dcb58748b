//! Copies of the store, made while the relay runs and put back afterwards.
#![cfg(unix)]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::{Id, Peer, start_in};
use skald_relay::Options;
use skald_relay::backup::{BackupError, backup, restore};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_copy_of_a_running_relay_brings_back_queue_membership_and_identity() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let (agent, phone) = (Id::new(1), Id::new(2));
    let relay = start_in(&data, |_| {}, Options::default()).await;
    let mut home = Peer::home(relay.local_addr(), &agent, &[&phone]).await;
    home.message(&phone, "before", 1, false).await;
    home.settle().await;
    std::fs::create_dir(data.join("acme")).unwrap();
    std::fs::write(data.join("acme/account-1.json"), "an account").unwrap();
    std::fs::write(data.join("vapid.pem"), "a key").unwrap();
    std::fs::write(data.join("notes.txt"), "of the operator").unwrap();
    let contents = backup(&data, &copy).await.unwrap();
    assert_eq!((contents.namespaces, contents.devices, contents.messages), (1, 1, 1));
    assert_eq!(contents.files, ["acme/account-1.json", "vapid.pem"]);
    assert_eq!(mode(&copy), 0o600);
    home.message(&phone, "after", 2, false).await;
    home.settle().await;
    assert!(matches!(backup(&data, &copy).await, Err(BackupError::Exists(_))));

    // Neither over a running relay nor over a database that nobody said could go.
    assert!(restore(&data, &copy, true).await.unwrap_err().to_string().contains("another relay"));
    relay.shutdown().await;
    assert!(matches!(restore(&data, &copy, false).await, Err(BackupError::Occupied(_))));
    std::fs::write(data.join("vapid.pem"), "another key").unwrap();
    assert_eq!(restore(&data, &copy, true).await.unwrap(), contents);
    assert_eq!(std::fs::read_to_string(data.join("vapid.pem")).unwrap(), "a key");
    for file in ["relay.db", "relay.db.replaced", "vapid.pem", "acme/account-1.json"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }

    // In another place, as after the loss of a machine.
    let elsewhere = dir.path().join("elsewhere");
    restore(&elsewhere, &copy, false).await.unwrap();
    assert_eq!(mode(&elsewhere), 0o700);
    for folder in [data, elsewhere] {
        let relay = start_in(&folder, |_| {}, Options::default()).await;
        let mut device = Peer::device(relay.local_addr(), agent.namespace(), &phone).await;
        assert_eq!(device.recv_message().await.ciphertext, "before");
        relay.shutdown().await;
    }
}

#[tokio::test]
async fn what_is_no_good_copy_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    assert!(matches!(backup(&data, &copy).await, Err(BackupError::NoDatabase(_))));
    start_in(&data, |_| {}, Options::default()).await.shutdown().await;
    backup(&data, &copy).await.unwrap();
    let before = std::fs::read(data.join("relay.db")).unwrap();

    let cut = dir.path().join("cut");
    let whole = std::fs::read(&copy).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 8192]).unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "a shopping list that is long enough to be no empty file".repeat(100)).unwrap();
    for wrong in [&cut, &text, &dir.path().join("absent")] {
        let error = restore(&data, wrong, true).await.unwrap_err().to_string();
        assert!(error.contains(wrong.to_str().unwrap()), "{error}");
    }
    assert_eq!(std::fs::read(data.join("relay.db")).unwrap(), before);
    assert!(!data.join("relay.db.restoring").exists() && !data.join("relay.db.replaced").exists());
}
