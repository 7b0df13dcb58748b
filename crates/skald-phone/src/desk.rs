//! What the device knows and has on its way, as a state machine without files, sockets or clock: snapshots come in,
//! answers are taken, and a later snapshot says what became of them.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::draft::Draft;
use crate::failure::{Failure, Outcome};
use crate::snapshot::{Item, Kind, Snapshot};
use crate::text::one_line;

/// More than a person reads back; older ones go first.
const MAX_NOTES: usize = 200;
/// Waiting commands look for their answer here; each looks within its own deadline.
const MAX_CONCLUDED: usize = 64;

/// An answer that was taken and is not confirmed yet. Kept sealed on disk until it is.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Names this answer: the payload's id.
    pub token: String,
    /// The item it answers.
    pub request_id: String,
    /// What was decided.
    pub draft: Draft,
    /// The item's digest when it was answered, lowercase hex.
    pub digest: Option<String>,
    /// The sealed payload's JSON; the same every time it is sent, so that the host knows it again.
    pub payload: String,
    /// The item in a few words.
    pub title: String,
    /// When the item lapses.
    pub expires_at: Option<i64>,
    /// Set, durably, before it is handed to a connection for the first time.
    pub left: bool,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("request_id", &self.request_id)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The item was there, the answer went out, the item is gone.
    Done,
    /// The item was gone before the answer went out.
    Elsewhere,
    /// The item is gone, and it had lapsed by then: the answer may have come too late.
    Lapsed,
    /// The item is still there with another content: the answer was to what no longer stands.
    Changed,
    /// The host read the answer and the item still stands: the answer does not fit what was asked.
    Refused,
}

/// An answer that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Concluded {
    /// The answer's token.
    pub token: String,
    /// The item.
    pub request_id: String,
    /// What was decided.
    pub what: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// Something to tell a person once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Rises by one; a reader says up to which one it showed.
    pub seq: u64,
    /// One line.
    pub title: String,
    /// More, perhaps empty.
    pub body: String,
    /// When it came, unix milliseconds.
    pub at: i64,
}

/// What is kept between runs, sealed, besides the outbox.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The last `inbox_update`'s members.
    pub inbox: Option<Value>,
    /// When it came.
    pub received_at: Option<i64>,
    /// Digest of each item as it was last shown to a person.
    pub shown: BTreeMap<String, String>,
    /// Not shown yet.
    pub notes: VecDeque<Note>,
    /// The next note's number.
    pub next_note: u64,
    /// What the host was last told of this device, once it is proved that it was told.
    pub greeted: Option<String>,
}

/// The device's state.
#[derive(Debug, Default)]
pub struct Desk {
    /// What is kept between runs.
    pub memory: Memory,
    /// The last snapshot, read.
    pub inbox: Option<Snapshot>,
    /// How many live snapshots came in this run.
    pub fresh: u64,
    /// Answers on their way.
    pub outbox: Vec<Entry>,
    /// Answers that came to an end in this run.
    pub concluded: VecDeque<Concluded>,
    /// When the host said that it read an answer, on the host's clock, by the answer's token. Not kept: an answer that is
    /// sent again is acknowledged again.
    pub read: BTreeMap<String, i64>,
}

/// What a snapshot changed.
#[derive(Debug, Default, PartialEq)]
pub struct Settled {
    /// Answers to remove from the outbox on disk.
    pub over: Vec<String>,
    /// The snapshot does not list everything; a live one may.
    pub ask_again: bool,
}

impl Desk {
    /// Starts from what was kept.
    pub fn new(memory: Memory, outbox: Vec<Entry>) -> Self {
        let inbox = memory.inbox.as_ref().map(Snapshot::of);
        Self { memory, inbox, fresh: 0, outbox, concluded: VecDeque::new(), read: BTreeMap::new() }
    }

    /// Takes an `inbox_update`. The counter check has already put snapshots in the order the host made them, so one
    /// that lacks an item this device once saw was made after that item ended.
    pub fn snapshot(&mut self, update: &Value, live: bool, now: i64) -> Settled {
        let inbox = Snapshot::of(update);
        // Items too large for the message are counted and not listed: absence proves nothing then.
        let whole = inbox.badge <= inbox.items.len() as u64;
        let mut settled = Settled { over: Vec::new(), ask_again: !whole && !live };
        let made = update.get("ts").and_then(Value::as_i64);
        // The host acts on an answer before it acknowledges it, so the item that a later snapshot lists was not ended.
        let refused = |token: &String| {
            let read = self.read.get(token);
            live && read.is_some_and(|read| made.is_some_and(|made| made > *read))
        };
        for entry in &self.outbox {
            let verdict = match inbox.get(&entry.request_id) {
                Some(item) => {
                    let same = entry.digest.is_none() || item.digest().map(|d| d.to_string()) == entry.digest;
                    match same {
                        true if refused(&entry.token) => Some(Verdict::Refused),
                        true => None,
                        false => Some(Verdict::Changed),
                    }
                }
                None if !whole => None,
                None if !entry.left => Some(Verdict::Elsewhere),
                None if entry.expires_at.is_some_and(|e| e <= now) => Some(Verdict::Lapsed),
                None => Some(Verdict::Done),
            };
            if let Some(verdict) = verdict {
                settled.over.push(entry.request_id.clone());
                self.concluded.push_back(Concluded {
                    token: entry.token.clone(),
                    request_id: entry.request_id.clone(),
                    what: entry.draft.what().into(),
                    verdict,
                });
            }
        }
        while self.concluded.len() > MAX_CONCLUDED {
            self.concluded.pop_front();
        }
        self.outbox.retain(|e| !settled.over.contains(&e.request_id));
        self.read.retain(|token, _| self.outbox.iter().any(|e| e.token == *token));
        self.memory.shown.retain(|id, _| inbox.get(id).is_some());
        self.memory.inbox = Some(inbox.to_value());
        self.memory.received_at = Some(now);
        self.inbox = Some(inbox);
        if live {
            self.fresh += 1;
        }
        settled
    }

