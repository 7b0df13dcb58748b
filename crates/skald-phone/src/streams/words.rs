//! What the host refuses, in one sentence with what to do.

use skald_payloads::streams::{FaultCode, StreamFault};

use crate::failure::Failure;
use crate::text::one_line;

/// Whether the same may be granted a moment later.
pub fn passing(fault: &StreamFault) -> bool {
    fault.code == FaultCode::Busy
}

/// The failure that a fault makes of a command about `path`.
pub fn failure(fault: &StreamFault, path: &str) -> Failure {
    let path = one_line(path);
    let folder = path.split('/').next().unwrap_or(&path);
    let text = match fault.code {
        FaultCode::NotOffered => {
            format!("Your host offers no folder {folder}; `skald-phone ls` shows those that it does.")
        }
        FaultCode::NotPermitted => {
            format!("Your host may not open {path} itself; change its permissions there.")
        }
        FaultCode::NotFound => {
            format!("There is no {path} on your host; `skald-phone ls {folder}` shows what there is.")
        }
        FaultCode::BadPath => {
            return Failure::usage(format!("{path} cannot be a path on your host; write it as FOLDER/PATH."));
        }
        FaultCode::NotAFile => {
            format!(
                "{path} is a link, a device or the like, and your host opens files alone; name the file itself."
            )
        }
        FaultCode::IsAFolder => format!("{path} is a folder; name a file in it."),
        FaultCode::IsAFile => format!("{path} leads through something that is no folder; correct the path."),
        FaultCode::ReadOnly => {
            format!(
                "Files may not be put into {folder}; make it `rw` in the settings of your host's plugin Local streams."
            )
        }
        FaultCode::Exists => {
            format!(
                "There is another {path} on your host already; choose another name, or replace it with --overwrite."
            )
        }
        FaultCode::TooLarge => {
            format!(
                "The file is larger than your host takes into {folder}; raise `max` in the settings of its plugin Local streams."
            )
        }
        FaultCode::Quota => {
            format!(
                "Your host takes no more into {folder} today; try tomorrow, or raise `daily` in the settings of its plugin Local streams."
            )
        }
        FaultCode::DiskFull => "Your host's disk is full; make room there and run the command again.".into(),
        FaultCode::Changed => {
            format!("{path} changed on your host meanwhile; run the command again with --restart.")
        }
        FaultCode::Mismatch => "The file changed here while it was sent; run the command again.".into(),
        FaultCode::Busy => {
            return Failure::unreachable(
                "Your host has too many such streams open; try again when one has ended.",
            );
        }
        FaultCode::Unreachable | FaultCode::Failed | FaultCode::BadRequest => {
            format!("Your host says: {}", one_line(&fault.text))
        }
    };
    match fault.code {
        FaultCode::Unreachable => Failure::unreachable(text),
        _ => Failure::refused(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_one_sentence_that_shows_nothing_raw() {
        use FaultCode::*;
        for code in [
            NotOffered,
            NotPermitted,
            NotFound,
            BadPath,
            NotAFile,
            IsAFolder,
            IsAFile,
            ReadOnly,
            Exists,
            TooLarge,
            Quota,
            DiskFull,
            Changed,
            Mismatch,
            Busy,
            Unreachable,
            Failed,
            BadRequest,
        ] {
            let fault = StreamFault { code, text: "It\u{1b}[2J\nfailed.".into() };
            let text = failure(&fault, "photos/a\u{1b}[31m").sentence;
            assert!(text.ends_with('.') && !text.contains(['\u{1b}', '\n']), "{code:?}: {text}");
        }
    }
}
