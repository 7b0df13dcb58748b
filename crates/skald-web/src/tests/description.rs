//! The description says what the code does.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use skald_core_api as api;
use skald_host as host;

use super::{Ask, Home};

async fn document() -> Value {
    let (home, token) = Home::with_token().await;
    home.send(Ask::get("/api/v1/openapi.json").token(&token)).await.expect(200)
}

#[tokio::test]
async fn the_description_is_complete_and_its_references_lead_somewhere() {
    let document = document().await;
    assert_eq!(document["openapi"].as_str().map(|v| v.starts_with("3.1")), Some(true));
    assert_eq!(document["info"]["title"], "Skald");
    for path in [
        "/api/v1/inbox",
        "/api/v1/inbox/approvals",
        "/api/v1/inbox/clarifications",
        "/api/v1/inbox/elicitations",
        "/api/v1/notifications",
        "/api/v1/inbox/requests/{id}",
        "/api/v1/inbox/requests/{id}/answer",
        "/api/v1/inbox/history",
        "/api/v1/events",
        "/api/v1/plugins",
        "/api/v1/plugins/{id}",
        "/api/v1/session",
        "/api/v1/session/links",
        "/api/v1/sessions",
        "/api/v1/tokens",
        "/api/v1/settings",
        "/api/v1/rules/bypasses",
        "/api/v1/openapi.json",
        "/api/plugin/echo/things/{key}",
        "/healthz",
    ] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    let mut references = vec![];
    find_references(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    assert!(document["components"]["securitySchemes"]["token"].is_object());
}

fn find_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(text) if key == "$ref" => found.push(text.to_owned()),
                    _ => find_references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|v| find_references(v, found)),
        _ => {}
    }
}

/// Whether a described shape and a written one have the same fields: `whole` has every field there is, `bare` only
/// those that are always there.
#[track_caller]
fn same(document: &Value, name: &str, whole: &Value, bare: &Value) {
    let schema = &document["components"]["schemas"][name];
    let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&schema["properties"]), keys(whole), "{name}: fields");
    let required: BTreeSet<String> =
        schema["required"].as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect();
    assert_eq!(required, keys(bare), "{name}: required fields");
}

