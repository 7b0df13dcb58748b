//! Words for what went wrong beneath.

use skald_relay_client::device::PairError;
use skald_relay_client::{PipeError, SendError};

use crate::failure::Failure;
use crate::wire::{HostState, Link, View};

/// Makes a library's message one sentence for people.
pub fn sentence(text: &str) -> String {
    let mut chars = text.trim().trim_end_matches('.').chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

/// Why the host's pages cannot be reached.
pub fn pipe(error: &PipeError, view: &View) -> String {
    let offline = "Your host is not connected to the relay; start Skald at home, or check its connection.";
    match error {
        PipeError::Signal(SendError::PeerOffline) => offline.into(),
        _ if view.link == Link::NotAdmitted => {
            "The host has not admitted this device, or has removed it.".into()
        }
        PipeError::Signal(SendError::NotConnected) => match &view.error {
            Some(error) => format!("The relay cannot be reached ({}).", error.trim_end_matches('.')),
            None => "There is no connection to the relay yet.".into(),
        },
        _ if view.host == HostState::Offline => offline.into(),
        PipeError::Rejected(_) => {
            "Your host refuses to show its pages; see whether the mobile connector runs there.".into()
        }
        PipeError::NoAnswer => "Your host did not answer in time.".into(),
        other => sentence(&other.to_string()),
    }
}

/// Why the device did not pair.
pub fn pairing(error: &PairError) -> Failure {
    let text = sentence(&error.to_string());
    match error {
        PairError::Start(_) | PairError::OtherAgent | PairError::Key => Failure::usage(text),
        PairError::Link(_) | PairError::UnknownHost => Failure::unreachable(text),
        _ => Failure::refused(text),
    }
}
