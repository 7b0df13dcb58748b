//! Devices that pair again, and relays that are not ours.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn pairing_again_with_the_same_host_keeps_the_device_working() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    phone.pair(&host).await;
    host.set(|s| s.approvals.push(approval("again-1", "a"))).await;
    phone.ok(&["approve", "again-1"]).await;
    assert_eq!(host.client.devices().await.expect("devices").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_was_removed_and_pairs_again_introduces_itself_again() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    host.until("hello", |s| s.of_kind("hello").first().cloned()).await;
    let device = host.client.devices().await.expect("devices")[0].key;
    host.client.revoke(&device).await.expect("removed");
    phone.pair(&host).await;
    host.until("another hello", |s| s.of_kind("hello").get(1).cloned()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pairing_that_fails_leaves_the_device_as_it_was() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    let authority = dir.path().join("phone/ca.pem");
    std::fs::write(&authority, support::CERTIFICATE).expect("written");
    let window = host.client.open_pairing(std::time::Duration::from_secs(60)).await.expect("a window");
    let mut code: Value = serde_json::from_str(&window.qr.to_json()).expect("json");
    code["relay_url"] = "ws://127.0.0.1:1/v1/ws".into();
    phone.refused(&["pair", "--payload", &code.to_string()], 4).await;
    assert_eq!(std::fs::read_to_string(&authority).expect("still there"), support::CERTIFICATE);
    phone.ok(&["inbox"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_05_a_relay_that_marks_nothing_as_live_still_serves() {
    let dir = tempfile::tempdir().expect("folder");
    let relay = Relay::start(dir.path()).await;
    let host = Host::start(&relay, dir.path()).await;
    let phone = Phone::new(dir.path());
    phone.pair_at(&host, Some(unmarked::before(relay.address()).await)).await;
    host.set(|s| s.approvals.push(approval("unmarked-1", "make"))).await;
    assert!(phone.ok(&["inbox"]).await.contains("make"));
    phone.ok(&["approve", "unmarked-1"]).await;
    assert_eq!(host.state().of_kind("approval_response").len(), 1);
}
