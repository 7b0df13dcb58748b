//! What becomes of a payload that a device sent.

use serde_json::{Value, json};
use skald_core_api::{Answer, Event};
use skald_payloads::{Digest, item_digest};

use super::*;
use crate::fakes::peer;
use crate::inbound::receive;
use crate::test::{ask, id, question, secret};
use crate::wire;

const NOW: i64 = 1_750_000_000_000;

fn payload(kind: &str, members: Value) -> Vec<u8> {
    let mut value = json!({"v": 1, "kind": kind, "id": "00000000-0000-4000-8000-000000000009", "ts": NOW});
    for (name, member) in members.as_object().unwrap() {
        value[name] = member.clone();
    }
    value.to_string().into_bytes()
}

async fn bench() -> Bench {
    let bench = Bench::new(vec![peer(A, true), peer(B, false)], Settings::default()).await;
    bench.inbox.change(|s| {
        s.approvals.push(ask(1, 0));
        s.clarifications.push(question(2, 0));
        s.elicitations.push(secret(3, 0));
    });
    bench
}

async fn receives(bench: &Bench, from: DeviceKey, kind: &str, members: Value) {
    receive(&bench.connector, from, &payload(kind, members), NOW).await.unwrap();
}

fn answers(bench: &Bench) -> Vec<(u128, Answer, Actor)> {
    let answers = bench.inbox.answers.lock().unwrap();
    answers.iter().map(|(id, answer, by)| (id.0.as_u128(), answer.clone(), by.clone())).collect()
}

#[tokio::test]
async fn answers_of_all_kinds_reach_the_inbox_under_the_devices_name() {
    let mut bench = bench().await;
    bench.connector.store.set_name(A, Some("Kitchen"), 0).await.unwrap();
    receives(
        &bench,
        A,
        "approval_response",
        json!({"request_id": id(1), "decision": "approved", "reason": "fine", "bypass_secs": 900}),
    )
    .await;
    receives(&bench, A, "clarification_response", json!({"request_id": id(2), "answer": "the second"})).await;
    receives(
        &bench,
        A,
        "elicitation_response",
        json!({"request_id": id(3), "action": "accept", "content": {"passphrase": "x"}}),
    )
    .await;
    let by = device(A, "Kitchen");
    let decision = skald_core_api::Decision::Approved;
    assert_eq!(
        answers(&bench),
        [
            (
                1,
                Answer::Approval {
                    decision,
                    reason: Some("fine".into()),
                    bypass_secs: Some(900),
                    proof: None
                },
                by.clone()
            ),
            (2, Answer::Clarification { answer: "the second".into() }, by.clone()),
            (
                3,
                Answer::Elicitation {
                    action: skald_core_api::ElicitationAction::Accept,
                    content: Some(json!({"passphrase": "x"}))
                },
                by
            ),
        ]
    );
    assert_eq!(bench.pokes(), ["Ack", "Ack", "Ack"]);
}

#[tokio::test]
async fn a_rejection_lets_nothing_else_through() {
    let bench = bench().await;
    receives(
        &bench,
        A,
        "approval_response",
        json!({"request_id": id(1), "decision": "rejected", "bypass_secs": 900}),
    )
    .await;
    assert!(matches!(&answers(&bench)[0].1, Answer::Approval { bypass_secs: None, .. }));
}

#[tokio::test]
async fn fault_23_a_second_answer_changes_nothing_and_gets_no_error() {
    let mut bench = bench().await;
    for decision in ["approved", "rejected"] {
        receives(&bench, A, "approval_response", json!({"request_id": id(1), "decision": decision})).await;
    }
    assert_eq!(answers(&bench).len(), 1);
    // The device sees the true state, and is told that its answer arrived.
    assert_eq!(bench.pokes(), ["Ack", "Request", "Ack"]);
}

#[tokio::test]
async fn answers_to_what_does_not_exist_are_harmless() {
    let mut bench = bench().await;
    for request_id in ["appr_test_1", "", &id(99).to_string()] {
        receives(&bench, A, "approval_response", json!({"request_id": request_id, "decision": "approved"}))
            .await;
        receives(&bench, A, "clarification_response", json!({"request_id": request_id, "answer": "a"})).await;
    }
    assert!(answers(&bench).is_empty());
    assert_eq!(bench.pokes(), ["Request", "Ack"].repeat(6));
}

