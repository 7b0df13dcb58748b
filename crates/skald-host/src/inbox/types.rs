//! What is asked of the Inbox and what it tells.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use skald_core_api::{Decision, Outcome, RequestId};

use crate::secret::Content;

/// Bounds of what a source may send. Texts are counted in characters, sizes in bytes.
pub mod limits {
    /// A summary is shown in one line of at most so many characters; a longer one moves whole into the detail.
    pub const SUMMARY_LINE: usize = 120;
    /// Names: tools, agents, servers, sessions, fields.
    pub const NAME: usize = 200;
    /// A question, a message, a reason.
    pub const TEXT: usize = 16 * 1024;
    /// A detail, a context, an answer.
    pub const LONG_TEXT: usize = 64 * 1024;
    /// One item as JSON, all told; also an elicitation's content.
    pub const ITEM_BYTES: usize = 256 * 1024;
    /// Suggested answers of one clarification.
    pub const SUGGESTIONS: usize = 50;
    /// A notification's title.
    pub const TITLE: usize = 200;
    /// The longest wait, in seconds: 30 days. The shortest is one second.
    pub const EXPIRES_IN: u64 = 30 * 24 * 3600;
    /// The longest timed bypass, in seconds: 30 days.
    pub const BYPASS: u64 = 30 * 24 * 3600;
    /// Items that may wait at once; beyond it a source is told to wait itself.
    pub const PENDING: i64 = 1000;
    /// Late answers kept of one item; more change nothing and are not kept.
    pub const LATE_ANSWERS: i64 = 1000;
    /// How long an elicitation's content waits in memory for its source.
    pub const CONTENT_SECS: u64 = 120;
}

/// *May I do this?*, as a source asks it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewApproval {
    /// The tool that wants to run.
    pub tool_name: String,
    /// What it wants to do.
    pub summary: String,
    /// The tool's raw arguments, any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Display blocks: `{"v":1,"summary":…,"blocks":[…]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Value>,
    /// A longer explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Who asks, for people; the source's name where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_label: Option<String>,
    /// The source's session, the scope of "approve for this session".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Seconds until the question lapses; the host's setting where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// The same key from the same source names the same item: asking twice makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// *Which one?*, as a source asks it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClarification {
    /// The question.
    pub question: String,
    /// What one needs to know to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Answers to choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_answers: Option<Vec<String>>,
    /// Who asks, for people; the source's name where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_label: Option<String>,
    /// Seconds until the question lapses; the host's setting where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// The same key from the same source names the same item: asking twice makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// *What is the password?*, as a source asks it. Exactly one of `field_name`, a `schema` of several fields, or
/// `is_confirmation`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewElicitation {
    /// The server that asks.
    pub server_name: String,
    /// What it asks for.
    pub message: String,
    /// The one field asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_name: Option<String>,
    /// Whether the value must be masked. Where it is missing, fields that look like secrets are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<bool>,
    /// Whether yes or no is all that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_confirmation: Option<bool>,
    /// The flat form schema: an object whose properties are text, number, boolean or a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Seconds until the question lapses; the host's setting where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// The same key from the same source names the same item: asking twice makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It waits in the Inbox.
    Pending {
        /// Names the item.
        request_id: RequestId,
        /// When it lapses.
        expires_at: i64,
        /// Whether the idempotency key found it there already (it may have ended since: ask for its status).
        existing: bool,
    },
    /// A rule or bypass decided at once, or the idempotency key found an approval that was decided.
    Decided {
        /// Names the item in history.
        request_id: RequestId,
        /// Yes or no.
        decision: Decision,
        /// Who decided, as in history.
        resolved_by: String,
    },
}

impl Created {
    /// Names the item.
    pub fn request_id(&self) -> RequestId {
        match self {
            Self::Pending { request_id, .. } | Self::Decided { request_id, .. } => *request_id,
        }
    }
}

/// The kinds of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    /// *May I do this?*
    Approval,
    /// *Which one?*
    Clarification,
    /// *What is the password?*
    Elicitation,
}