    /// Notes that the host read an answer at `at` on its clock. Gives back whether it is one that is on its way.
    pub fn read(&mut self, token: &str, at: i64) -> bool {
        let ours = self.outbox.iter().any(|e| e.token == token);
        if ours {
            self.read.insert(token.to_owned(), at);
        }
        ours
    }

    /// Adds something to tell.
    pub fn note(&mut self, title: &str, body: &str, at: i64) {
        let seq = self.memory.next_note;
        self.memory.next_note += 1;
        self.memory.notes.push_back(Note { seq, title: title.into(), body: body.into(), at });
        while self.memory.notes.len() > MAX_NOTES {
            self.memory.notes.pop_front();
        }
    }

    /// Remembers what a person saw. Gives back whether anything changed.
    pub fn shown(&mut self, digests: &BTreeMap<String, String>, notes_below: u64) -> bool {
        let before = self.memory.notes.len();
        self.memory.notes.retain(|n| n.seq >= notes_below);
        let mut changed = before != self.memory.notes.len();
        for (id, digest) in digests {
            if self.inbox.as_ref().is_some_and(|i| i.get(id).is_some()) {
                changed |= self.memory.shown.insert(id.clone(), digest.clone()).as_ref() != Some(digest);
            }
        }
        changed
    }

    /// Items whose content is another than what a person was last shown.
    pub fn changed_since_shown(&self) -> Vec<String> {
        let Some(inbox) = &self.inbox else { return Vec::new() };
        let differs = |item: &&Item| {
            self.memory
                .shown
                .get(&item.id)
                .is_some_and(|d| item.digest().map(|d| d.to_string()).as_ref() != Some(d))
        };
        inbox.items.iter().filter(differs).map(|i| i.id.clone()).collect()
    }

    /// Checks an answer against what is known. `Ok(None)`: the same answer is already on its way.
    pub fn check(&self, request_id: &str, digest: Option<&str>, draft: &Draft) -> Outcome<Option<&Item>> {
        if let Some(entry) = self.outbox.iter().find(|e| e.request_id == request_id) {
            if entry.draft == *draft {
                return Ok(None);
            }
            // What may have left cannot be called back: the host takes the first answer it gets.
            if entry.left {
                return Err(Failure::refused(format!(
                    "You already answered this ({}); that answer is on its way and stands if it is the first.",
                    entry.draft.what()
                )));
            }
        }
        let item = self.inbox.as_ref().and_then(|i| i.get(request_id)).ok_or_else(gone)?;
        if item.kind != draft.kind() {
            return Err(wrong_kind(item));
        }
        if digest.is_some() && item.digest().map(|d| d.to_string()).as_deref() != digest {
            return Err(changed());
        }
        Ok(Some(item))
    }

    /// Takes an answer whose entry is already durable.
    pub fn take(&mut self, entry: Entry) {
        self.outbox.retain(|e| e.request_id != entry.request_id);
        self.outbox.push(entry);
    }
}

/// A few words on an item, for later.
pub fn title(item: &Item) -> String {
    let member = match item.kind {
        Kind::Approval => "summary",
        Kind::Clarification => "question",
        Kind::Elicitation => "message",
    };
    let line = item.text(member).unwrap_or_default().lines().next().unwrap_or_default();
    skald_payloads::clip(&one_line(line), 100)
}

/// The item is not in the Inbox.
pub fn gone() -> Failure {
    Failure::refused("This is not in the inbox any more: it was answered elsewhere, withdrawn or has lapsed.")
}

/// The item is another than the person saw.
pub fn changed() -> Failure {
    Failure::refused(
        "The request changed since you looked; nothing was sent: look at it again and decide anew.",
    )
}

/// The command does not answer this kind of item.
pub fn wrong_kind(item: &Item) -> Failure {
    let article = if item.kind == Kind::Approval { "an" } else { "a" };
    Failure::usage(format!("This is {article} {}: use {} for it.", item.kind.word(), item.kind.commands()))
}

#[cfg(test)]
mod tests;