#[tokio::test]
async fn an_answer_of_another_kind_leaves_the_question_standing() {
    let mut bench = bench().await;
    receives(&bench, A, "clarification_response", json!({"request_id": id(1), "answer": "a"})).await;
    assert!(answers(&bench).is_empty());
    assert_eq!(bench.pokes(), ["Refresh", "Ack"]);
}

#[tokio::test]
async fn a_decision_about_what_is_not_pending_is_refused_and_asked_again() {
    let mut bench = bench().await;
    let shown = serde_json::to_value(wire::approval(&ask(1, 0))).unwrap();
    let digest = item_digest(&shown).unwrap();
    // The call behind the question has changed since the device was told.
    bench.inbox.change(|s| s.approvals[0].arguments = Some(json!({"command": "rm -rf /"})));
    receives(
        &bench,
        A,
        "approval_response",
        json!({"request_id": id(1), "decision": "approved", "digest": digest}),
    )
    .await;
    assert!(answers(&bench).is_empty());
    assert_eq!(bench.pokes(), ["Refresh", "Ack"]);
    let shown = serde_json::to_value(wire::approval(&bench.inbox.state.lock().unwrap().approvals[0].clone()))
        .unwrap();
    let digest: Digest = item_digest(&shown).unwrap();
    receives(
        &bench,
        A,
        "approval_response",
        json!({"request_id": id(1), "decision": "approved", "digest": digest}),
    )
    .await;
    assert_eq!(answers(&bench).len(), 1);
}

#[tokio::test]
async fn a_signature_that_does_not_hold_is_no_decision() {
    let bench = bench().await;
    let digest = wire::approval(&ask(1, 0)).digest;
    let members =
        json!({"request_id": id(1), "decision": "approved", "digest": digest, "sig": "00".repeat(64)});
    receives(&bench, A, "approval_response", members).await;
    assert!(answers(&bench).is_empty());
}

#[tokio::test]
async fn hello_names_the_device_until_its_owner_does() {
    let bench = bench().await;
    assert_eq!(bench.connector.device(A).await.unwrap().unwrap().name(), "Device 0a0a0a0a");
    let info = json!({"platform": "cli", "model": "M", "device_name": "née\n ☂ \u{202e}"});
    receives(&bench, A, "hello", json!({"device_info": info})).await;
    assert_eq!(bench.connector.device(A).await.unwrap().unwrap().name(), "née ☂");
    assert_eq!(*bench.pages.0.lock().unwrap(), [Event::Devices]);
    bench.connector.rename(A, Some("Kitchen")).await.unwrap();
    assert_eq!(bench.connector.device(A).await.unwrap().unwrap().name(), "Kitchen");
}

#[tokio::test]
async fn logout_drops_the_device_everywhere_and_may_come_twice() {
    let mut bench = bench().await;
    receives(&bench, A, "hello", json!({"device_info": {"platform": "ios"}})).await;
    receives(&bench, A, "logout", json!({})).await;
    receives(&bench, A, "logout", json!({})).await;
    assert_eq!(*bench.relay.revoked.lock().unwrap(), [A]);
    assert!(bench.connector.store.profiles().await.unwrap().is_empty());
    assert_eq!(bench.pokes(), ["Devices"]);
}

