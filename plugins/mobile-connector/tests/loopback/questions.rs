//! Questions, answers and notifications between host and device.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skald_core_api::{Actor, Inbox, PluginState, Principal};
use skald_host::{ItemState, ManualClock, NewApproval, NewElicitation};
use skald_payloads::{
    ApprovalResponse, Decision, ElicitationAction, ElicitationResponse, Payload, ProofSignature,
};

use crate::home::{Home, now, relay, soon};

fn source() -> Actor {
    Actor::Token { name: "script".into() }
}

fn asker() -> Principal {
    Principal::Token { name: "script".into() }
}

fn command() -> NewApproval {
    NewApproval {
        tool_name: "execute_cmd".into(),
        summary: "Run a command: née ☂".into(),
        arguments: Some(json!({"command": "rm -rf build", "cwd": "/srv", "limit": 1e21})),
        ..NewApproval::default()
    }
}

fn response(request_id: &str, decision: Decision) -> ApprovalResponse {
    ApprovalResponse {
        request_id: request_id.into(),
        decision,
        reason: None,
        bypass_secs: None,
        digest: None,
        sig: None,
    }
}

#[tokio::test]
async fn a_signed_approval_from_a_device_resolves_the_question_and_clears_the_other_device() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let (mut phone, mut tablet) = (home.phone("phone").await, home.phone("tablet").await);
    let id = home.host.inbox().create_approval(&source(), command()).await.unwrap().request_id();
    let (shown, live) = phone.shows(1).await;
    assert!(!live);
    tablet.shows(1).await;
    let item = &shown.approvals[0];
    assert_eq!(item.arguments, command().arguments);
    let digest = item.shown_digest().unwrap();
    let sig = phone.client.sign_decision(&item.request_id, &digest.0, true);
    let answer = ApprovalResponse {
        digest: Some(digest),
        sig: Some(ProofSignature(*sig.as_bytes())),
        ..response(&item.request_id, Decision::Approved)
    };
    phone.send(Payload::ApprovalResponse(answer)).await;
    let status = home.host.inbox().wait(id, &asker(), Duration::from_secs(60)).await.unwrap();
    assert_eq!(status.state, ItemState::Resolved);
    assert!(status.resolved_by.unwrap().starts_with("device:"));
    // fault 23: no ghost card stays anywhere.
    phone.shows(0).await;
    tablet.shows(0).await;
    let kept = home.host.audit().list(None, 100).await.unwrap();
    assert!(kept.iter().any(|e| e.digest.as_deref() == Some(&digest.to_string()) && e.sig.is_some()));
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn fault_23_a_second_answer_from_another_device_is_late_and_changes_nothing() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let (mut phone, mut tablet) = (home.phone("phone").await, home.phone("tablet").await);
    let id = home.host.inbox().create_approval(&source(), command()).await.unwrap().request_id();
    phone.shows(1).await;
    tablet.shows(1).await;
    phone.send(Payload::ApprovalResponse(response(&id.to_string(), Decision::Rejected))).await;
    tablet.shows(0).await;
    tablet.send(Payload::ApprovalResponse(response(&id.to_string(), Decision::Approved))).await;
    // The late one is shown the true state, live.
    let (_, live) = tablet.shows(0).await;
    assert!(live);
    let status = home.host.inbox().status(id, &asker()).await.unwrap();
    assert_eq!(serde_json::to_value(status.outcome).unwrap()["decision"], "rejected");
    assert_eq!(status.late_answers.len(), 1);
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn fault_24_a_question_that_lapsed_is_expired_and_an_answer_after_it_does_not_decide() {
    let relay = relay().await;
    let clock = Arc::new(ManualClock::new(now()));
    let config = json!({"relay_url": relay.url(), "notify_delay_secs": 0});
    let home = Home::timed(config, clock.clone()).await;
    home.reaches(PluginState::Running).await;
    let mut phone = home.phone("phone").await;
    let asked = NewApproval { expires_in: Some(60), ..command() };
    let id = home.host.inbox().create_approval(&source(), asked).await.unwrap().request_id();
    let (shown, _) = phone.shows(1).await;
    assert!(shown.approvals[0].expires_at.is_some());
    clock.advance(Duration::from_secs(61));
    phone.shows(0).await;
    phone.send(Payload::ApprovalResponse(response(&id.to_string(), Decision::Approved))).await;
    assert!(phone.shows(0).await.1, "the late one is shown the true state");
    let status = home.host.inbox().status(id, &asker()).await.unwrap();
    assert_eq!((status.state, status.outcome), (ItemState::Expired, None));
    assert_eq!(status.late_answers.len(), 1);
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn a_decision_about_something_else_is_refused_and_the_device_shown_what_is_pending() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let mut phone = home.phone("phone").await;
    let id = home.host.inbox().create_approval(&source(), command()).await.unwrap().request_id();
    let (shown, _) = phone.shows(1).await;
    let mut other = shown.approvals[0].shown_digest().unwrap();
    other.0[0] ^= 1;
    let answer = ApprovalResponse { digest: Some(other), ..response(&id.to_string(), Decision::Approved) };
    phone.send(Payload::ApprovalResponse(answer)).await;
    let (again, _) = phone.shows(1).await;
    assert_eq!(again.approvals, shown.approvals);
    assert_eq!(home.host.inbox().status(id, &asker()).await.unwrap().state, ItemState::Pending);
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn fault_22_a_form_of_several_fields_travels_whole_and_its_content_reaches_the_source_once() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let mut phone = home.phone("phone").await;
    let schema = json!({"type": "object", "properties": {
        "user": {"type": "string"}, "password": {"type": "string", "format": "password"}}, "required": ["user", "password"]});
    let form = NewElicitation {
        server_name: "vault".into(),
        message: "Sign in".into(),
        sensitive: Some(true),
        schema: Some(schema.clone()),
        ..NewElicitation::default()
    };
    let id = home.host.inbox().create_elicitation(&source(), form).await.unwrap().request_id();
    let (shown, _) = phone.shows(1).await;
    let item = &shown.elicitations[0];
    assert!(item.sensitive);
    assert_eq!(item.schema.as_ref().unwrap()["properties"], schema["properties"]);
    let content = json!({"user": "me", "password": "hunter2"});
    phone
        .send(Payload::ElicitationResponse(ElicitationResponse {
            request_id: id.to_string(),
            action: ElicitationAction::Accept,
            content: content.as_object().cloned(),
        }))
        .await;
    let status = home.host.inbox().wait(id, &asker(), Duration::from_secs(60)).await.unwrap();
    assert_eq!(status.content.unwrap().expose(), &content);
    assert!(home.host.inbox().status(id, &asker()).await.unwrap().content.is_none());
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn a_request_is_answered_live_and_a_question_within_its_delay_reaches_no_phone_unasked() {
    let relay = relay().await;
    let home = Home::configured(json!({"relay_url": relay.url(), "notify_delay_secs": 3600})).await;
    home.reaches(PluginState::Running).await;
    let (mut phone, mut tablet) = (home.phone("phone").await, home.phone("tablet").await);
    let id = home.host.inbox().create_approval(&source(), command()).await.unwrap().request_id();
    phone.is_connected().await;
    phone.send(Payload::InboxRequest).await;
    let (shown, live) = phone.shows(1).await;
    assert!(live);
    assert_eq!(shown.approvals[0].request_id, id.to_string());
    let answer = response(&id.to_string(), Decision::Approved);
    phone.send(Payload::ApprovalResponse(answer)).await;
    assert!(!phone.shows(0).await.1, "what it was shown is taken back");
    // The other device was never told; the first thing it hears is what comes after.
    home.host.inbox().notify(&source(), "after", "").await.unwrap();
    let (Payload::Notification(heard), false) = tablet.next().await else { panic!("told too early") };
    assert_eq!(heard.title, "after");
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn what_was_told_before_a_restart_is_taken_back_after_it() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let mut phone = home.phone("phone").await;
    let id = home.host.inbox().create_approval(&source(), command()).await.unwrap().request_id();
    phone.shows(1).await;
    // Answered while the connector is away.
    let plugins = home.host.plugins();
    plugins.update(plugin_mobile_connector::ID, Some(false), None).await.unwrap();
    let no = skald_core_api::Answer::Approval {
        decision: skald_core_api::Decision::Rejected,
        reason: None,
        bypass_secs: None,
        proof: None,
    };
    home.host.inbox().answer(id, no, &Actor::Owner).await.unwrap();
    let home = home.restarted().await;
    home.host.plugins().update(plugin_mobile_connector::ID, Some(true), None).await.unwrap();
    phone.shows(0).await;
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn notifications_made_while_the_connector_is_away_are_told_once_and_in_order() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let mut phone = home.phone("phone").await;
    phone.is_connected().await;
    home.host.inbox().notify(&source(), "0", "").await.unwrap();
    let mut heard = Vec::new();
    while heard.is_empty() {
        if let (Payload::Notification(n), _) = phone.next().await {
            heard.push(n.title);
        }
    }
    let plugins = home.host.plugins();
    plugins.update(plugin_mobile_connector::ID, Some(false), None).await.unwrap();
    for n in 1..=5 {
        home.host.inbox().notify(&source(), &n.to_string(), "").await.unwrap();
    }
    plugins.update(plugin_mobile_connector::ID, Some(true), None).await.unwrap();
    soon(async {
        while heard.len() < 6 {
            if let (Payload::Notification(n), _) = phone.next().await {
                heard.push(n.title);
            }
        }
    })
    .await;
    assert_eq!(heard, ["0", "1", "2", "3", "4", "5"]);
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn a_question_too_large_for_the_store_is_told_in_words_and_fetched_live() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let mut phone = home.phone("phone").await;
    phone.is_connected().await;
    let mut noise = skald_testkit::Rng::new(9);
    let text: String = noise.bytes(150_000).into_iter().map(|b| char::from(b'0' + b % 75)).collect();
    let large = NewApproval { arguments: Some(json!({"command": text})), ..command() };
    home.host.inbox().create_approval(&source(), large.clone()).await.unwrap();
    let words = loop {
        if let (Payload::Notification(words), false) = phone.next().await {
            break words;
        }
    };
    assert_eq!(words.body, command().summary);
    phone.send(Payload::InboxRequest).await;
    let (shown, live) = phone.shows(1).await;
    assert!(live);
    // fault 25: nothing is cut.
    assert_eq!(shown.approvals[0].arguments, large.arguments);
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn fault_19_many_questions_reach_every_device_past_a_flood_of_news() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let mut phones = Vec::new();
    for name in ["one", "two", "three"] {
        let phone = home.phone(name).await;
        phone.is_connected().await;
        phones.push(phone);
    }
    let inbox = home.host.inbox();
    for n in 0..80 {
        inbox.notify(&Actor::Owner, &format!("news {n}"), "").await.unwrap();
    }
    for n in 0..30 {
        let asked =
            NewApproval { tool_name: "t".into(), summary: format!("s {n}"), ..NewApproval::default() };
        inbox.create_approval(&Actor::Owner, asked).await.unwrap();
    }
    // The news alone would take the pace of more than four minutes.
    for phone in &mut phones {
        let (update, _) = phone.shows(30).await;
        assert_eq!(update.approvals.len(), 30);
    }
    assert_eq!(home.json("GET", "status", json!({})).await["state"], "connected");
    home.stop().await;
    relay.shutdown().await;
}
