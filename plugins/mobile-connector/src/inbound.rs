//! What the connector does with a payload that a device sent (spec payloads, What the agent does with a response).
//!
//! A payload is acted upon before it is acknowledged to the client, and may therefore come twice: every act here is
//! idempotent. Only a store that fails asks for the payload again; whatever is wrong with the payload itself ends it.

use serde_json::Value;
use skald_core_api as core;
use skald_core_api::{Actor, Answer, AnswerOutcome, Event, InboxError, RequestId};
use skald_payloads::{
    ApprovalResponse, Decision, DeviceInfo, ElicitationAction, Envelope, Payload, clip, one_line,
};

use crate::connector::{Connector, Failed, Listed, Poke};
use crate::{DeviceKey, proof, wire};

/// Characters of each thing that a device says of itself.
const INFO_CHARS: usize = 120;

/// The payload could not be acted upon now; it is to be tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Later {
    #[error(transparent)]
    Inbox(#[from] InboxError),
    #[error(transparent)]
    Failed(#[from] Failed),
}

impl From<crate::store::StoreError> for Later {
    fn from(error: crate::store::StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// Acts upon one payload, read at `now`.
pub(crate) async fn receive(to: &Connector, from: DeviceKey, body: &[u8], now: i64) -> Result<(), Later> {
    let envelope = match Envelope::parse(body, now) {
        Ok(envelope) => envelope,
        Err(reason) => {
            tracing::warn!(device = ?from, %reason, "a payload was discarded");
            return Ok(());
        }
    };
    let kind = envelope.payload.kind();
    let Some(device) = to.device(from).await?.filter(|d| d.peer.admitted) else {
        tracing::warn!(device = ?from, kind, "a payload of a device that is not admitted was discarded");
        return Ok(());
    };
    tracing::debug!(device = ?from, kind, "a payload arrived");
    match envelope.payload {
        Payload::InboxRequest => to.poke(Poke::Request(from)).await,
        Payload::ApprovalResponse(response) => approval(to, &device, envelope.id_text, response).await?,
        Payload::ClarificationResponse(response) => {
            let answer = Answer::Clarification { answer: response.answer };
            answered(to, &device, envelope.id_text, &response.request_id, answer).await?;
        }
        Payload::ElicitationResponse(response) => {
            let action = match response.action {
                ElicitationAction::Accept => core::ElicitationAction::Accept,
                ElicitationAction::Decline => core::ElicitationAction::Decline,
                ElicitationAction::Cancel => core::ElicitationAction::Cancel,
            };
            // The content goes to the Inbox and nowhere else.
            let answer = Answer::Elicitation { action, content: response.content.map(Value::Object) };
            answered(to, &device, envelope.id_text, &response.request_id, answer).await?;
        }
        Payload::Hello(hello) => {
            to.store.set_info(from, &tidy(hello.device_info), to.log_head()).await?;
            to.events.publish(Event::Devices);
        }
        Payload::Logout => {
            tracing::info!(device = ?from, "a device logged out");
            to.revoke(from).await?;
        }
        Payload::Ack(_) => {}
        // Kinds that only an agent sends are as unknown from a device.
        _ => {
            tracing::warn!(device = ?from, kind, "a payload of a kind that devices do not send was discarded")
        }
    }
    Ok(())
}

/// What a device says of itself, as much of it as a person would read: it is kept, and listed with every device.
fn tidy(info: DeviceInfo) -> DeviceInfo {
    let short = |text: String| clip(&one_line(&text), INFO_CHARS);
    DeviceInfo {
        platform: short(info.platform),
        model: info.model.map(short),
        os_version: info.os_version.map(short),
        app_version: info.app_version.map(short),
        device_name: info.device_name.map(short),
    }
}

async fn approval(
    to: &Connector,
    device: &Listed,
    id: String,
    response: ApprovalResponse,
) -> Result<(), Later> {
    let approved = response.decision == Decision::Approved;
    let Ok(request_id) = response.request_id.parse::<RequestId>() else {
        return unknown(to, device, id).await;
    };
    let pending = to.inbox.snapshot().await?.approvals.into_iter().find(|a| a.request_id == request_id);
    let proof = match &pending {
        Some(item) => {
            let namespace = to.relay.namespace();
            match proof::check(&device.peer.key, &namespace, &wire::approval(item), &response) {
                Ok(proof) => proof,
                Err(reason) => {
                    // The call is not what the device showed: it is asked again, with what is pending.
                    tracing::warn!(device = ?device.peer.key, request = %request_id, %reason, "a decision was refused");
                    to.poke(Poke::Refresh(device.peer.key)).await;
                    to.poke(Poke::Ack { to: device.peer.key, ref_id: id }).await;
                    return Ok(());
                }
            }
        }
        None => None,
    };
    let answer = Answer::Approval {
        decision: if approved { core::Decision::Approved } else { core::Decision::Rejected },
        reason: response.reason,
        bypass_secs: response.bypass_secs.filter(|_| approved),
        proof,
    };
    answered(to, device, id, &response.request_id, answer).await
}

async fn answered(
    to: &Connector,
    device: &Listed,
    id: String,
    request_id: &str,
    answer: Answer,
) -> Result<(), Later> {
    let key = device.peer.key;
    let Ok(request_id) = request_id.parse::<RequestId>() else {
        return unknown(to, device, id).await;
    };
    let by = Actor::Device { key: key.to_string(), name: device.name() };
    match to.inbox.answer(request_id, answer, &by).await {
        // Every device gets a new snapshot, for the Inbox moved.
        Ok(AnswerOutcome::Resolved) => {
            tracing::info!(device = ?key, request = %request_id, "a device answered")
        }
        Ok(AnswerOutcome::Late { state, .. }) => {
            tracing::info!(device = ?key, request = %request_id, state, "a device answered late; it changes nothing");
            to.poke(Poke::Request(key)).await;
        }
        Ok(AnswerOutcome::Unknown) => return unknown(to, device, id).await,
        Err(InboxError::Invalid(_)) => {
            // The cause may quote the answer; the device sees that the question still stands.
            tracing::warn!(device = ?key, request = %request_id, "a device's answer did not fit the question");
            to.poke(Poke::Refresh(key)).await;
        }
        Err(error) => return Err(error.into()),
    }
    to.poke(Poke::Ack { to: key, ref_id: id }).await;
    Ok(())
}

/// No such item: nothing changes, the device gets no error, and sees the true state if it is there.
async fn unknown(to: &Connector, device: &Listed, id: String) -> Result<(), Later> {
    let key = device.peer.key;
    tracing::info!(device = ?key, "a device answered a question that does not exist");
    to.poke(Poke::Request(key)).await;
    to.poke(Poke::Ack { to: key, ref_id: id }).await;
    Ok(())
}
