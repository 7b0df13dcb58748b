//! What Google's answers mean. The HTTP status alone does not say it: the code is in `error.details[]`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::http::word;
use crate::verdict::{Fault, Throttled, Verdict};

/// What Google asks to wait at least when a quota is used up and it names no time.
const QUOTA_WAIT: Duration = Duration::from_secs(60);

/// What follows from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// That is all.
    Done(Verdict),
    /// The token is another project's.
    OtherProject,
    /// The access token is not accepted: fetch another and try once more.
    Refresh,
}

#[derive(Default, Deserialize)]
struct Body {
    #[serde(default)]
    error: Failure,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure {
    message: String,
    status: String,
    details: Vec<Value>,
}

impl Failure {
    fn detail(&self, kind: &str) -> Option<&Value> {
        self.details.iter().find(|detail| detail["@type"].as_str().is_some_and(|name| name.ends_with(kind)))
    }

    /// Whether the fields that are complained of are the token's and no others.
    fn only_the_token(&self) -> bool {
        let Some(request) = self.detail("google.rpc.BadRequest") else { return true };
        let fields = request["fieldViolations"].as_array();
        fields
            .is_some_and(|fields| !fields.is_empty() && fields.iter().all(|f| f["field"] == "message.token"))
    }
}

/// Reads an answer.
pub(super) fn judge(status: u16, body: &[u8], after: Option<Duration>) -> Next {
    if status == 200 {
        return Next::Done(Verdict::Accepted);
    }
    // An answer without a readable body still has its status.
    let error = serde_json::from_slice::<Body>(body).unwrap_or_default().error;
    let fcm = error.detail("google.firebase.fcm.v1.FcmError");
    let code = fcm.and_then(|detail| detail["errorCode"].as_str()).unwrap_or_default();
    Next::Done(match (code, status) {
        ("UNREGISTERED", _) => Verdict::TokenDead { since: None },
        ("INVALID_ARGUMENT", _) if error.message.contains("too big") => Verdict::TooLarge,
        ("INVALID_ARGUMENT", _) if error.only_the_token() => Verdict::TokenDead { since: None },
        ("SENDER_ID_MISMATCH", _) => return Next::OtherProject,
        ("QUOTA_EXCEEDED", _) | ("", 429) => {
            // One device's flood must not silence the others; where it is the project's quota each learns so itself.
            Verdict::Later { after: Some(after.unwrap_or(QUOTA_WAIT)), who: Throttled::Device }
        }
        ("UNAVAILABLE" | "INTERNAL", _) | ("", 500..=599) => Verdict::later_for_lane(after),
        // Only devices behind Firebase's own way to Apple or browsers are concerned.
        ("THIRD_PARTY_AUTH_ERROR", _) => {
            Verdict::Refused { fault: Fault::Partly, reason: "THIRD_PARTY_AUTH_ERROR".into() }
        }
        ("", 401) => return Next::Refresh,
        // Without a code of the messaging service the request did not get as far as a device.
        ("", 403 | 404) => Verdict::operator(word(&error.status, "forbidden")),
        ("", 200..=399) => Verdict::unreachable("an answer that is none"),
        _ => Verdict::ours(word(&error.status, "refused")),
    })
}
