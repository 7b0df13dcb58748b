//! What a receiver accepts and what it discards, and why.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use skald_payloads::*;
use uuid::Uuid;

const NOW: i64 = 1_750_000_000_000;
const WEEK: i64 = MAX_AGE_MS as i64;

fn parse(value: &Value) -> Result<Envelope, Discard> {
    Envelope::parse(value.to_string().as_bytes(), NOW)
}

fn base(kind: &str) -> Value {
    json!({"v": 1, "kind": kind, "id": "00000000-0000-4000-8000-000000000002", "ts": NOW})
}

fn with(kind: &str, members: Value) -> Value {
    let mut value = base(kind);
    for (name, member) in members.as_object().unwrap() {
        value[name] = member.clone();
    }
    value
}

#[test]
fn checks_are_made_in_the_order_of_the_specification() {
    // Each of these is wrong in everything that would be checked later.
    let nothing = json!({"v": 2, "ts": 0, "kind": 7});
    assert_eq!(parse(&nothing), Err(Discard::Version));
    let old = json!({"v": 1, "ts": 0, "kind": 7});
    assert_eq!(parse(&old), Err(Discard::Age));
    let mut no_id = base("frobnicate");
    no_id.as_object_mut().unwrap().remove("id");
    assert_eq!(parse(&no_id), Err(Discard::Malformed { kind: "frobnicate".into() }));
    assert_eq!(parse(&base("frobnicate")), Err(Discard::UnknownKind { kind: "frobnicate".into() }));
    assert_eq!(Envelope::parse(b"{", NOW), Err(Discard::NotJson));
    assert_eq!(Envelope::parse(b"[1]", NOW), Err(Discard::NotJson));
}

#[test]
fn a_payload_of_exactly_seven_days_still_counts() {
    for (ts, ok) in [(NOW - WEEK, true), (NOW - WEEK - 1, false), (NOW + WEEK, true), (NOW + WEEK + 1, false)]
    {
        let read = parse(&with("logout", json!({"ts": ts})));
        assert_eq!(read.is_ok(), ok, "{ts}");
    }
    for ts in
        [json!(i64::MIN), json!(i64::MAX), json!(u64::MAX), json!(1.5), json!("1750000000000"), json!(null)]
    {
        assert!(parse(&with("logout", json!({"ts": ts}))).is_err(), "{ts}");
    }
}

#[test]
fn unknown_members_are_ignored() {
    let read = parse(&with("ack", json!({"ref_id": "x", "later": {"deep": [1]}}))).unwrap();
    assert_eq!(read.payload, Payload::Ack(Ack { ref_id: "x".into() }));
}

#[test]
fn a_missing_or_wrong_member_discards_with_the_kind_alone() {
    let secret = "hunter2-canary";
    let cases = [
        with("notification", json!({"title": "a"})),
        with("hello", json!({"device_info": {"model": secret}})),
        with("approval_response", json!({"request_id": "a", "decision": secret})),
        with("approval_response", json!({"request_id": "a", "decision": "approved", "bypass_secs": -1})),
        with("approval_response", json!({"request_id": "a", "decision": "approved", "digest": secret})),
        with("clarification_response", json!({"request_id": 7, "answer": secret})),
        with("elicitation_response", json!({"request_id": "a", "action": "accept", "content": secret})),
        with("elicitation_response", json!({"request_id": "a", "action": secret})),
        with("inbox_update", json!({"badge": 0, "approvals": []})),
        with("inbox_update", json!({"badge": -1, "approvals": [], "clarifications": []})),
        with(
            "inbox_update",
            json!({"badge": 1, "approvals": [{"request_id": secret}], "clarifications": []}),
        ),
        with("ack", json!({})),
    ];
    for case in cases {
        let Err(error) = parse(&case) else { panic!("{} was accepted", case["kind"]) };
        assert_eq!(error, Discard::Malformed { kind: case["kind"].as_str().unwrap().into() });
        assert!(!format!("{error} {error:?}").contains(secret));
    }
}

#[test]
fn an_unknown_kind_cannot_forge_a_log_line() {
    let Err(Discard::UnknownKind { kind }) = parse(&base("a\nERROR b\u{1b}[31m")) else { panic!() };
    assert_eq!(kind, "a?ERROR?b??31m");
    let Err(Discard::UnknownKind { kind }) = parse(&base(&"k".repeat(10_000))) else { panic!() };
    assert_eq!(kind.len(), 40);
}

#[test]
fn an_elicitations_content_is_never_printed() {
    let value = with(
        "elicitation_response",
        json!({"request_id": "a", "action": "accept", "content": {"p": "canary"}}),
    );
    let read = parse(&value).unwrap();
    assert!(!format!("{read:?}").contains("canary"));
    let Payload::ElicitationResponse(response) = read.payload else { panic!() };
    assert!(!format!("{response:?}").contains("canary"));
    assert_eq!(response.content.unwrap()["p"], "canary");
}

#[test]
fn the_digest_of_a_received_approval_covers_members_this_version_does_not_know() {
    let item = json!({"request_id": "a", "tool_name": "t", "agent_label": "l", "summary": "s", "created_at": 1,
        "detail": null, "later": {"x": 1}});
    let update = with("inbox_update", json!({"badge": 1, "approvals": [item.clone()], "clarifications": []}));
    let Payload::InboxUpdate(update) = parse(&update).unwrap().payload else { panic!() };
    assert_eq!(update.approvals[0].shown_digest(), Ok(item_digest(&item).unwrap()));
}

