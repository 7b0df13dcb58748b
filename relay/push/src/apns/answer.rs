//! What Apple's answers mean.

use std::time::Duration;

use serde::Deserialize;

use crate::http::word;
use crate::push::UnixMillis;
use crate::verdict::{Throttled, Verdict};

/// What follows from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// That is all.
    Done(Verdict),
    /// The same, and the token may belong to the other environment.
    OtherEnvironment(Verdict),
    /// The same, and the server wants to be left: the next push opens a new connection.
    Reconnect(Verdict),
    /// The provider token was too old: make a new one and try once more.
    SignAgain,
    /// The connection is bound to another key: try once more on a new one, or this is what it is.
    OtherConnection(Verdict),
}

#[derive(Default, Deserialize)]
struct Body {
    #[serde(default)]
    reason: String,
    /// Milliseconds since 1970.
    timestamp: Option<i64>,
}

/// Reads an answer.
pub(super) fn judge(status: u16, body: &[u8], retry_after: Option<Duration>) -> Next {
    // An answer without a readable body still has its status.
    let body: Body = serde_json::from_slice(body).unwrap_or_default();
    let named = |or: &'static str| word(&body.reason, or);
    Next::Done(match (status, body.reason.as_str()) {
        (200, _) => Verdict::Accepted,
        (400, "BadDeviceToken" | "DeviceTokenNotForTopic") => {
            return Next::OtherEnvironment(Verdict::TokenDead { since: None });
        }
        // The server grew tired of an idle connection; nothing is wrong with the push.
        (400, "IdleTimeout") => return Next::Reconnect(Verdict::later_for_lane(retry_after)),
        (403, "ExpiredProviderToken") => return Next::SignAgain,
        (403, "UnrelatedKeyIdInToken") => {
            return Next::OtherConnection(Verdict::operator(named("forbidden")));
        }
        (403, _) => Verdict::operator(named("forbidden")),
        (410, _) => Verdict::TokenDead { since: body.timestamp.map(UnixMillis) },
        (413, _) => Verdict::TooLarge,
        (429, "TooManyProviderTokenUpdates") => {
            let after = retry_after.unwrap_or_default().max(Duration::from_secs(20 * 60));
            Verdict::Later { after: Some(after), who: Throttled::Lane }
        }
        (429, _) => Verdict::later_for_device(retry_after),
        (500..=599, _) => return Next::Reconnect(Verdict::later_for_lane(retry_after)),
        (400..=499, _) => Verdict::ours(named("refused")),
        _ => Verdict::unreachable("an answer that is none"),
    })
}
