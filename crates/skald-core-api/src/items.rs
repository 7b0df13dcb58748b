//! The things in the Inbox and the answers to them. JSON shapes are those of the end-to-end payloads, so that the
//! page, scripts and phones read the same fields.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Names one item for as long as Skald remembers it. UUID v4, a string in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub Uuid);

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for RequestId {
    type Err = uuid::Error;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(Self)
    }
}

/// *May I do this?* Times are unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Names the item.
    pub request_id: RequestId,
    /// The tool that wants to run.
    pub tool_name: String,
    /// Who asked, for people.
    pub agent_label: String,
    /// One line, at most about 120 characters.
    pub summary: String,
    /// When the question was asked.
    pub created_at: i64,
    /// A longer explanation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// The tool's raw arguments, never truncated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arguments: Option<Value>,
    /// Display blocks: `{"v":1,"summary":…,"blocks":[…]}`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blocks: Option<Value>,
    /// The source's session, the scope of "approve for this session".
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// When the question lapses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<i64>,
}

/// *Which one?*
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clarification {
    /// Names the item.
    pub request_id: RequestId,
    /// The question.
    pub question: String,
    /// Who asked, for people.
    pub agent_label: String,
    /// When the question was asked.
    pub created_at: i64,
    /// What one needs to know to answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context: Option<String>,
    /// Answers to choose from; free text is always possible.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub suggested_answers: Vec<String>,
    /// When the question lapses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<i64>,
}

/// *What is the password?* A value is never part of the item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Elicitation {
    /// Names the item.
    pub request_id: RequestId,
    /// The server that asks.
    pub server_name: String,
    /// What it asks for.
    pub message: String,
    /// The one field asked for; `null` for a confirmation or a form with several fields.
    pub field_name: Option<String>,
    /// Whether the value must be masked.
    pub sensitive: bool,
    /// Whether yes or no is all that is asked.
    pub is_confirmation: bool,
    /// When the question was asked.
    pub created_at: i64,
    /// The flat form schema of a prompt with several fields.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schema: Option<Value>,
    /// When the question lapses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<i64>,
}

/// What was decided of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may run.
    Approved,
    /// It may not.
    Rejected,
}

/// What was done with an elicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitationAction {
    /// The content is the answer.
    Accept,
    /// An explicit no.
    Decline,
    /// Dismissed.
    Cancel,
}

/// A device's signature under its decision, already checked by whoever hands it on (spec crypto, Decisions).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionProof {
    /// SHA-256 of what the device showed, lowercase hex.
    pub digest: String,
    /// Ed25519 signature, lowercase hex.
    pub sig: String,
}

/// An answer to one item. `Debug` is written by hand: an elicitation's content may be a secret.
#[derive(Clone, PartialEq)]
pub enum Answer {
    /// To an approval.
    Approval {
        /// Yes or no.
        decision: Decision,
        /// Why, for the source.
        reason: Option<String>,
        /// Also let similar calls through for so many seconds; 0 means for the source's session.
        bypass_secs: Option<u64>,
        /// The device's proof, where it gave one.
        proof: Option<DecisionProof>,
    },
    /// To a clarification.
    Clarification {
        /// What was answered.
        answer: String,
    },
    /// To an elicitation.
    Elicitation {
        /// What was done.
        action: ElicitationAction,
        /// The form's content (an object). Held in memory alone, given once to the source.
        content: Option<Value>,
    },
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Approval { decision, .. } => {
                f.debug_struct("Approval").field("decision", decision).finish_non_exhaustive()
            }
            Self::Clarification { .. } => f.write_str("Clarification { .. }"),
            Self::Elicitation { action, .. } => {
                f.debug_struct("Elicitation").field("action", action).finish_non_exhaustive()
            }
        }
    }
}

/// How an item ended, as told to anyone who may see the Inbox: an elicitation's content is never part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// An approval was decided.
    Approval {
        /// Yes or no.
        decision: Decision,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
    },
    /// A clarification was answered.
    Clarification {
        /// The answer.
        answer: String,
    },
    /// An elicitation was dealt with.
    Elicitation {
        /// What was done.
        action: ElicitationAction,
    },
}
