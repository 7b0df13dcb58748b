//! What two processes on one home say to each other over the home's socket: one JSON object a line.
//!
//! The process that holds the home's lock is the only one that talks to the relay, so counters have one owner and the
//! relay sees one connection. Every command, that process's own included, speaks this language to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::desk::{Concluded, Note};
use crate::draft::Draft;
use crate::failure::{Code, Failure, Outcome};

/// A whole Inbox inflates to 8 MiB at most; escaped as JSON once more it stays below this.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// What a command asks of the holder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Send the view now and at every change, and ask the host for its Inbox.
    Watch,
    /// A person saw these items, and all notes below that number. Allowed while watching; not answered.
    Shown {
        /// Digest by item.
        digests: BTreeMap<String, String>,
        /// The first note that was not shown.
        notes_below: u64,
    },
    /// Keep and send an answer. Answered with `Kept` or `Failed`.
    Answer {
        /// The item.
        request_id: String,
        /// The item's digest as the person saw it.
        digest: Option<String>,
        /// What was decided.
        draft: Draft,
    },
    /// Open a pipe to the host's pages. After `Ready` the socket carries its bytes.
    Pipe,
    /// Keep a way to the host's pages open for as long as this conversation lasts. Not answered.
    Warm,
    /// Open a stream of another type. After `Ready` the socket carries its bytes.
    Stream {
        /// The type.
        stream_type: String,
        /// What the host is told with it.
        headers: BTreeMap<String, String>,
    },
    /// Tell the host to forget this device, then delete the keys. Answered with `Done` or `Failed`.
    Logout {
        /// Delete the keys even when the host cannot be told.
        force: bool,
        /// How long to wait for the host.
        wait_ms: u64,
    },
}

/// What the holder answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "re", rename_all = "snake_case")]
pub enum Reply {
    /// How things stand.
    View(Box<View>),
    /// The answer is durable.
    Kept {
        /// Names the answer among those concluded.
        token: String,
    },
    /// The pipe is open.
    Ready {
        /// Whether it is one of many in one pipe, so that another costs next to nothing.
        #[serde(default)]
        cheap: bool,
    },
    /// It is done.
    Done,
    /// It could not be done.
    Failed {
        /// See [`Code::word`].
        code: String,
        /// For people.
        sentence: String,
    },
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        Self::Failed { code: failure.code.word().into(), sentence: failure.sentence }
    }
}

/// Where the connection to the relay stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Not there yet, or lost and tried again.
    #[default]
    Connecting,
    /// Authenticated.
    Connected,
    /// The host has not admitted this device, or no longer does.
    NotAdmitted,
    /// It will not come back by itself.
    Stopped,
}

/// Whether the host is connected to the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// Nothing was heard yet.
    #[default]
    Unknown,
    /// It is.
    Online,
    /// It is not.
    Offline,
}

/// An answer that is not confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingAnswer {
    /// The item.
    pub request_id: String,
    /// What was decided, in a word.
    pub what: String,
    /// The item in a few words.
    pub title: String,
}

/// How things stand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The connection to the relay.
    pub link: Link,
    /// What went wrong last, one plain sentence.
    pub error: Option<String>,
    /// The host.
    pub host: HostState,
    /// The members of the last `inbox_update`.
    pub inbox: Option<Value>,
    /// When it came, unix milliseconds.
    pub received_at: Option<i64>,
    /// How many live snapshots came since the holder started.
    pub fresh: u64,
    /// Answers on their way.
    pub pending: Vec<PendingAnswer>,
    /// Answers that came to an end since the holder started.
    pub concluded: Vec<Concluded>,
    /// Not shown yet.
    pub notes: Vec<Note>,
    /// Items that changed since a person saw them.
    pub changed: Vec<String>,
}

/// One end of the socket.
pub struct Conversation {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Conversation {
    /// Speaks over `stream`.
    pub fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { reader: BufReader::new(reader), writer }
    }

    /// Says one thing.
    pub async fn say(&mut self, what: &impl Serialize) -> std::io::Result<()> {
        say(&mut self.writer, what).await
    }

    /// Hears one thing. `None`: the other end is gone.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> Option<T> {
        hear(&mut self.reader).await
    }

    /// Hears an answer; a failure becomes the caller's. `Ok(None)`: the holder is gone, ask its successor.
    pub async fn answer(&mut self) -> Outcome<Option<Reply>> {
        match self.hear().await {
            Some(Reply::Failed { code, sentence }) => Err(Failure { code: Code::from_word(&code), sentence }),
            other => Ok(other),
        }
    }

    /// The two directions apart.
    pub fn split(self) -> (BufReader<OwnedReadHalf>, OwnedWriteHalf) {
        (self.reader, self.writer)
    }
}

/// Writes one line.
pub async fn say(writer: &mut (impl AsyncWrite + Unpin), what: &impl Serialize) -> std::io::Result<()> {
    let mut line = zeroize::Zeroizing::new(serde_json::to_vec(what)?);
    line.push(b'\n');
    writer.write_all(&line).await?;
    writer.flush().await
}

/// Reads one line. `None`: end, error or something that is not this language. Not cancel-safe.
pub async fn hear<T: DeserializeOwned>(reader: &mut BufReader<impl AsyncRead + Unpin>) -> Option<T> {
    let mut line = zeroize::Zeroizing::new(Vec::new());
    let read = reader.take(MAX_LINE).read_until(b'\n', &mut line).await.ok()?;
    if read == 0 || !line.ends_with(b"\n") {
        return None;
    }
    serde_json::from_slice(&line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_ends_understand_each_other() {
        let (a, b) = UnixStream::pair().expect("pair");
        let (mut a, mut b) = (Conversation::new(a), Conversation::new(b));
        let draft = Draft::Clarification { answer: "line\nbreak".into() };
        a.say(&Request::Answer { request_id: "r".into(), digest: None, draft: draft.clone() })
            .await
            .expect("said");
        let heard = b.hear::<Request>().await;
        assert!(matches!(heard, Some(Request::Answer { draft: d, .. }) if d == draft));
        b.say(&Reply::from(Failure::unreachable("No."))).await.expect("said");
        assert_eq!(a.answer().await.expect_err("failure"), Failure::unreachable("No."));
        drop(b);
        assert!(a.answer().await.expect("no failure").is_none());
    }

    #[tokio::test]
    async fn what_is_not_this_language_ends_the_conversation() {
        let (mut a, b) = UnixStream::pair().expect("pair");
        a.write_all(b"GET / HTTP/1.1\n").await.expect("written");
        assert!(Conversation::new(b).hear::<Request>().await.is_none());
    }
}
