//! What only a device's handle does.

use skald_e2e::{VerificationCode, decision};
use skald_relay_common::ids::{PublicKey, Signature};

use crate::client::{RelayClient, code_of};
use crate::error::{SendError, StoreError};
use crate::types::Class;

impl RelayClient {
    /// Device: its agent.
    pub fn agent(&self) -> Option<PublicKey> {
        self.shared().agent
    }

    /// Device: the six digits both screens show.
    pub async fn verification_code(&self) -> Result<Option<VerificationCode>, StoreError> {
        let Some(agent) = self.agent() else { return Ok(None) };
        let peer = self.shared().store.peer(&agent).await?;
        Ok(peer.map(|peer| code_of(&self.shared().keys, &peer)))
    }

    /// Device: signs a decision with the device's key (crypto.md, Decisions that can be proved).
    pub fn sign_decision(&self, request_id: &str, digest: &[u8; 32], approved: bool) -> Signature {
        let keys = &self.shared().keys;
        decision::sign(&keys.identity, &keys.namespace, request_id, digest, approved)
    }

    /// Device: puts a message for the agent into the outbox, where it stays until [`Self::outbox_confirm`], through
    /// restarts and crashes; a newer one of the same slot replaces it. It is sent at once, and again after reconnections
    /// until it is confirmed, so the agent may get it more than once: it must know it by its own id.
    pub async fn outbox_put(&self, slot: &str, body: impl AsRef<[u8]>) -> Result<(), SendError> {
        let agent = self.agent().ok_or(SendError::UnknownPeer)?;
        self.send_in(&agent, Some(slot.to_owned()), body.as_ref(), Class::Stored, true).await
    }

    /// Device: the agent has it. Whether it was still in the outbox.
    pub async fn outbox_confirm(&self, slot: &str) -> Result<bool, StoreError> {
        let Some(agent) = self.agent() else { return Ok(false) };
        self.shared().store.confirm(&agent, slot).await
    }

    /// Device: the slots that wait for confirmation, oldest first.
    pub async fn outbox(&self) -> Result<Vec<String>, StoreError> {
        let Some(agent) = self.agent() else { return Ok(Vec::new()) };
        self.shared().store.kept(&agent).await
    }
}
