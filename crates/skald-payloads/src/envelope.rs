//! The envelope every payload travels in, and the checks a receiver makes in the order the specification gives.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::Payload;

/// The payloads' version (spec payloads: `v`).
pub const VERSION: u64 = 1;

/// How far a payload's time may be from the receiver's, either way: seven days.
pub const MAX_AGE_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// One payload with its id and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Names the payload.
    pub id: Uuid,
    /// The same as its sender wrote it, in whatever case: `ack` refers to it so, for a sender may compare texts.
    pub id_text: String,
    /// When it was made, unix milliseconds.
    pub ts: i64,
    /// What it says.
    pub payload: Payload,
}

/// Why a payload was discarded. Nothing of its content is in it: the text may go to a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Discard {
    /// No JSON object.
    #[error("a payload was no JSON object")]
    NotJson,
    /// Another `v`.
    #[error("a payload was of another version")]
    Version,
    /// Made more than seven days before or after now.
    #[error("a payload was made more than seven days from now")]
    Age,
    /// A member is missing, or of another type.
    #[error("a payload of kind {kind} lacks a member or has one of another type")]
    Malformed {
        /// The kind, `?` where that is what lacks.
        kind: String,
    },
    /// A kind this version does not know.
    #[error("a payload was of the unknown kind {kind}")]
    UnknownKind {
        /// The kind, made harmless for a log.
        kind: String,
    },
}

#[derive(Serialize)]
struct Wire<'a> {
    v: u64,
    kind: &'static str,
    id: Uuid,
    ts: i64,
    #[serde(flatten)]
    payload: &'a Payload,
}

impl Envelope {
    /// An envelope around `payload`.
    pub fn new(id: Uuid, ts: i64, payload: Payload) -> Self {
        Self { id, id_text: id.to_string(), ts, payload }
    }

    /// Its JSON text.
    pub fn encode(&self) -> Vec<u8> {
        let wire =
            Wire { v: VERSION, kind: self.payload.kind(), id: self.id, ts: self.ts, payload: &self.payload };
        // Maps with string keys, numbers and text: none of what makes serde_json fail can occur.
        serde_json::to_vec(&wire).unwrap_or_default()
    }

    /// Reads a payload at `now` (unix milliseconds), checking version, age, members and kind in that order. The counter
    /// was checked before anything was decrypted.
    pub fn parse(bytes: &[u8], now: i64) -> Result<Self, Discard> {
        let Ok(Value::Object(members)) = serde_json::from_slice(bytes) else { return Err(Discard::NotJson) };
        if members.get("v").and_then(Value::as_u64) != Some(VERSION) {
            return Err(Discard::Version);
        }
        let kind = members.get("kind").and_then(Value::as_str).unwrap_or("?").to_owned();
        let malformed = || Discard::Malformed { kind: harmless(&kind) };
        let ts = members.get("ts").and_then(Value::as_i64).ok_or_else(malformed)?;
        if now.abs_diff(ts) > MAX_AGE_MS {
            return Err(Discard::Age);
        }
        let id_text = members.get("id").and_then(Value::as_str).ok_or_else(malformed)?.to_owned();
        let id = id_text.parse().map_err(|_| malformed())?;
        if !members.get("kind").is_some_and(Value::is_string) {
            return Err(malformed());
        }
        match Payload::read(&kind, Value::Object(members)) {
            Some(Ok(payload)) => Ok(Self { id, id_text, ts, payload }),
            Some(Err(())) => Err(malformed()),
            None => Err(Discard::UnknownKind { kind: harmless(&kind) }),
        }
    }
}

/// A kind as it may stand in a log: short, and of the letters kinds are made of.
fn harmless(kind: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '?' };
    kind.chars().take(40).map(plain).collect()
}
