//! Elicitations: forms, masks and content that is never kept.

mod common;

use std::time::Duration;

use common::*;
use serde_json::json;
use skald_core_api::*;
use skald_host::*;

const SECS: Duration = Duration::from_secs(1);

#[tokio::test]
async fn fault_22_secrets_are_masked_and_every_field_is_asked_for() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    inbox.create_elicitation(&Actor::Owner, password()).await.unwrap();
    let schema = json!({"type": "object", "required": ["user", "api_key"], "properties": {
        "user": {"type": "string"}, "api_key": {"type": "string"}}});
    let form = NewElicitation { field_name: None, schema: Some(schema.clone()), ..password() };
    let id = inbox.create_elicitation(&Actor::Owner, form).await.unwrap().request_id();
    let shown = inbox.snapshot().await.unwrap().elicitations;
    assert!(shown[0].sensitive && shown[1].sensitive);
    assert_eq!((shown[1].field_name.as_ref(), shown[1].schema.as_ref()), (None, Some(&schema)));
    let half = inbox.answer(id, accept(json!({"user": "u"})), &device("p")).await.unwrap_err();
    assert_eq!(half.to_string(), "`api_key` is missing.");
    let whole = accept(json!({"user": "u", "api_key": "k", "more": "dropped"}));
    assert_eq!(inbox.answer(id, whole, &device("p")).await.unwrap(), AnswerOutcome::Resolved);
    let status = inbox.status(id, &Principal::Owner).await.unwrap();
    assert_eq!(status.content.unwrap().expose(), &json!({"user": "u", "api_key": "k"}));
}

#[tokio::test]
async fn a_one_field_form_names_its_field_for_devices_that_know_no_forms() {
    let f = Fixture::new().await;
    let schema = json!({"type": "object", "required": ["port"],
        "properties": {"port": {"type": "integer", "minimum": 1}}});
    let form = NewElicitation { field_name: None, schema: Some(schema), ..password() };
    let id = f.host.inbox().create_elicitation(&Actor::Owner, form).await.unwrap().request_id();
    let shown = f.host.inbox().snapshot().await.unwrap().elicitations.remove(0);
    assert_eq!((shown.field_name.as_deref(), shown.sensitive), (Some("port"), false));
    for wrong in [json!({"port": "geheim"}), json!({"port": 0}), json!({}), json!("geheim")] {
        let e = f.host.inbox().answer(id, accept(wrong), &Actor::Owner).await.unwrap_err().to_string();
        assert!(!e.contains("geheim"), "{e}");
    }
    let right = f.host.inbox().answer(id, accept(json!({"port": 5432})), &Actor::Owner).await.unwrap();
    assert_eq!(right, AnswerOutcome::Resolved);
}

#[tokio::test]
async fn content_is_given_once_to_the_one_who_asked() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let id = inbox.create_elicitation(&token("s").actor(), password()).await.unwrap().request_id();
    inbox.answer(id, accept(json!({"password": "hunter2-canary"})), &device("p")).await.unwrap();
    for other in [token("t"), Principal::Owner] {
        let status = inbox.status(id, &other).await.unwrap();
        assert!(status.content.is_none() && !status.content_gone);
        assert!(!serde_json::to_string(&status).unwrap().contains("hunter2-canary"));
    }
    let status = inbox.status(id, &token("s")).await.unwrap();
    let wire = serde_json::to_value(&status).unwrap();
    assert_eq!(wire["outcome"], json!({"action": "accept", "content": {"password": "hunter2-canary"}}));
    assert!(!format!("{status:?}").contains("hunter2-canary"));
    let again = inbox.status(id, &token("s")).await.unwrap();
    let wire = serde_json::to_value(&again).unwrap();
    assert_eq!(wire["outcome"], json!({"action": "accept", "content_gone": true}));
    let history = serde_json::to_string(&inbox.history(None, 10).await.unwrap()).unwrap();
    assert!(!history.contains("hunter2-canary"));
    assert!(!on_disk(f.dir.path(), "hunter2-canary"));
    f.host.shutdown().await;
    assert!(!on_disk(f.dir.path(), "hunter2-canary"));
}

#[tokio::test]
async fn content_nobody_fetched_is_gone_after_two_minutes_or_a_restart() {
    let f = Fixture::new().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id =
            f.host.inbox().create_elicitation(&token("s").actor(), password()).await.unwrap().request_id();
        f.host.inbox().answer(id, accept(json!({"password": "x"})), &Actor::Owner).await.unwrap();
        ids.push(id);
        if ids.len() == 1 {
            f.clock.advance(120 * SECS);
            // The content goes in a task of its own: ask until it went.
            soon(async {
                loop {
                    let status = f.host.inbox().status(ids[0], &token("other")).await.unwrap();
                    assert!(status.content.is_none());
                    if f.host.inbox().held() == 0 {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
    }
    let f = f.restart().await;
    for id in ids {
        let status = f.host.inbox().status(id, &token("s")).await.unwrap();
        assert!(status.content.is_none() && status.content_gone);
        assert_eq!(status.outcome, Some(Outcome::Elicitation { action: ElicitationAction::Accept }));
    }
}

#[tokio::test]
async fn a_confirmation_needs_no_content_and_a_refusal_brings_none() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let new = || NewElicitation { field_name: None, is_confirmation: Some(true), ..password() };
    for (action, content) in [
        (ElicitationAction::Accept, None),
        (ElicitationAction::Accept, Some(json!({"confirmed": true}))),
        (ElicitationAction::Decline, None),
        (ElicitationAction::Cancel, Some(json!({"x": 1}))),
    ] {
        let id = inbox.create_elicitation(&Actor::Owner, new()).await.unwrap().request_id();
        let outcome = inbox.answer(id, Answer::Elicitation { action, content }, &Actor::Owner).await.unwrap();
        assert_eq!(outcome, AnswerOutcome::Resolved);
        let status = inbox.status(id, &Principal::Owner).await.unwrap();
        assert!(status.content.is_none() && !status.content_gone);
        assert_eq!(status.outcome, Some(Outcome::Elicitation { action }));
    }
}
