//! Inside the ciphertext: `version ‖ comp ‖ body` (framing.md).

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};
use skald_relay_common::limits::{MAX_LIVE_CIPHERTEXT, MAX_STORED_CIPHERTEXT};

use crate::signal::{PipeSignal, SignalError};

/// Framing version of a JSON payload.
pub const VERSION_JSON: u8 = 0x01;
/// Framing version of a pipe signal.
pub const VERSION_PIPE: u8 = 0x02;
const COMP_NONE: u8 = 0x00;
const COMP_ZLIB: u8 = 0x01;

/// Bodies up to this size are never compressed.
pub const COMPRESS_ABOVE: usize = 1_024;
/// What a body may inflate to.
pub const MAX_INFLATED: usize = 8 << 20;
/// The ciphertext limit of a delivery class.
pub const fn max_ciphertext(live: bool) -> usize {
    if live { MAX_LIVE_CIPHERTEXT } else { MAX_STORED_CIPHERTEXT }
}

/// How long the ciphertext of a framed plaintext will be.
pub const fn sealed_len(framed: usize) -> usize {
    framed + crate::session::TAG_LEN
}

/// A plaintext, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub enum Framed {
    /// A JSON payload, inflated. Whether it is JSON is for who reads it to say.
    Json(Vec<u8>),
    /// A pipe signal.
    Signal(PipeSignal),
}

/// The plaintext is discarded; the text names no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// Fewer than two bytes.
    #[error("the plaintext is too short to be framed")]
    Short,
    /// A framing version of another time.
    #[error("framing version {0} is not known")]
    Version(u8),
    /// A compression this reader does not have.
    #[error("compression {0} is not known")]
    Compression(u8),
    /// Not a whole zlib stream.
    #[error("the compressed body is damaged")]
    Damaged,
    /// It would inflate past [`MAX_INFLATED`].
    #[error("the body inflates to more than 8 MiB")]
    TooLarge,
    /// Not a pipe signal.
    #[error("the pipe signal is malformed")]
    Signal(#[from] SignalError),
}

/// Frames a JSON payload, compressed where that is allowed and helps.
pub fn encode_json(body: &[u8]) -> Vec<u8> {
    if body.len() > COMPRESS_ABOVE
        && let Some(packed) = deflate(body)
        && packed.len() < body.len() + 2
    {
        return packed;
    }
    let mut out = Vec::with_capacity(sealed_len(body.len() + 2));
    out.extend_from_slice(&[VERSION_JSON, COMP_NONE]);
    out.extend_from_slice(body);
    out
}

/// Frames a pipe signal.
pub fn encode_signal(signal: &PipeSignal) -> Vec<u8> {
    let body = signal.encode();
    let mut out = Vec::with_capacity(sealed_len(body.len() + 2));
    out.extend_from_slice(&[VERSION_PIPE, COMP_NONE]);
    out.extend_from_slice(&body);
    out
}

/// Whether an opened plaintext is a pipe signal (pipe §2).
pub fn is_pipe_signal(plaintext: &[u8]) -> bool {
    plaintext.first() == Some(&VERSION_PIPE)
}

/// Takes a plaintext apart. Memory stays within [`MAX_INFLATED`] plus a constant, whatever the input claims.
pub fn decode(mut plaintext: Vec<u8>) -> Result<Framed, FramingError> {
    let (&[version, comp], body) = plaintext.split_first_chunk::<2>().ok_or(FramingError::Short)?;
    match (version, comp) {
        (VERSION_JSON, COMP_NONE) => {
            plaintext.drain(..2);
            Ok(Framed::Json(plaintext))
        }
        (VERSION_JSON, COMP_ZLIB) => inflate(body).map(Framed::Json),
        (VERSION_PIPE, COMP_NONE) => Ok(Framed::Signal(PipeSignal::decode(body)?)),
        (VERSION_JSON | VERSION_PIPE, other) => Err(FramingError::Compression(other)),
        (other, _) => Err(FramingError::Version(other)),
    }
}

fn deflate(body: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len() / 2);
    out.extend_from_slice(&[VERSION_JSON, COMP_ZLIB]);
    let mut encoder = ZlibEncoder::new(out, Compression::default());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

fn inflate(mut input: &[u8]) -> Result<Vec<u8>, FramingError> {
    let mut state = Decompress::new(true);
    let mut chunk = [0u8; 16 * 1024];
    let mut out = Vec::with_capacity(input.len().saturating_mul(3).min(MAX_INFLATED));
    loop {
        let (in_before, out_before) = (state.total_in(), state.total_out());
        let status =
            state.decompress(input, &mut chunk, FlushDecompress::None).map_err(|_| FramingError::Damaged)?;
        let consumed = (state.total_in() - in_before) as usize;
        let produced = (state.total_out() - out_before) as usize;
        // Checked before it is kept, so the bomb is found out one chunk past the limit.
        if out.len() + produced > MAX_INFLATED {
            return Err(FramingError::TooLarge);
        }
        out.extend_from_slice(&chunk[..produced]);
        input = &input[consumed..];
        match status {
            // Bytes after the end of the stream belong to nothing.
            Status::StreamEnd if input.is_empty() => return Ok(out),
            Status::StreamEnd => return Err(FramingError::Damaged),
            _ if consumed == 0 && produced == 0 => return Err(FramingError::Damaged),
            _ => {}
        }
    }
}
