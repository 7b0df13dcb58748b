//! The API's shapes as the OpenAPI document shows them.
//!
//! The types that the host and its plugins share know nothing of OpenAPI. They are described here; a test holds each
//! description against what the real type writes.
#![allow(dead_code)] // Only their derived descriptions are used.

use serde_json::Value;
use utoipa::ToSchema;

/// *May I do this?* Times are unix milliseconds.
#[derive(ToSchema)]
#[schema(as = Approval)]
pub(crate) struct ApprovalDoc {
    /// Names the item.
    request_id: uuid::Uuid,
    /// The tool that wants to run.
    tool_name: String,
    /// Who asked, for people.
    agent_label: String,
    /// One line.
    summary: String,
    /// When the question was asked.
    created_at: i64,
    /// A longer explanation.
    detail: Option<String>,
    /// The tool's raw arguments, never cut off.
    arguments: Option<Value>,
    /// Display blocks: `{"v":1,"summary":…,"blocks":[…]}`.
    blocks: Option<Value>,
    /// The scope of "approve for this session".
    session: Option<String>,
    /// When the question lapses.
    expires_at: Option<i64>,
}

/// *Which one?*
#[derive(ToSchema)]
#[schema(as = Clarification)]
pub(crate) struct ClarificationDoc {
    /// Names the item.
    request_id: uuid::Uuid,
    /// The question.
    question: String,
    /// Who asked, for people.
    agent_label: String,
    /// When the question was asked.
    created_at: i64,
    /// What one needs to know to answer.
    context: Option<String>,
    /// Answers to choose from; free text is always possible.
    #[schema(required = false)]
    suggested_answers: Vec<String>,
    /// When the question lapses.
    expires_at: Option<i64>,
}

/// *What is the password?* A value is never part of the item.
#[derive(ToSchema)]
#[schema(as = Elicitation)]
pub(crate) struct ElicitationDoc {
    /// Names the item.
    request_id: uuid::Uuid,
    /// The server that asks.
    server_name: String,
    /// What it asks for.
    message: String,
    /// The one field asked for; null for a confirmation or a form.
    #[schema(required = true)]
    field_name: Option<String>,
    /// Whether the value must be masked.
    sensitive: bool,
    /// Whether yes or no is all that is asked.
    is_confirmation: bool,
    /// When the question was asked.
    created_at: i64,
    /// The flat form schema of a prompt with several fields.
    schema: Option<Value>,
    /// When the question lapses.
    expires_at: Option<i64>,
}

/// An approval, as a source asks for it.
#[derive(ToSchema)]
#[schema(as = NewApproval)]
pub(crate) struct NewApprovalDoc {
    /// The tool that wants to run.
    tool_name: String,
    /// What it wants to do, in one line.
    summary: String,
    /// The tool's raw arguments, any JSON.
    arguments: Option<Value>,
    /// Display blocks: `{"v":1,"summary":…,"blocks":[…]}`.
    blocks: Option<Value>,
    /// A longer explanation.
    detail: Option<String>,
    /// Who asks, for people; the token's name where it is missing.
    agent_label: Option<String>,
    /// The source's session, the scope of "approve for this session".
    session: Option<String>,
    /// Seconds until the question lapses.
    expires_in: Option<u64>,
    /// The same key from the same token names the same item, so that a request can be sent again.
    idempotency_key: Option<String>,
}

/// A question, as a source asks it.
#[derive(ToSchema)]
#[schema(as = NewClarification)]
pub(crate) struct NewClarificationDoc {
    /// The question.
    question: String,
    /// What one needs to know to answer.
    context: Option<String>,
    /// Answers to choose from.
    suggested_answers: Option<Vec<String>>,
    /// Who asks, for people; the token's name where it is missing.
    agent_label: Option<String>,
    /// Seconds until the question lapses.
    expires_in: Option<u64>,
    /// The same key from the same token names the same item, so that a request can be sent again.
    idempotency_key: Option<String>,
}

/// A request for input. Exactly one of `field_name`, `schema` and `is_confirmation`.
#[derive(ToSchema)]
#[schema(as = NewElicitation)]
pub(crate) struct NewElicitationDoc {
    /// The server that asks.
    server_name: String,
    /// What it asks for.
    message: String,
    /// The one field asked for.
    field_name: Option<String>,
    /// Whether the value must be masked.
    sensitive: Option<bool>,
    /// Whether yes or no is all that is asked.
    is_confirmation: Option<bool>,
    /// The flat form schema: an object whose properties are text, number, boolean or a choice.
    schema: Option<Value>,
    /// Seconds until the question lapses.
    expires_in: Option<u64>,
    /// The same key from the same token names the same item, so that a request can be sent again.
    idempotency_key: Option<String>,
}

/// Where an item stands.
#[derive(ToSchema)]
#[schema(as = ItemState, rename_all = "lowercase")]
pub(crate) enum ItemStateDoc {
    /// It waits.
    Pending,
    /// It was answered.
    Resolved,
    /// Nobody answered in time; nobody said no.
    Expired,
    /// Its source withdrew it.
    Cancelled,
}

/// The kinds of items.
#[derive(ToSchema)]
#[schema(as = ItemKind, rename_all = "lowercase")]
pub(crate) enum ItemKindDoc {
    Approval,
    Clarification,
    Elicitation,
}

/// `{decision, reason?}`, `{answer}` or `{action}`; to its source alone and once, an elicitation's `content` too.
#[derive(ToSchema)]
#[schema(as = Outcome)]
pub(crate) struct OutcomeDoc {
    /// Of an approval: `approved` or `rejected`.
    decision: Option<String>,
    /// Why.
    reason: Option<String>,
    /// Of a clarification.
    answer: Option<String>,
    /// Of an elicitation: `accept`, `decline` or `cancel`.
    action: Option<String>,
    /// Of an elicitation, given once to the token that asked.
    content: Option<Value>,
    /// There was content, but it was given already or dropped: ask again.
    content_gone: Option<bool>,
}

