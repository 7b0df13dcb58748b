//! Small things for the tests of this crate.

use serde_json::json;
use skald_core_api::{Approval, Clarification, Elicitation, InboxSnapshot, RequestId};
use uuid::Uuid;

/// The id of number `n`.
pub(crate) fn id(n: u128) -> RequestId {
    RequestId(Uuid::from_u128(n))
}

/// An approval.
pub(crate) fn ask(n: u128, created_at: i64) -> Approval {
    Approval {
        request_id: id(n),
        tool_name: "execute_cmd".into(),
        agent_label: "Agent".into(),
        summary: format!("Run command {n}"),
        created_at,
        detail: None,
        arguments: None,
        blocks: None,
        session: None,
        expires_at: None,
    }
}

/// An approval whose arguments are `bytes` long and do not compress well.
pub(crate) fn big_ask(n: u128, created_at: i64, bytes: usize) -> Approval {
    let mut noise = skald_testkit::Rng::new(n as u64);
    let text: String =
        noise.bytes(bytes).into_iter().map(|b| char::from(35 + b % 90)).filter(|c| *c != '\\').collect();
    Approval { arguments: Some(json!({"command": text})), ..ask(n, created_at) }
}

/// A clarification.
pub(crate) fn question(n: u128, created_at: i64) -> Clarification {
    Clarification {
        request_id: id(n),
        question: format!("Which one, {n}?"),
        agent_label: "Agent".into(),
        created_at,
        context: None,
        suggested_answers: vec![],
        expires_at: None,
    }
}

/// An elicitation.
pub(crate) fn secret(n: u128, created_at: i64) -> Elicitation {
    Elicitation {
        request_id: id(n),
        server_name: "vault".into(),
        message: "Passphrase?".into(),
        field_name: Some("passphrase".into()),
        sensitive: true,
        is_confirmation: false,
        created_at,
        schema: None,
        expires_at: None,
    }
}

/// An Inbox of approvals.
pub(crate) fn inbox(approvals: Vec<Approval>) -> InboxSnapshot {
    InboxSnapshot { revision: 1, approvals, ..InboxSnapshot::default() }
}