impl ItemKind {
    /// The word in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Clarification => "clarification",
            Self::Elicitation => "elicitation",
        }
    }
    pub(crate) fn parse(s: &str) -> Option<Self> {
        [Self::Approval, Self::Clarification, Self::Elicitation].into_iter().find(|k| k.as_str() == s)
    }
}

/// Where an item stands. A lapsed question is `Expired`, never rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemState {
    /// It waits.
    Pending,
    /// It was answered.
    Resolved,
    /// Nobody answered in time.
    Expired,
    /// Its source withdrew it.
    Cancelled,
}

impl ItemState {
    /// The word in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
    pub(crate) fn parse(s: &str) -> Option<Self> {
        [Self::Pending, Self::Resolved, Self::Expired, Self::Cancelled].into_iter().find(|k| k.as_str() == s)
    }
}

/// An answer that came after the item had ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateAnswer {
    /// Who answered, as in history.
    pub by: String,
    /// When, in unix milliseconds.
    pub at: i64,
    /// What would have been the outcome; never an elicitation's content.
    pub outcome: Outcome,
}

/// Where a request stands, for one who waits. Serialises as the long poll answers; an elicitation's content is then
/// part of `outcome`, so serialise it for the source alone (the host puts content in only for the source).
#[derive(Debug)]
pub struct RequestStatus {
    /// Names the item.
    pub request_id: RequestId,
    /// Its kind.
    pub kind: ItemKind,
    /// Where it stands.
    pub state: ItemState,
    /// How it was resolved.
    pub outcome: Option<Outcome>,
    /// Who ended it: `web`, `token:NAME`, `device:NAME`, `rule:NAME` or `timeout`.
    pub resolved_by: Option<String>,
    /// Answers that came too late, oldest first.
    pub late_answers: Vec<LateAnswer>,
    /// When it lapses or would have lapsed.
    pub expires_at: i64,
    /// An elicitation's content: present once, for the source alone.
    pub content: Option<Content>,
    /// For the source: there was content, but it was given already, or two minutes or a restart passed. Ask again.
    pub content_gone: bool,
}

impl Serialize for RequestStatus {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        // A borrowed outcome, so that no second copy of the content is made on the way out.
        #[derive(Serialize)]
        struct Told<'a> {
            #[serde(flatten)]
            outcome: &'a Outcome,
            #[serde(skip_serializing_if = "Option::is_none")]
            content: Option<&'a Value>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            content_gone: bool,
        }
        #[derive(Serialize)]
        struct Wire<'a> {
            request_id: RequestId,
            kind: ItemKind,
            state: ItemState,
            #[serde(skip_serializing_if = "Option::is_none")]
            outcome: Option<Told<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            resolved_by: Option<&'a str>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            late_answers: &'a [LateAnswer],
            expires_at: i64,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            content_gone: bool,
        }
        Wire {
            request_id: self.request_id,
            kind: self.kind,
            state: self.state,
            outcome: self.outcome.as_ref().map(|outcome| Told {
                outcome,
                content: self.content.as_ref().map(Content::expose),
                content_gone: self.content_gone,
            }),
            resolved_by: self.resolved_by.as_deref(),
            late_answers: &self.late_answers,
            expires_at: self.expires_at,
            content_gone: self.content_gone,
        }
        .serialize(s)
    }
}

/// One ended item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// Names the item.
    pub request_id: RequestId,
    /// Its kind.
    pub kind: ItemKind,
    /// How it ended (or `pending`, where one item is looked up).
    pub state: ItemState,
    /// When it was asked.
    pub created_at: i64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// Who ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// How it was resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Answers that came too late, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late_answers: Vec<LateAnswer>,
    /// The item as it was shown.
    pub item: Map<String, Value>,
}

/// A page of history, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryPage {
    /// The entries.
    pub items: Vec<HistoryEntry>,
    /// Give it as `before` for the next page; missing on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}
