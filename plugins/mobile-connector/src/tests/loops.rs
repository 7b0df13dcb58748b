//! The sending loop.

use skald_payloads::{InboxUpdate, Payload};

use super::*;
use crate::fakes::peer;
use crate::relay::How;
use crate::test::{ask, id, secret};

fn at_once() -> Settings {
    Settings { notify_delay_secs: 0, ..Settings::default() }
}

async fn update(sent: &mut Sent) -> (DeviceKey, How, InboxUpdate) {
    match sent.recv().await.unwrap() {
        (to, how, Payload::InboxUpdate(update)) => (to, how, update),
        (_, _, other) => panic!("{other:?}"),
    }
}

const STORED: How = How::Stored(Some("inbox"));

#[tokio::test]
async fn a_question_goes_to_admitted_devices_and_its_end_too() {
    let mut bench = Bench::new(vec![peer(A, true), peer(B, false)], at_once()).await;
    let running = bench.run();
    bench.inbox.change(|s| s.approvals.push(ask(1, 0)));
    let (to, how, shown) = update(&mut bench.sent).await;
    assert_eq!((to, how, shown.badge), (A, STORED, 1));
    bench.inbox.change(|s| s.approvals.clear());
    assert_eq!(update(&mut bench.sent).await.2, InboxUpdate::default());
    bench.stop.cancel();
    running.await.unwrap();
    assert!(bench.sent.try_recv().is_err(), "the device that waits for admission was told nothing");
}

#[tokio::test]
async fn a_device_that_is_admitted_is_told_and_one_that_is_revoked_is_not() {
    let mut bench = Bench::new(vec![peer(A, true), peer(B, false)], at_once()).await;
    bench.run();
    bench.inbox.change(|s| s.elicitations.push(secret(1, 0)));
    assert_eq!(update(&mut bench.sent).await.0, A);
    assert!(bench.connector.authorize(B).await.unwrap());
    assert_eq!(update(&mut bench.sent).await.0, B);
    assert!(bench.connector.revoke(A).await.unwrap());
    bench.inbox.change(|s| s.elicitations.clear());
    let (to, _, shown) = update(&mut bench.sent).await;
    assert_eq!((to, shown.badge), (B, 0));
    bench.inbox.change(|s| s.approvals.push(ask(2, 0)));
    assert_eq!(update(&mut bench.sent).await.0, B);
    bench.stop.cancel();
}

#[tokio::test]
async fn a_request_is_answered_live_with_the_true_state() {
    let mut bench = Bench::new(vec![peer(A, true)], Settings::default()).await;
    bench.run();
    bench.inbox.change(|s| s.approvals.push(ask(1, PluginStatus::now_ms())));
    bench.connector.poke(Poke::Request(A)).await;
    let (to, how, shown) = update(&mut bench.sent).await;
    assert_eq!((to, how), (A, How::Live));
    assert_eq!(shown.approvals[0].request_id, id(1).to_string());
    bench.stop.cancel();
}

#[tokio::test]
async fn what_was_told_is_kept_for_the_next_start() {
    let mut bench = Bench::new(vec![peer(A, true)], at_once()).await;
    let running = bench.run();
    bench.inbox.change(|s| s.approvals.push(ask(1, 0)));
    update(&mut bench.sent).await;
    // The receipt follows the end of the send, which is when what was told is kept.
    bench.connector.poke(Poke::Request(A)).await;
    update(&mut bench.sent).await;
    bench.stop.cancel();
    running.await.unwrap();
    assert_eq!(bench.connector.store.memory(A, 0).await.unwrap().told, Some([id(1)].into()));
}

#[tokio::test]
async fn notifications_go_once_to_each_device() {
    let mut bench = Bench::new(vec![peer(A, true), peer(B, true)], at_once()).await;
    bench.inbox.notify("before anyone was admitted");
    let running = bench.run();
    // A device met for the first time is told what comes from now on.
    for title in ["one", "two"] {
        bench.connector.poke(Poke::Request(A)).await;
        while !matches!(bench.sent.recv().await.unwrap(), (A, How::Live, _)) {}
        bench.inbox.notify(title);
        let mut told = Vec::new();
        for _ in 0..2 {
            let (to, how, Payload::Notification(n)) = bench.sent.recv().await.unwrap() else { panic!() };
            assert_eq!((how, n.title.as_str()), (How::Stored(None), title));
            told.push(to);
        }
        told.sort();
        assert_eq!(told, [A, B]);
    }
    bench.stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn fault_07_a_list_that_cannot_be_read_is_not_an_empty_list() {
    let mut bench = Bench::new(vec![peer(A, true)], at_once()).await;
    bench.run();
    bench.inbox.change(|s| s.approvals.push(ask(1, 0)));
    update(&mut bench.sent).await;
    *bench.relay.refuse.lock().unwrap() = Some("the store failed".into());
    bench.connector.poke(Poke::Devices).await;
    bench.status.wait_for(|s| s.state == PluginState::Degraded).await.unwrap();
    *bench.relay.refuse.lock().unwrap() = None;
    bench.status.wait_for(|s| s.state == PluginState::Running).await.unwrap();
    bench.inbox.change(|s| s.approvals.clear());
    assert_eq!(update(&mut bench.sent).await.2.badge, 0);
    bench.stop.cancel();
}

#[tokio::test]
async fn an_inbox_that_cannot_be_read_is_said_and_read_again() {
    let mut bench = Bench::new(vec![peer(A, true)], at_once()).await;
    *bench.inbox.broken.lock().unwrap() = true;
    bench.run();
    bench.inbox.change(|s| s.approvals.push(ask(1, 0)));
    bench.connector.poke(Poke::Request(A)).await;
    let status = bench.status.wait_for(|s| s.state == PluginState::Degraded).await.unwrap().clone();
    assert!(status.message.unwrap().contains("disk full"));
    *bench.inbox.broken.lock().unwrap() = false;
    let (_, _, shown) = update(&mut bench.sent).await;
    assert_eq!(shown.badge, 1, "nobody was shown an empty Inbox meanwhile");
    bench.stop.cancel();
}
