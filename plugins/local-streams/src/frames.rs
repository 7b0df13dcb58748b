//! Frames on a stream (docs/protocol/streams.md).

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use skald_payloads::streams::{self, FrameHead, FrameKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// A device that takes nothing for so long is gone.
const TAKEN: Duration = Duration::from_secs(120);

/// Reads frames. A call that was dropped half-way leaves the stream unusable.
pub(crate) struct FrameReader<R> {
    from: BufReader<R>,
    body: Vec<u8>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from: BufReader::with_capacity(32 * 1024, from), body: Vec::new() }
    }

    /// The next frame's kind; its body is [`Self::body`]. `None`: the stream ended between two frames.
    pub(crate) async fn next(&mut self) -> io::Result<Option<FrameKind>> {
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
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body of the last frame, to keep.
    pub(crate) fn take_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// Gives a buffer back, so that the next body needs no new one.
    pub(crate) fn give_back(&mut self, body: Vec<u8>) {
        self.body = body;
    }

    /// What the next frame says. `None`: the stream ended.
    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        match self.next().await? {
            None => Ok(None),
            Some(FrameKind::Say) => streams::read(&self.body).map(Some).map_err(invalid),
            Some(_) => Err(invalid(streams::NotAFrame::Body)),
        }
    }

    /// Waits for the end of the stream; whatever still comes is thrown away.
    pub(crate) async fn ended(&mut self) {
        let mut rest = [0; 1024];
        while self.from.read(&mut rest).await.is_ok_and(|n| n > 0) {}
    }
}

fn invalid(error: streams::NotAFrame) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Says one thing.
pub(crate) async fn say<W: AsyncWrite + Unpin>(to: &mut W, what: &impl Serialize) -> io::Result<()> {
    put(to, &streams::say(what).map_err(invalid)?).await
}

/// Writes whole frames, with a deadline.
pub(crate) async fn put<W: AsyncWrite + Unpin>(to: &mut W, frames: &[u8]) -> io::Result<()> {
    let all = async {
        to.write_all(frames).await?;
        to.flush().await
    };
    timeout(TAKEN, all).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A buffer for a data frame: its body begins at [`FrameHead::LEN`].
pub(crate) fn buffer(body: usize) -> Vec<u8> {
    vec![0; FrameHead::LEN + body]
}

/// Writes the head before a body of `len` bytes and gives the whole frame.
pub(crate) fn data(buffer: &mut [u8], len: usize) -> &[u8] {
    let head = FrameHead { kind: FrameKind::Data, len };
    buffer[..FrameHead::LEN].copy_from_slice(&head.encode());
    &buffer[..FrameHead::LEN + len]
}

/// The frame that ends a direction.
pub(crate) fn end() -> [u8; FrameHead::LEN] {
    FrameHead { kind: FrameKind::End, len: 0 }.encode()
}