#[test]
fn elicitations_say_null_where_no_single_field_is_asked_for() {
    let elicitation = Elicitation {
        request_id: "a".into(),
        server_name: "s".into(),
        message: "m".into(),
        field_name: None,
        sensitive: false,
        is_confirmation: true,
        created_at: 1,
        schema: None,
        mode: None,
        url: None,
    };
    let value = serde_json::to_value(&elicitation).unwrap();
    assert_eq!(
        value,
        json!({"request_id": "a", "server_name": "s", "message": "m", "field_name": null, "sensitive": false,
            "is_confirmation": true, "created_at": 1})
    );
}

#[test]
fn an_empty_inbox_still_names_its_three_arrays() {
    let bytes = Envelope::new(Uuid::nil(), NOW, Payload::InboxUpdate(InboxUpdate::default())).encode();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    for name in ["approvals", "clarifications", "elicitations"] {
        assert_eq!(value[name], json!([]));
    }
    assert_eq!(value["badge"], 0);
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A member that is present is never null: null and absent are one and the same to a reader.
fn present() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(json_value().prop_filter("present", |v| !v.is_null()))
}

prop_compose! {
    fn approval()(texts in prop::array::uniform4(".{0,20}"), created_at: i64, detail in prop::option::of(".{0,9}"),
        arguments in present(), blocks in present(), expires_at: Option<i64>) -> Approval {
        let [request_id, tool_name, agent_label, summary] = texts;
        Approval { request_id, tool_name, agent_label, summary, created_at, detail, arguments, blocks, expires_at,
            digest: None, received: Received::default() }.with_digest()
    }
}

fn payload() -> impl Strategy<Value = Payload> {
    let update = (prop::collection::vec(approval(), 0..3), any::<u64>()).prop_map(|(approvals, badge)| {
        Payload::InboxUpdate(InboxUpdate { badge, approvals, ..InboxUpdate::default() })
    });
    let decision = (
        ".{0,9}",
        any::<bool>(),
        prop::option::of(".{0,9}"),
        any::<Option<u64>>(),
        any::<Option<[u8; 32]>>(),
    )
        .prop_map(|(request_id, yes, reason, bypass_secs, digest)| {
            Payload::ApprovalResponse(ApprovalResponse {
                request_id,
                decision: if yes { Decision::Approved } else { Decision::Rejected },
                reason,
                bypass_secs,
                digest: digest.map(Digest),
                sig: digest.map(|d| ProofSignature([d[0]; 64])),
            })
        });
    let elicited = (".{0,9}", prop::option::of(prop::collection::btree_map(".{0,6}", json_value(), 0..3)))
        .prop_map(|(request_id, content)| {
            Payload::ElicitationResponse(ElicitationResponse {
                request_id,
                action: ElicitationAction::Accept,
                content: content.map(|c| c.into_iter().collect()),
            })
        });
    prop_oneof![
        update,
        decision,
        elicited,
        Just(Payload::InboxRequest),
        Just(Payload::Logout),
        (".{0,9}", ".{0,40}").prop_map(|(title, body)| Payload::Notification(Notification { title, body })),
        ".{0,9}".prop_map(|platform| Payload::Hello(Hello {
            device_info: DeviceInfo { platform, ..DeviceInfo::default() }
        })),
        (".{0,9}", ".{0,9}").prop_map(|(request_id, answer)| {
            Payload::ClarificationResponse(ClarificationResponse { request_id, answer })
        }),
        ".{0,9}".prop_map(|ref_id| Payload::Ack(Ack { ref_id })),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(payload in payload(), id: u128, drift in -WEEK..=WEEK) {
        let envelope = Envelope::new(Uuid::from_u128(id), NOW + drift, payload);
        prop_assert_eq!(Envelope::parse(&envelope.encode(), NOW), Ok(envelope));
    }

    #[test]
    fn the_digest_sent_is_the_digest_the_device_computes(approval in approval()) {
        let wire = serde_json::to_vec(&approval).unwrap();
        let read: Approval = serde_json::from_slice(&wire).unwrap();
        prop_assert_eq!(read.shown_digest().unwrap().to_string(), approval.digest.unwrap());
    }

    #[test]
    fn canonical_text_is_its_own_canonical_text(value in json_value()) {
        let once = canonical(&value).unwrap();
        let read: Value = serde_json::from_slice(&once).unwrap();
        prop_assert_eq!(canonical(&read).unwrap(), once);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Envelope::parse(&bytes, NOW);
    }

    #[test]
    fn no_json_makes_the_reader_panic(kind in 0..10usize, member in "[a-z_]{1,12}", value in json_value()) {
        let kinds = ["inbox_update", "notification", "hello", "inbox_request", "approval_response",
            "clarification_response", "elicitation_response", "logout", "ack", "?"];
        let mut whole = base(kinds[kind]);
        whole[member] = value;
        let _ = parse(&whole);
    }

    #[test]
    fn a_damaged_payload_never_makes_the_reader_panic(payload in payload(), at: prop::sample::Index, byte: u8) {
        let mut bytes = Envelope::new(Uuid::nil(), NOW, payload).encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Envelope::parse(&bytes, NOW);
    }
}
