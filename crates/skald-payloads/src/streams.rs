//! What is said inside the streams `file`, `log` and `tcp` (docs/protocol/streams.md).
//!
//! Every stream is a row of frames: a kind, a length, a body. A stream says by itself where each thing ends, so it
//! needs a pipe that keeps bytes in order and nothing more.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// The type of stream that lists, fetches and sends files.
pub const FILE: &str = "file";
/// The type of stream that follows the host's log.
pub const LOG: &str = "log";
/// The type of stream that leads to a port of the host's machine.
pub const TCP: &str = "tcp";
/// The header of an invitation to [`TCP`] that says which port, by its name.
pub const NAME: &str = "name";

/// Longest body of a [`FrameKind::Say`].
pub const MAX_SAY: usize = 128 * 1024;
/// Longest body of a [`FrameKind::Data`].
pub const MAX_DATA: usize = 256 * 1024;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// One JSON object.
    Say,
    /// Bytes of a file or of a connection.
    Data,
    /// This direction of a connection is over. Empty.
    End,
}

/// The beginning of a frame: its kind and how many bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// What follows.
    pub kind: FrameKind,
    /// Bytes that follow.
    pub len: usize,
}

/// Bytes that are no frame of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAFrame {
    /// The first byte names no kind.
    #[error("a frame of an unknown kind")]
    Kind,
    /// Longer than its kind may be.
    #[error("a frame that is too long")]
    Long,
    /// The body is not what was expected here.
    #[error("a frame that cannot be read")]
    Body,
}

impl FrameHead {
    /// Bytes of a head.
    pub const LEN: usize = 5;

    /// The head of a frame with `len` bytes. `None`: too long for its kind.
    pub fn new(kind: FrameKind, len: usize) -> Option<Self> {
        (len <= Self::most(kind)).then_some(Self { kind, len })
    }

    fn most(kind: FrameKind) -> usize {
        match kind {
            FrameKind::Say => MAX_SAY,
            FrameKind::Data => MAX_DATA,
            FrameKind::End => 0,
        }
    }

    /// A letter and the length in big-endian order.
    pub fn encode(self) -> [u8; Self::LEN] {
        let letter = match self.kind {
            FrameKind::Say => b'j',
            FrameKind::Data => b'd',
            FrameKind::End => b'e',
        };
        // `new` and `parse` let no length in that does not fit.
        let [a, b, c, d] = (self.len as u32).to_be_bytes();
        [letter, a, b, c, d]
    }

    /// Reads a head.
    pub fn parse(bytes: [u8; Self::LEN]) -> Result<Self, NotAFrame> {
        let [letter, a, b, c, d] = bytes;
        let kind = match letter {
            b'j' => FrameKind::Say,
            b'd' => FrameKind::Data,
            b'e' => FrameKind::End,
            _ => return Err(NotAFrame::Kind),
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        Self::new(kind, len).ok_or(NotAFrame::Long)
    }
}

/// A whole frame that says `what`.
pub fn say(what: &impl Serialize) -> Result<Vec<u8>, NotAFrame> {
    let body = serde_json::to_vec(what).map_err(|_| NotAFrame::Body)?;
    let head = FrameHead::new(FrameKind::Say, body.len()).ok_or(NotAFrame::Long)?;
    let mut frame = Vec::with_capacity(FrameHead::LEN + body.len());
    frame.extend_from_slice(&head.encode());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// What a frame's body says.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, NotAFrame> {
    serde_json::from_slice(body).map_err(|_| NotAFrame::Body)
}

/// What a device asks on a stream of type [`FILE`]: one after the other, each answered to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum FileRequest {
    /// The folders that are offered.
    Folders,
    /// What is in a folder.
    List {
        /// `FOLDER` or `FOLDER/PATH`.
        path: String,
    },
    /// A file from its beginning, from where an earlier stream broke, or a part of it.
    Get {
        /// `FOLDER/PATH`.
        path: String,
        /// What is there already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        have: Option<Prefix>,
        /// The part that is wanted. Not together with `have`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<Span>,
    },
    /// A file for the host. Answered with [`FileReply::Have`]; then come [`FileRequest::From`] and the data.
    Put {
        /// `FOLDER/PATH`.
        path: String,
        /// Bytes of the whole.
        size: u64,
        /// SHA-256 of the whole.
        sha256: Digest,
        /// Whether a file of that name may be replaced.
        #[serde(default)]
        overwrite: bool,
    },
    /// Where the data that follows begins: what the host has, or 0.
    From {
        /// Bytes before it.
        at: u64,
    },
}

