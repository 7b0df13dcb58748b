//! An answer before it is sealed: what a person decided about one item.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skald_e2e::{Identity, decision};
use skald_payloads::{
    ApprovalResponse, ClarificationResponse, Decision, Digest, ElicitationAction, ElicitationResponse,
    Payload, ProofSignature,
};
use skald_relay_common::ids::NamespaceId;

use crate::snapshot::Kind;

/// What a person decided. `Debug` leaves the content out: it may be a secret.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Draft {
    /// Of an approval.
    Approval {
        /// Yes or no.
        approved: bool,
        /// Why, for who asked.
        reason: Option<String>,
        /// Also let similar calls through for so many seconds; 0 is the session.
        bypass_secs: Option<u64>,
    },
    /// Of a question.
    Clarification {
        /// The answer.
        answer: String,
    },
    /// Of a prompt.
    Elicitation {
        /// What was done.
        action: ElicitationAction,
        /// The form's content.
        content: Option<Map<String, Value>>,
    },
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Draft({})", self.what())
    }
}

impl Draft {
    /// Which kind of item it answers.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Approval { .. } => Kind::Approval,
            Self::Clarification { .. } => Kind::Clarification,
            Self::Elicitation { .. } => Kind::Elicitation,
        }
    }

    /// What was decided in a word; never a value.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Approval { approved: true, .. } => "approved",
            Self::Approval { approved: false, .. } => "rejected",
            Self::Clarification { .. } => "answered",
            Self::Elicitation { action: ElicitationAction::Accept, .. } => "filled in",
            Self::Elicitation { action: ElicitationAction::Decline, .. } => "declined",
            Self::Elicitation { action: ElicitationAction::Cancel, .. } => "cancelled",
        }
    }

    /// The payload for the host. An approval's decision is signed over the item as it was received.
    pub fn payload(
        &self,
        request_id: &str,
        digest: Option<Digest>,
        identity: &Identity,
        namespace: &NamespaceId,
    ) -> Payload {
        let request_id = request_id.to_owned();
        match self.clone() {
            Self::Approval { approved, reason, bypass_secs } => {
                let sig = digest.map(|d| {
                    let signature = decision::sign(identity, namespace, &request_id, &d.0, approved);
                    ProofSignature(*signature.as_bytes())
                });
                let decision = if approved { Decision::Approved } else { Decision::Rejected };
                Payload::ApprovalResponse(ApprovalResponse {
                    request_id,
                    decision,
                    reason,
                    bypass_secs,
                    digest,
                    sig,
                })
            }
            Self::Clarification { answer } => {
                Payload::ClarificationResponse(ClarificationResponse { request_id, answer })
            }
            Self::Elicitation { action, content } => {
                Payload::ElicitationResponse(ElicitationResponse { request_id, action, content })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Item;
    use skald_e2e::Seed;

    #[test]
    fn a_decision_is_signed_over_the_item_as_received() {
        let identity = Identity::from_seed(&Seed::take(&mut [9; 32]));
        let namespace = identity.namespace_id();
        let raw = serde_json::json!({"request_id": "r", "summary": "s", "unknown": [1]});
        let digest = Item { kind: Kind::Approval, id: "r".into(), raw }.digest();
        let draft = Draft::Approval { approved: true, reason: None, bypass_secs: Some(0) };
        let Payload::ApprovalResponse(sent) = draft.payload("r", digest, &identity, &namespace) else {
            panic!()
        };
        let (Some(d), Some(sig)) = (sent.digest, sent.sig) else { panic!("unsigned") };
        let signature = sig.0.as_slice().try_into().expect("64 bytes");
        let key = identity.public_key();
        assert!(decision::verify(&key, &namespace, "r", &d.0, true, &signature));
        assert!(!decision::verify(&key, &namespace, "r", &d.0, false, &signature));
        assert!(!decision::verify(&key, &namespace, "other", &d.0, true, &signature));
    }

    #[test]
    fn a_prompts_content_is_never_printed() {
        let content = Map::from_iter([("password".to_owned(), Value::from("hunter2"))]);
        let draft = Draft::Elicitation { action: ElicitationAction::Accept, content: Some(content) };
        assert_eq!(format!("{draft:?}"), "Draft(filled in)");
    }
}