fn write(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[tokio::test]
async fn items_are_described_as_they_are_written() {
    let document = document().await;
    let id = api::RequestId("1b4e28ba-2fa1-41d2-883f-0016d3cca427".parse().unwrap());
    let text = || Some("x".to_owned());
    let mut approval = api::Approval {
        request_id: id,
        tool_name: "t".into(),
        agent_label: "a".into(),
        summary: "s".into(),
        created_at: 1,
        detail: text(),
        arguments: Some(json!({})),
        blocks: Some(json!({})),
        session: text(),
        expires_at: Some(2),
    };
    let whole = write(&approval);
    approval = api::Approval {
        detail: None,
        arguments: None,
        blocks: None,
        session: None,
        expires_at: None,
        ..approval
    };
    same(&document, "Approval", &whole, &write(&approval));

    let mut clarification = api::Clarification {
        request_id: id,
        question: "q".into(),
        agent_label: "a".into(),
        created_at: 1,
        context: text(),
        suggested_answers: vec!["x".into()],
        expires_at: Some(2),
    };
    let whole = write(&clarification);
    clarification =
        api::Clarification { context: None, suggested_answers: vec![], expires_at: None, ..clarification };
    same(&document, "Clarification", &whole, &write(&clarification));

    let mut elicitation = api::Elicitation {
        request_id: id,
        server_name: "s".into(),
        message: "m".into(),
        field_name: text(),
        sensitive: true,
        is_confirmation: false,
        created_at: 1,
        schema: Some(json!({})),
        expires_at: Some(2),
    };
    let whole = write(&elicitation);
    elicitation = api::Elicitation { field_name: None, schema: None, expires_at: None, ..elicitation };
    same(&document, "Elicitation", &whole, &write(&elicitation));
}

#[tokio::test]
async fn questions_are_described_as_they_are_read() {
    let document = document().await;
    let text = || Some("x".to_owned());
    let whole = host::NewApproval {
        tool_name: "t".into(),
        summary: "s".into(),
        arguments: Some(json!({})),
        blocks: Some(json!({})),
        detail: text(),
        agent_label: text(),
        session: text(),
        expires_in: Some(1),
        idempotency_key: text(),
    };
    same(&document, "NewApproval", &write(&whole), &write(&host::NewApproval::default()));
    let whole = host::NewClarification {
        question: "q".into(),
        context: text(),
        suggested_answers: Some(vec![]),
        agent_label: text(),
        expires_in: Some(1),
        idempotency_key: text(),
    };
    same(&document, "NewClarification", &write(&whole), &write(&host::NewClarification::default()));
    let whole = host::NewElicitation {
        server_name: "s".into(),
        message: "m".into(),
        field_name: text(),
        sensitive: Some(true),
        is_confirmation: Some(false),
        schema: Some(json!({})),
        expires_in: Some(1),
        idempotency_key: text(),
    };
    same(&document, "NewElicitation", &write(&whole), &write(&host::NewElicitation::default()));
}

#[tokio::test]
async fn what_became_of_items_is_described_as_it_is_written() {
    let document = document().await;
    let id = api::RequestId("1b4e28ba-2fa1-41d2-883f-0016d3cca427".parse().unwrap());
    let outcome = api::Outcome::Approval { decision: api::Decision::Approved, reason: None };
    let late = host::LateAnswer { by: "web".into(), at: 1, outcome: outcome.clone() };
    same(&document, "LateAnswer", &write(&late), &write(&late));
    let mut status = host::RequestStatus {
        request_id: id,
        kind: host::ItemKind::Approval,
        state: host::ItemState::Resolved,
        outcome: Some(outcome.clone()),
        resolved_by: Some("web".into()),
        late_answers: vec![late.clone()],
        expires_at: 1,
        content: None,
        content_gone: true,
    };
    let whole = write(&status);
    status = host::RequestStatus {
        outcome: None,
        resolved_by: None,
        late_answers: vec![],
        content_gone: false,
        ..status
    };
    same(&document, "RequestStatus", &whole, &write(&status));
    let mut entry = host::HistoryEntry {
        request_id: id,
        kind: host::ItemKind::Approval,
        state: host::ItemState::Resolved,
        created_at: 1,
        ended_at: Some(2),
        resolved_by: Some("web".into()),
        outcome: Some(outcome),
        late_answers: vec![late],
        item: serde_json::Map::new(),
    };
    let whole = write(&entry);
    entry = host::HistoryEntry {
        ended_at: None,
        resolved_by: None,
        outcome: None,
        late_answers: vec![],
        ..entry
    };
    same(&document, "HistoryEntry", &whole, &write(&entry));
    let page = |next| host::HistoryPage { items: vec![], next };
    same(&document, "HistoryPage", &write(&page(Some(1))), &write(&page(None)));
}

#[tokio::test]
async fn everything_else_is_described_as_it_is_written() {
    let document = document().await;
    let bypass = |more: bool| host::Bypass {
        id: 1,
        tool_name: "t".into(),
        agent_label: "a".into(),
        source: "web".into(),
        session: more.then(|| "s".to_owned()),
        created_at: 1,
        expires_at: more.then_some(2),
        created_by: "web".into(),
        uses: 0,
    };
    same(&document, "Bypass", &write(&bypass(true)), &write(&bypass(false)));
    let token = |used| host::ApiToken { name: "n".into(), created_at: 1, last_used: used };
    same(&document, "ApiToken", &write(&token(Some(1))), &write(&token(None)));
    let settings = write(&host::Settings::default());
    same(&document, "Settings", &settings, &settings);
    same(&document, "SettingsUpdate", &settings, &json!({}));
    let entry = |more: bool| host::AuditEntry {
        seq: 1,
        at: 1,
        actor: api::Actor::Owner,
        action: "approved".into(),
        request_id: more.then(|| api::RequestId("1b4e28ba-2fa1-41d2-883f-0016d3cca427".parse().unwrap())),
        subject: more.then(|| "s".to_owned()),
        digest: more.then(|| "d".to_owned()),
        sig: more.then(|| "s".to_owned()),
    };
    same(&document, "AuditEntry", &write(&entry(true)), &write(&entry(false)));
    let status =
        |message: Option<String>| api::PluginStatus { state: api::PluginState::Running, message, since: 1 };
    same(&document, "PluginStatus", &write(&status(Some("m".into()))), &write(&status(None)));
    let plugin = write(&host::PluginInfo {
        id: "p".into(),
        name: "P".into(),
        description: "d".into(),
        enabled: true,
        config: json!({}),
        schema: json!({}),
        status: status(None),
    });
    same(&document, "Plugin", &plugin, &plugin);
}
