//! The known answers of proto/vectors, to the byte.

use serde_json::Value;
use skald_payloads::{
    Approval, ApprovalResponse, Decision, Envelope, InboxUpdate, Payload, canonical, item_digest,
};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../proto/vectors/vectors.json")).unwrap()
}

fn text<'a>(vectors: &'a Value, pointer: &str) -> &'a str {
    vectors.pointer(pointer).and_then(Value::as_str).unwrap()
}

#[test]
fn the_devices_response_is_built_to_the_byte() {
    let v = vectors();
    let wire = text(&v, "/inputs/plaintext_c2a");
    let built = Envelope::new(
        "00000000-0000-4000-8000-000000000002".parse().unwrap(),
        1_750_000_000_000,
        Payload::ApprovalResponse(ApprovalResponse {
            request_id: "appr_test_1".into(),
            decision: Decision::Approved,
            reason: None,
            bypass_secs: None,
            digest: None,
            sig: None,
        }),
    );
    assert_eq!(String::from_utf8(built.encode()).unwrap(), wire);
    assert_eq!(Envelope::parse(wire.as_bytes(), 1_750_000_000_001).unwrap(), built);
}

#[test]
fn the_agents_snapshot_of_older_agents_is_read() {
    let v = vectors();
    let read = Envelope::parse(text(&v, "/inputs/plaintext_a2c").as_bytes(), 1_750_000_000_000).unwrap();
    let approval = Approval {
        request_id: "appr_test_1".into(),
        tool_name: "send_email".into(),
        agent_label: "Skald".into(),
        summary: "Test".into(),
        created_at: 1_750_000_000_000,
        detail: None,
        arguments: None,
        blocks: None,
        expires_at: None,
        digest: None,
        received: Default::default(),
    };
    let expected = InboxUpdate { badge: 1, approvals: vec![approval], ..InboxUpdate::default() };
    assert_eq!(read.payload, Payload::InboxUpdate(expected));
}

#[test]
fn a_decisions_item_has_the_canonical_form_and_digest_of_the_vectors() {
    let v = vectors();
    let item = &v["decision"]["item"];
    assert_eq!(canonical(item).unwrap(), text(&v, "/decision/canonical").as_bytes());
    assert_eq!(item_digest(item).unwrap().to_string(), text(&v, "/decision/digest"));
    // Read as an approval and written again, it is still the same item.
    let approval: Approval = serde_json::from_value(item.clone()).unwrap();
    assert_eq!(approval.shown_digest().unwrap().to_string(), text(&v, "/decision/digest"));
    let built = Approval { received: Default::default(), ..approval }.with_digest();
    assert_eq!(built.digest.as_deref(), Some(text(&v, "/decision/digest")));
    assert_eq!(
        item_digest(&serde_json::to_value(&built).unwrap()).unwrap().to_string(),
        built.digest.unwrap()
    );
}
