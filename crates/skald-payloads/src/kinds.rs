//! The kinds of payload (spec payloads, the table of kinds).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Digest, InboxUpdate, ProofSignature};

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// One line.
    pub title: String,
    /// More text, perhaps empty.
    pub body: String,
}

/// What a device says of itself, end to end: the relay sees none of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `ios`, `android`, `web`, `cli`, or what later versions add.
    pub platform: String,
    /// The model, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Version of its system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// Version of the app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    /// The name its owner gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
}

/// A device introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it says of itself.
    pub device_info: DeviceInfo,
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

/// A device decides an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalResponse {
    /// The item, as it was received.
    pub request_id: String,
    /// Yes or no.
    pub decision: Decision,
    /// Why, for the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Also let similar calls through for so many seconds; 0: for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass_secs: Option<u64>,
    /// The digest of what the device showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The device's signature under digest and decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sig: Option<ProofSignature>,
}

/// A device answers a clarification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClarificationResponse {
    /// The item, as it was received.
    pub request_id: String,
    /// The answer.
    pub answer: String,
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

/// A device answers an elicitation. The content may be a secret, so `Debug` leaves it out.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ElicitationResponse {
    /// The item, as it was received.
    pub request_id: String,
    /// What was done.
    pub action: ElicitationAction,
    /// The form's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Map<String, Value>>,
}

impl std::fmt::Debug for ElicitationResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElicitationResponse")
            .field("request_id", &self.request_id)
            .field("action", &self.action)
            .finish_non_exhaustive()
    }
}

/// A payload arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// The `id` of the envelope that arrived.
    pub ref_id: String,
}

/// What an envelope says.
#[derive(Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Payload {
    /// `inbox_update`, from the agent.
    InboxUpdate(InboxUpdate),
    /// `notification`, from the agent.
    Notification(Notification),
    /// `hello`, from a device.
    Hello(Hello),
    /// `inbox_request`, from a device.
    #[serde(serialize_with = "no_members")]
    InboxRequest,
    /// `approval_response`, from a device.
    ApprovalResponse(ApprovalResponse),
    /// `clarification_response`, from a device.
    ClarificationResponse(ClarificationResponse),
    /// `elicitation_response`, from a device.
    ElicitationResponse(ElicitationResponse),
    /// `logout`, from a device.
    #[serde(serialize_with = "no_members")]
    Logout,
    /// `ack`, from either.
    Ack(Ack),
}

fn no_members<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    serializer.serialize_map(Some(0))?.end()
}

impl Payload {
    /// The kind's name on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InboxUpdate(_) => "inbox_update",
            Self::Notification(_) => "notification",
            Self::Hello(_) => "hello",
            Self::InboxRequest => "inbox_request",
            Self::ApprovalResponse(_) => "approval_response",
            Self::ClarificationResponse(_) => "clarification_response",
            Self::ElicitationResponse(_) => "elicitation_response",
            Self::Logout => "logout",
            Self::Ack(_) => "ack",
        }
    }

    /// Whether a device may send this kind. What a peer sends out of its role is discarded like an unknown kind.
    pub fn is_from_device(&self) -> bool {
        !matches!(self, Self::InboxUpdate(_) | Self::Notification(_))
    }

    /// Whether an agent may send this kind.
    pub fn is_from_agent(&self) -> bool {
        matches!(self, Self::InboxUpdate(_) | Self::Notification(_) | Self::Ack(_))
    }

    /// Reads the members of an envelope of this kind. `None`: the kind is unknown. The error has no cause, for a cause
    /// would quote the payload.
    pub(crate) fn read(kind: &str, members: Value) -> Option<Result<Self, ()>> {
        fn typed<T: serde::de::DeserializeOwned>(
            members: Value,
            wrap: fn(T) -> Payload,
        ) -> Result<Payload, ()> {
            serde_json::from_value(members).map(wrap).map_err(drop)
        }
        Some(match kind {
            "inbox_update" => typed(members, Self::InboxUpdate),
            "notification" => typed(members, Self::Notification),
            "hello" => typed(members, Self::Hello),
            "inbox_request" => Ok(Self::InboxRequest),
            "approval_response" => typed(members, Self::ApprovalResponse),
            "clarification_response" => typed(members, Self::ClarificationResponse),
            "elicitation_response" => typed(members, Self::ElicitationResponse),
            "logout" => Ok(Self::Logout),
            "ack" => typed(members, Self::Ack),
            _ => return None,
        })
    }
}

/// The kind alone: payloads are private.
impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({})", self.kind())
    }
}
