//! Streams to the host beside its pages: files, its log, ports of its machine (docs/protocol/streams.md).

pub mod part;
pub mod progress;
pub mod retry;
pub mod words;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use skald_payloads::streams::{self, FrameHead, FrameKind, StreamFault};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::failure::{Failure, Outcome};
use crate::session::Session;
use crate::wire::{Reply, Request};

/// How long opening a stream may take; the connection beneath has shorter deadlines of its own.
const OPENING: Duration = Duration::from_secs(45);
/// A host that says nothing for so long is gone: it speaks at least every 30 s while it has something to do.
pub const SILENT: Duration = Duration::from_secs(75);

/// The host's end of a stream, as read here.
pub struct Incoming<R = OwnedReadHalf> {
    from: BufReader<R>,
    body: Vec<u8>,
}

/// The host's end of a stream, as written to.
pub type Outgoing = OwnedWriteHalf;

/// Why a stream is of no further use.
#[derive(Debug)]
pub enum Trouble {
    /// It broke; another may do better.
    Broken,
    /// The host says no.
    Fault(StreamFault),
    /// It cannot go on on this side.
    Failure(Failure),
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Opens a stream of this type.
pub async fn open(
    session: &Session,
    stream_type: &str,
    headers: &[(&str, &str)],
) -> Outcome<(Incoming, Outgoing)> {
    let headers: BTreeMap<String, String> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let opened = async {
        loop {
            let mut conversation = session.converse().await?;
            let request = Request::Stream { stream_type: stream_type.to_owned(), headers: headers.clone() };
            if conversation.say(&request).await.is_ok()
                && let Some(Reply::Ready { .. }) = conversation.answer().await?
            {
                let (reader, writer) = conversation.split();
                return Ok((Incoming::new(reader), writer));
            }
            session.pause().await;
        }
    };
    let late = || Err(Failure::unreachable("Your host did not answer in time; try again."));
    timeout(OPENING, opened).await.unwrap_or_else(|_| late())
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// Reads from `from`.
    pub fn new(from: BufReader<R>) -> Self {
        Self { from, body: Vec::new() }
    }

    /// The next frame's kind; its body is [`Self::body`]. `None`: the stream is over. Not cancel-safe.
    pub async fn next(&mut self) -> io::Result<Option<FrameKind>> {
        let mut head = [0; FrameHead::LEN];
        if self.from.read(&mut head[..1]).await? == 0 {
            return Ok(None);
        }
        self.from.read_exact(&mut head[1..]).await?;
        let head = FrameHead::parse(head).map_err(invalid)?;
        self.body.resize(head.len, 0);
        self.from.read_exact(&mut self.body).await?;
        Ok(Some(head.kind))
    }

    /// The body of the last frame.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// What the next frame says, provided that the host speaks in time.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> Result<T, Trouble> {
        match timeout(SILENT, self.next()).await {
            Ok(Ok(Some(FrameKind::Say))) => Ok(self.said()?),
            _ => Err(Trouble::Broken),
        }
    }

    /// What the last frame says.
    pub fn said<T: DeserializeOwned>(&self) -> io::Result<T> {
        streams::read(&self.body).map_err(invalid)
    }
}

fn invalid(error: streams::NotAFrame) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Says one thing.
pub async fn say(to: &mut (impl AsyncWrite + Unpin), what: &impl Serialize) -> io::Result<()> {
    to.write_all(&streams::say(what).map_err(invalid)?).await?;
    to.flush().await
}

/// Sends the `len` bytes of `buffer` behind the place of a head, which it fills.
pub async fn send(to: &mut (impl AsyncWrite + Unpin), buffer: &mut [u8], len: usize) -> io::Result<()> {
    buffer[..FrameHead::LEN].copy_from_slice(&FrameHead { kind: FrameKind::Data, len }.encode());
    to.write_all(&buffer[..FrameHead::LEN + len]).await
}

/// Says that this direction is over.
pub async fn end(to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    to.write_all(&FrameHead { kind: FrameKind::End, len: 0 }.encode()).await?;
    to.flush().await
}
