//! Asking and waiting: creates an item, then polls for its end through restarts of the host, until the end comes, the
//! question's time is over, or the user gives up.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::client::{CallError, Client};
use crate::failure::{Exit, Failure, LAPSED};
use crate::output::text;
use crate::signals::Signals;

/// What one long poll asks for. Shorter than what proxies cut off.
const POLL_SECS: u64 = 30;
/// Pauses while the host cannot be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// The host decides when a question lapses; only where it cannot be asked do we, a little later.
const BEYOND: Duration = Duration::from_secs(5);

/// How an item ended.
pub enum Ended {
    /// Somebody answered, or a rule did. The status as the host tells it.
    Resolved(Value),
    /// Nobody did.
    Lapsed(Lapse),
}

/// Why there is no answer.
pub enum Lapse {
    /// Nobody answered in time.
    Expired,
    /// It was withdrawn.
    Withdrawn,
    /// The host does not know it any more.
    Forgotten,
}

impl Lapse {
    /// The state's word, as the host's.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Withdrawn => "cancelled",
            Self::Forgotten => "unknown",
        }
    }

    /// Says what happened on standard error, as the command's end. Never that anybody said no.
    pub fn tell(&self) -> Exit {
        let text = match self {
            Self::Expired => "Nobody answered in time, so the question lapsed; nobody decided it.",
            Self::Withdrawn => "The question was withdrawn before anybody answered.",
            Self::Forgotten => "The host does not know this question any more; ask again.",
        };
        eprintln!("skald: {text}");
        Exit::Code(LAPSED)
    }
}

/// Creates an item and waits for its end.
pub async fn ask(client: &mut Client, path: &str, body: &Value) -> Result<Ended, Failure> {
    let mut signals = Signals::new()?;
    let created = create(client, path, body).await?;
    let id = text(&created, "request_id").to_owned();
    if id.is_empty() {
        return Err(Failure::unreachable("What answered is not a Skald host: check --url."));
    }
    if created.get("decision").is_some() {
        return Ok(Ended::Resolved(created));
    }
    let deadline = Instant::now() + remaining(&created) + BEYOND;
    let ended = tokio::select! {
        ended = poll(client, &id, deadline) => Some(ended),
        () = signals.recv() => None,
    };
    match ended {
        Some(ended) => ended,
        None => {
            withdraw(client, &id).await;
            Ok(Ended::Lapsed(Lapse::Withdrawn))
        }
    }
}

/// One attempt, and a second where the host accepted the connection but the answer was lost: the key in the body makes
/// both the same item.
async fn create(client: &mut Client, path: &str, body: &Value) -> Result<Value, Failure> {
    let mut last = None;
    for _ in 0..2 {
        match client.call(Method::POST, path, Some(body), Duration::ZERO).await.and_then(|r| r.json()) {
            Ok(created) => return Ok(created),
            Err(CallError::Unreachable) => {
                last = Some(CallError::Unreachable);
                client.find_again();
            }
            Err(e) => return Err(client.failure(e)),
        }
    }
    Err(client.failure(last.unwrap_or(CallError::Unreachable)))
}

fn remaining(created: &Value) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    let until = created.get("expires_at").and_then(Value::as_u64).map_or(0, u128::from);
    Duration::from_millis(u64::try_from(until.saturating_sub(now)).unwrap_or(0))
}

async fn poll(client: &mut Client, id: &str, deadline: Instant) -> Result<Ended, Failure> {
    let path = format!("/api/v1/inbox/requests/{id}?wait={POLL_SECS}");
    let mut pause = FIRST_PAUSE;
    let mut told = false;
    loop {
        let asked = Instant::now();
        let polled = client.call(Method::GET, &path, None, Duration::from_secs(POLL_SECS)).await;
        let trouble = match polled.and_then(|r| r.json()) {
            Ok(status) => match text(&status, "state") {
                "resolved" => return Ok(Ended::Resolved(status)),
                "expired" => return Ok(Ended::Lapsed(Lapse::Expired)),
                "cancelled" => return Ok(Ended::Lapsed(Lapse::Withdrawn)),
                "pending" => {
                    told = false;
                    // A host on its way down answers early; asking again at once would only hurry it.
                    if asked.elapsed() >= Duration::from_secs(1) {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                    None
                }
                _ => return Err(Failure::unreachable("The host answered something unknown: update Skald.")),
            },
            Err(CallError::Refused { status: StatusCode::NOT_FOUND, .. }) => {
                return Ok(Ended::Lapsed(Lapse::Forgotten));
            }
            Err(e @ (CallError::Unreachable | CallError::Unwell(_))) => Some(e),
            Err(e) => return Err(client.failure(e)),
        };
        if let Some(e) = trouble {
            if Instant::now() >= deadline {
                let Failure { text, .. } = client.failure(e);
                return Err(Failure::unreachable(format!(
                    "{text} The question's time is over; whether anybody answered is not known."
                )));
            }
            if !told {
                told = true;
                eprintln!("skald: the host cannot be reached at the moment; waiting for it to come back.");
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        client.find_again();
    }
}

/// Takes the question back; where that fails it lapses by itself.
async fn withdraw(client: &mut Client, id: &str) {
    let path = format!("/api/v1/inbox/requests/{id}");
    let call = client.call(Method::DELETE, &path, None, Duration::ZERO);
    let done = tokio::time::timeout(Duration::from_secs(5), call).await;
    if !matches!(done, Ok(Ok(_) | Err(CallError::Refused { .. }))) {
        eprintln!("skald: the host could not be told to withdraw the question; it lapses by itself.");
    }
}
