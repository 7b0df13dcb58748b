//! Words for what went wrong beneath.

use skald_payloads::streams;
use skald_relay_client::device::PairError;
use skald_relay_client::{LinkProblem, PipeError, SendError};

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

/// Why a stream of another type than the host's pages does not open.
pub fn stream(error: &PipeError, view: &View, stream_type: &str) -> Failure {
    let what = match stream_type {
        streams::FILE => "files",
        streams::LOG => "its log",
        streams::TCP => "ports",
        _ => return Failure::unreachable(pipe(error, view)),
    };
    match error {
        PipeError::Rejected(why) if why == "unsupported stream_type" => Failure::refused(format!(
            "Your host does not offer {what} to devices; switch it on in the settings of its plugin Local streams."
        )),
        PipeError::Rejected(why) if why == "too many streams" => Failure::unreachable(
            "Your host serves too many streams of this device; close some and try again.",
        ),
        PipeError::Rejected(why) => {
            Failure::refused(format!("Your host refuses: {}", sentence(&crate::text::one_line(why))))
        }
        error => Failure::unreachable(pipe(error, view)),
    }
}

/// Why the relay is not reached. A device has no settings page: what it trusts is said on its command line.
pub fn link(problem: &LinkProblem) -> String {
    match problem {
        LinkProblem::CertificateUntrusted(host) => format!(
            "The certificate of {host} is not trusted; if the relay has a private authority, name its file with --ca."
        ),
        other => other.to_string(),
    }
}

/// Why the device did not pair.
pub fn pairing(error: &PairError) -> Failure {
    let text = match error {
        PairError::Link(problem) => sentence(&link(problem)),
        other => sentence(&other.to_string()),
    };
    match error {
        PairError::Start(_) | PairError::OtherAgent | PairError::Key => Failure::usage(text),
        PairError::Link(_) | PairError::UnknownHost => Failure::unreachable(text),
        _ => Failure::refused(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untrusted_relay_is_explained_by_the_option_that_helps() {
        let problem = LinkProblem::CertificateUntrusted("relay.example".into());
        for text in [link(&problem), pairing(&PairError::Link(problem.clone())).sentence] {
            assert!(text.contains("relay.example") && text.contains("--ca"), "{text}");
            assert!(!text.contains("settings"), "{text}");
        }
    }
}
