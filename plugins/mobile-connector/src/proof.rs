//! Decisions that can be proved (spec crypto, Decisions).

use skald_core_api::DecisionProof;
use skald_e2e::decision;
use skald_payloads::{Approval, ApprovalResponse, Decision};

use crate::DeviceKey;

/// Why a decision is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The device decided about something else than what is pending.
    #[error("its digest is not that of the pending item")]
    OtherItem,
    /// The signature is not the device's under this decision.
    #[error("its signature does not hold")]
    Signature,
    /// A signature without the digest it signs.
    #[error("it bears a signature without a digest")]
    NoDigest,
}

/// Checks what a decision says of the item it is about. `None` where the device gave no signature: it is taken at its
/// word, as before.
pub(crate) fn check(
    device: &DeviceKey,
    namespace: &[u8; 32],
    item: &Approval,
    response: &ApprovalResponse,
) -> Result<Option<DecisionProof>, Refused> {
    let Some(digest) = response.digest else {
        return if response.sig.is_some() { Err(Refused::NoDigest) } else { Ok(None) };
    };
    // An item without a digest has none that a device could have shown.
    if item.shown_digest() != Ok(digest) {
        return Err(Refused::OtherItem);
    }
    let Some(sig) = response.sig else { return Ok(None) };
    let approved = response.decision == Decision::Approved;
    let holds = decision::verify(
        &device.0.into(),
        &(*namespace).into(),
        &response.request_id,
        &digest.0,
        approved,
        &sig.0.into(),
    );
    if !holds {
        return Err(Refused::Signature);
    }
    Ok(Some(DecisionProof { digest: digest.to_string(), sig: sig.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use skald_payloads::{Digest, ProofSignature};

    struct Vector {
        device: DeviceKey,
        namespace: [u8; 32],
        item: Approval,
        response: ApprovalResponse,
    }

    /// The device, item and signature of proto/vectors.
    fn vector() -> Vector {
        let v: Value = serde_json::from_str(include_str!("../../../proto/vectors/vectors.json")).unwrap();
        let text = |pointer: &str| v.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let item: Approval = serde_json::from_value(v["decision"]["item"].clone()).unwrap();
        let response = ApprovalResponse {
            request_id: item.request_id.clone(),
            decision: Decision::Approved,
            reason: None,
            bypass_secs: None,
            digest: Some(text("/decision/digest").parse().unwrap()),
            sig: Some(text("/decision/signature_client_approved").parse().unwrap()),
        };
        Vector {
            device: text("/identity/client_ed25519_public").parse().unwrap(),
            namespace: text("/identity/namespace_id").parse::<DeviceKey>().unwrap().0,
            item,
            response,
        }
    }

    fn checked(v: &Vector) -> Result<Option<DecisionProof>, Refused> {
        check(&v.device, &v.namespace, &v.item, &v.response)
    }

    #[test]
    fn the_signature_of_the_vectors_holds_and_is_kept() {
        let v = vector();
        let proof = checked(&v).unwrap().unwrap();
        assert_eq!(proof.digest, v.response.digest.unwrap().to_string());
        assert_eq!(proof.sig, v.response.sig.unwrap().to_string());
    }

    #[test]
    fn a_decision_about_another_item_is_refused() {
        let mut v = vector();
        v.item = Approval { summary: "Run another command".into(), received: Default::default(), ..v.item };
        assert_eq!(checked(&v), Err(Refused::OtherItem));
        v.response.sig = None;
        assert_eq!(checked(&v), Err(Refused::OtherItem), "with or without a signature");
    }

    #[test]
    fn a_signature_counts_for_one_decision_of_one_device_in_one_namespace() {
        let mut v = vector();
        v.response.decision = Decision::Rejected;
        assert_eq!(checked(&v), Err(Refused::Signature));
        let mut v = vector();
        v.device = DeviceKey([1; 32]);
        assert_eq!(checked(&v), Err(Refused::Signature));
        let mut v = vector();
        v.namespace[0] ^= 1;
        assert_eq!(checked(&v), Err(Refused::Signature));
        let mut v = vector();
        v.response.sig = Some(ProofSignature([0; 64]));
        assert_eq!(checked(&v), Err(Refused::Signature));
    }

    #[test]
    fn a_signature_must_name_what_it_signs_and_none_is_needed() {
        let mut v = vector();
        v.response.digest = None;
        assert_eq!(checked(&v), Err(Refused::NoDigest));
        v.response.sig = None;
        assert_eq!(checked(&v), Ok(None));
        v.response.digest = Some(Digest(vector().response.digest.unwrap().0));
        assert_eq!(checked(&v), Ok(None));
    }
}