/// The beginning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// How many bytes.
    pub at: u64,
    /// Their SHA-256.
    pub sha256: Digest,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Bytes before it.
    pub at: u64,
    /// How many bytes; the file's end may come sooner.
    pub len: u64,
}

/// A folder that is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderInfo {
    /// Its name.
    pub name: String,
    /// Whether files may be put there.
    pub write: bool,
    /// Largest file that may be put there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file: Option<u64>,
}

/// What a name in a folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A file that can be fetched.
    File,
    /// A folder that can be listed.
    Folder,
    /// Something that is not followed or opened: a symbolic link, a device, a name that is no text.
    #[serde(other)]
    Other,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name, as it is: whoever shows it guards against control characters.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was changed last, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
}

/// What the host answers on a stream of type [`FILE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "re", rename_all = "snake_case")]
pub enum FileReply {
    /// The folders.
    Folders {
        /// Each of them that this device may use.
        folders: Vec<FolderInfo>,
    },
    /// Some of what is in a folder; [`FileReply::End`] follows the last.
    Entries {
        /// In the order of their names.
        entries: Vec<Entry>,
    },
    /// The host still reads what is there already. Says that it lives.
    Checking {
        /// Bytes looked at so far.
        at: u64,
    },
    /// Data follows, `len` bytes of it.
    File {
        /// Bytes of the whole file.
        size: u64,
        /// Where the data begins.
        at: u64,
        /// How many bytes follow.
        len: u64,
        /// When it was changed last, unix milliseconds.
        modified: i64,
    },
    /// So much of a file to be put is there from an earlier stream.
    Have {
        /// How many bytes.
        at: u64,
        /// Their SHA-256.
        sha256: Digest,
    },
    /// So much of what is put has been written.
    Got {
        /// How many bytes.
        at: u64,
    },
    /// It is done.
    End {
        /// SHA-256 of the whole file, or of the part that was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<Digest>,
        /// There is more in the folder than is told.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// It cannot be done. After one in the middle of data the stream ends.
    Error(StreamFault),
}

/// Why something cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFault {
    /// For programs.
    pub code: FaultCode,
    /// For people: one plain sentence, without content.
    pub text: String,
}

/// What a [`StreamFault`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// No folder, port or stream of that name is offered.
    NotOffered,
    /// This device may not use it.
    NotPermitted,
    /// There is no such file or folder.
    NotFound,
    /// The path cannot be one.
    BadPath,
    /// A link, a device or another thing that is not opened.
    NotAFile,
    /// It is a folder.
    IsAFolder,
    /// It is a file.
    IsAFile,
    /// Files may not be put there.
    ReadOnly,
    /// There is a file of that name.
    Exists,
    /// Larger than is allowed.
    TooLarge,
    /// As much was put there today as is allowed.
    Quota,
    /// There is no room on the host's disk.
    DiskFull,
    /// It changed between two streams, or while it was read.
    Changed,
    /// What came is not what was announced.
    Mismatch,
    /// Too many at once.
    Busy,
    /// The port does not answer.
    Unreachable,
    /// The host's system reports an error.
    Failed,
    /// What was asked cannot be understood.
    #[serde(other)]
    BadRequest,
}

/// How much a line of the log matters, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is not as it should be.
    Warn,
    /// What the host does.
    Info,
    /// For who looks for something.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// What a device asks on a stream of type [`LOG`], once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRequest {
    /// How many of the last lines.
    pub lines: u32,
    /// Whether to go on with every new line.
    #[serde(default)]
    pub follow: bool,
    /// The least grave level that is wanted.
    pub level: LogLevel,
}

/// What the host answers on a stream of type [`LOG`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "re", rename_all = "snake_case")]
pub enum LogReply {
    /// One line.
    Line {
        /// Its number since the host started; they rise, and the filter leaves gaps.
        seq: u64,
        /// When, unix milliseconds.
        at: i64,
        /// How grave.
        level: LogLevel,
        /// Which part of the host.
        target: String,
        /// What.
        text: String,
    },
    /// So many lines went by faster than they were taken.
    Lost {
        /// How many, of any level.
        count: u64,
    },
    /// Nothing happens. Says that the host lives.
    Idle,
    /// There are no more lines.
    End,
    /// It cannot be done.
    Error(StreamFault),
}

/// What the host says first on a stream of type [`TCP`]; then come data and ends, in both directions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "re", rename_all = "snake_case")]
pub enum TcpReply {
    /// The port has taken the connection.
    Open,
    /// It has not.
    Error(StreamFault),
}

#[cfg(test)]
mod tests;