#[tokio::test]
async fn a_device_that_waits_or_is_unknown_is_not_heard() {
    let mut bench = bench().await;
    for from in [B, DeviceKey([7; 32])] {
        receives(&bench, from, "approval_response", json!({"request_id": id(1), "decision": "approved"}))
            .await;
        receives(&bench, from, "inbox_request", json!({})).await;
        receives(&bench, from, "hello", json!({"device_info": {"platform": "ios"}})).await;
    }
    assert!(answers(&bench).is_empty());
    assert!(bench.pokes().is_empty());
    assert!(bench.connector.store.profiles().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_cannot_be_read_is_discarded_and_ends_nothing() {
    let mut bench = bench().await;
    for body in [
        &b""[..],
        b"{",
        b"\xff\xfe",
        b"[]",
        &payload("frobnicate", json!({})),
        &payload("approval_response", json!({})),
    ] {
        receive(&bench.connector, A, body, NOW).await.unwrap();
    }
    receives(&bench, A, "inbox_update", json!({"badge": 0, "approvals": [], "clarifications": []})).await;
    receives(&bench, A, "notification", json!({"title": "a", "body": "b"})).await;
    receives(&bench, A, "ack", json!({"ref_id": "x"})).await;
    assert!(answers(&bench).is_empty());
    assert!(bench.pokes().is_empty());
}

#[tokio::test]
async fn a_payload_of_another_week_is_not_acted_upon() {
    let bench = bench().await;
    let body = payload("approval_response", json!({"request_id": id(1), "decision": "approved"}));
    for now in [NOW + 8 * 86_400_000, NOW - 8 * 86_400_000] {
        receive(&bench.connector, A, &body, now).await.unwrap();
    }
    assert!(answers(&bench).is_empty());
}

#[tokio::test]
async fn fault_14_an_answer_is_not_given_up_when_the_store_fails() {
    let bench = bench().await;
    let body = payload("approval_response", json!({"request_id": id(1), "decision": "approved"}));
    *bench.inbox.broken.lock().unwrap() = true;
    assert!(receive(&bench.connector, A, &body, NOW).await.is_err(), "it is to come again");
    *bench.inbox.broken.lock().unwrap() = false;
    *bench.relay.refuse.lock().unwrap() = Some("the store failed".into());
    assert!(receive(&bench.connector, A, &body, NOW).await.is_err(), "it is to come again");
    *bench.relay.refuse.lock().unwrap() = None;
    receive(&bench.connector, A, &body, NOW).await.unwrap();
    assert_eq!(answers(&bench).len(), 1);
}

#[tokio::test]
async fn the_policy_admits_at_once_only_where_no_confirmation_is_asked_for() {
    for (require, admitted) in [(true, false), (false, true)] {
        let settings = Settings { require_device_confirmation: require, ..Settings::default() };
        let bench = Bench::new(vec![peer(B, false)], settings).await;
        bench.connector.paired(1, B, false).await.unwrap();
        bench.connector.paired(1, B, false).await.unwrap();
        assert_eq!(bench.connector.device(B).await.unwrap().unwrap().peer.admitted, admitted);
    }
}

#[tokio::test]
async fn a_receipt_bears_the_id_in_the_devices_own_case() {
    let mut bench = bench().await;
    let written = "ABCDEF00-0000-4000-8000-00000000000F";
    let body = json!({"v": 1, "kind": "clarification_response", "id": written, "ts": NOW,
        "request_id": id(2), "answer": "yes"});
    receive(&bench.connector, A, body.to_string().as_bytes(), NOW).await.unwrap();
    let poke = bench.mailbox.as_mut().unwrap().try_recv().unwrap();
    assert!(matches!(poke, Poke::Ack { ref_id, .. } if ref_id == written));
}

#[tokio::test]
async fn what_a_device_says_of_itself_is_kept_short() {
    let bench = bench().await;
    let long = "x\n".repeat(500_000);
    let info = json!({"platform": long, "model": long, "os_version": long, "app_version": long,
        "device_name": long});
    receives(&bench, A, "hello", json!({"device_info": info})).await;
    let info = bench.connector.store.profiles().await.unwrap()[&A].info.clone().unwrap();
    assert!(serde_json::to_string(&info).unwrap().len() < 2_000);
}

#[tokio::test]
async fn a_device_that_pairs_with_other_keys_does_not_inherit_a_name() {
    let bench = Bench::new(vec![peer(B, false)], Settings::default()).await;
    bench.connector.store.set_name(B, Some("Anna's phone"), 0).await.unwrap();
    // The same device under the same keys keeps it.
    bench.connector.paired(1, B, true).await.unwrap();
    assert_eq!(bench.connector.device(B).await.unwrap().unwrap().name(), "Anna's phone");
    bench.connector.paired(1, B, false).await.unwrap();
    assert_ne!(bench.connector.device(B).await.unwrap().unwrap().name(), "Anna's phone");
}
