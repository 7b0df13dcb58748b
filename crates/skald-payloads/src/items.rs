//! The Inbox as it travels to a device (spec payloads, inbox_update).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{CanonicalError, Digest, item_digest};

/// The digest over an item exactly as it was received, unknown members included. Set by reading, never sent; two items
/// are equal whether or not either was received.
#[derive(Debug, Clone, Copy, Default)]
pub struct Received(Option<Digest>);

impl PartialEq for Received {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// *May I do this?* as a device receives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Approval {
    /// Names the item; a device returns it as it got it.
    pub request_id: String,
    /// The tool that wants to run.
    pub tool_name: String,
    /// Who asks, for people.
    pub agent_label: String,
    /// One line, about 120 characters at most.
    pub summary: String,
    /// When it was asked, unix milliseconds.
    pub created_at: i64,
    /// A longer explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The tool's raw arguments, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Display blocks, raw; [`crate::Blocks::read`] reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Value>,
    /// When the question lapses, unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// The agent's digest of the item. A device signs its own, from [`Approval::shown_digest`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What was received.
    #[serde(skip)]
    pub received: Received,
}

/// The members of an approval as read; a mirror of [`Approval`] without the digest that is computed beside it.
#[derive(Deserialize)]
struct ApprovalMembers {
    request_id: String,
    tool_name: String,
    agent_label: String,
    summary: String,
    created_at: i64,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    blocks: Option<Value>,
    #[serde(default)]
    expires_at: Option<i64>,
    #[serde(default)]
    digest: Option<String>,
}

impl<'de> Deserialize<'de> for Approval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        let received = Received(item_digest(&raw).ok());
        // The cause is not passed on: it would quote the value.
        let m: ApprovalMembers =
            serde_json::from_value(raw).map_err(|_| serde::de::Error::custom("not an approval"))?;
        Ok(Self {
            request_id: m.request_id,
            tool_name: m.tool_name,
            agent_label: m.agent_label,
            summary: m.summary,
            created_at: m.created_at,
            detail: m.detail,
            arguments: m.arguments,
            blocks: m.blocks,
            expires_at: m.expires_at,
            digest: m.digest,
            received,
        })
    }
}

/// The item has no digest, so no decision about it can be proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no digest can be computed of this item")]
pub struct UnsignedItem;

impl From<CanonicalError> for UnsignedItem {
    fn from(_: CanonicalError) -> Self {
        Self
    }
}

impl Approval {
    /// The digest of the item: of what was received where it was, of its members otherwise (spec crypto, Decisions).
    pub fn shown_digest(&self) -> Result<Digest, UnsignedItem> {
        if let Some(received) = self.received.0 {
            return Ok(received);
        }
        let value = serde_json::to_value(self).map_err(|_| UnsignedItem)?;
        Ok(item_digest(&value)?)
    }

    /// The same item bearing its digest.
    pub fn with_digest(mut self) -> Self {
        self.digest = self.shown_digest().ok().map(|d| d.to_string());
        self
    }
}

/// *Which one?* as a device receives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clarification {
    /// Names the item.
    pub request_id: String,
    /// The question.
    pub question: String,
    /// Who asks, for people.
    pub agent_label: String,
    /// When it was asked, unix milliseconds.
    pub created_at: i64,
    /// What one needs to know to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Answers to choose from; any text will do.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub suggested_answers: Vec<String>,
}

/// *What is the password?* as a device receives it. A value is never in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Elicitation {
    /// Names the item.
    pub request_id: String,
    /// The server that asks.
    pub server_name: String,
    /// What it asks for.
    pub message: String,
    /// The one field asked for, or null.
    #[serde(default)]
    pub field_name: Option<String>,
    /// Whether the value must be masked.
    pub sensitive: bool,
    /// Whether yes or no is all that is asked.
    pub is_confirmation: bool,
    /// When it was asked, unix milliseconds.
    pub created_at: i64,
    /// The flat form schema of a prompt with several fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// `form` or `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The page to visit, with mode `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The whole Inbox: replaces what the device holds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InboxUpdate {
    /// How many items are pending. More than the arrays hold where an item was too large to send.
    pub badge: u64,
    /// Pending approvals, oldest first.
    pub approvals: Vec<Approval>,
    /// Pending clarifications, oldest first.
    pub clarifications: Vec<Clarification>,
    /// Pending elicitations, oldest first. Agents of before this kind existed leave the array out.
    #[serde(default)]
    pub elicitations: Vec<Elicitation>,
}

impl InboxUpdate {
    /// How many items the arrays hold.
    pub fn listed(&self) -> usize {
        self.approvals.len() + self.clarifications.len() + self.elicitations.len()
    }
}

fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default())
}