/// An answer that came after the item had ended.
#[derive(ToSchema)]
#[schema(as = LateAnswer)]
pub(crate) struct LateAnswerDoc {
    /// Who answered.
    by: String,
    /// When, in unix milliseconds.
    at: i64,
    /// What would have been the outcome.
    outcome: OutcomeDoc,
}

/// Where a request stands.
#[derive(ToSchema)]
#[schema(as = RequestStatus)]
pub(crate) struct RequestStatusDoc {
    /// Names the item.
    request_id: uuid::Uuid,
    /// Its kind.
    kind: ItemKindDoc,
    /// Where it stands.
    state: ItemStateDoc,
    /// How it was resolved.
    outcome: Option<OutcomeDoc>,
    /// Who ended it: `web`, `token:NAME`, `device:NAME`, `rule:NAME` or `timeout`.
    resolved_by: Option<String>,
    /// Answers that came too late, oldest first.
    #[schema(required = false)]
    late_answers: Vec<LateAnswerDoc>,
    /// When it lapses or would have lapsed.
    expires_at: i64,
    /// There was content, but it was given already or dropped: ask again.
    #[schema(required = false)]
    content_gone: bool,
}

/// One item with what became of it.
#[derive(ToSchema)]
#[schema(as = HistoryEntry)]
pub(crate) struct HistoryEntryDoc {
    /// Names the item.
    request_id: uuid::Uuid,
    /// Its kind.
    kind: ItemKindDoc,
    /// How it ended.
    state: ItemStateDoc,
    /// When it was asked.
    created_at: i64,
    /// When it ended.
    ended_at: Option<i64>,
    /// Who ended it.
    resolved_by: Option<String>,
    /// How it was resolved.
    outcome: Option<OutcomeDoc>,
    /// Answers that came too late, oldest first.
    #[schema(required = false)]
    late_answers: Vec<LateAnswerDoc>,
    /// The item as it was shown.
    #[schema(value_type = Object)]
    item: Value,
}

/// A page of history, newest first.
#[derive(ToSchema)]
#[schema(as = HistoryPage)]
pub(crate) struct HistoryPageDoc {
    /// The entries.
    items: Vec<HistoryEntryDoc>,
    /// Give it as `before` for the next page; missing on the last.
    next: Option<i64>,
}

/// A bypass in force.
#[derive(ToSchema)]
#[schema(as = Bypass)]
pub(crate) struct BypassDoc {
    /// Names it.
    id: i64,
    /// The tool it lets through.
    tool_name: String,
    /// For whom, for people.
    agent_label: String,
    /// Who asks: `token:NAME`, `web`…
    source: String,
    /// The source's session it is bound to.
    session: Option<String>,
    /// When it was granted.
    created_at: i64,
    /// When it ends; missing for one that ends with its session.
    expires_at: Option<i64>,
    /// Who granted it.
    created_by: String,
    /// How often it decided.
    uses: i64,
}

/// Where a plugin stands.
#[derive(ToSchema)]
#[schema(as = PluginStatus)]
pub(crate) struct PluginStatusDoc {
    /// `disabled`, `idle`, `starting`, `running`, `degraded` or `failed`.
    state: String,
    /// Why, in one plain sentence.
    message: Option<String>,
    /// Unix milliseconds.
    since: i64,
}

/// A plugin, as its settings page shows it.
#[derive(ToSchema)]
#[schema(as = Plugin)]
pub(crate) struct PluginDoc {
    /// Stable id.
    id: String,
    /// Name for people.
    name: String,
    /// One sentence for people.
    description: String,
    /// Whether it is to run.
    enabled: bool,
    /// Its settings.
    #[schema(value_type = Object)]
    config: Value,
    /// The JSON schema of its settings.
    #[schema(value_type = Object)]
    schema: Value,
    /// Where it stands.
    status: PluginStatusDoc,
}

/// The host's own settings.
#[derive(ToSchema)]
#[schema(as = Settings)]
pub(crate) struct SettingsDoc {
    /// Seconds until a question lapses whose source names no time.
    default_timeout_secs: u64,
    /// Days that ended items and notifications are kept.
    history_days: u32,
}

/// Settings to change; what is missing stays as it is.
#[derive(ToSchema)]
#[schema(as = SettingsUpdate)]
pub(crate) struct SettingsUpdateDoc {
    /// Seconds until a question lapses whose source names no time.
    default_timeout_secs: Option<u64>,
    /// Days that ended items and notifications are kept.
    history_days: Option<u32>,
}

/// An API token, as listed. The token itself is shown once, when it is made.
#[derive(ToSchema)]
#[schema(as = ApiToken)]
pub(crate) struct ApiTokenDoc {
    /// Names it.
    name: String,
    /// When it was made.
    created_at: i64,
    /// When it was last used, to the minute.
    last_used: Option<i64>,
}

/// One line of the record of decisions.
#[derive(ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct AuditEntryDoc {
    /// Position; rises by one.
    seq: i64,
    /// When.
    at: i64,
    /// Who.
    #[schema(value_type = Object)]
    actor: Value,
    /// What was done.
    action: String,
    /// The item, where it concerns one.
    request_id: Option<uuid::Uuid>,
    /// What it concerns otherwise.
    subject: Option<String>,
    /// SHA-256 of what the device showed, lowercase hex.
    digest: Option<String>,
    /// The device's signature, lowercase hex.
    sig: Option<String>,
}
