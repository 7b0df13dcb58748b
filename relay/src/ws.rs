//! The server's side of WebSocket (RFC 6455), in the shape a relay needs.
//!
//! A relay wants three things of this layer that general libraries do not give together: a frame over the limit is
//! refused when its header is seen, a resting connection holds no buffer, and a pipe's frames pass through without
//! ever being put together. Extensions are never negotiated: ciphertext does not compress.

pub(crate) mod decoder;
pub(crate) mod header;
pub(crate) mod socket;

use bytes::Bytes;

pub(crate) use decoder::{DecodeError, Decoder, Incoming};
pub(crate) use socket::{Io, Socket};

use header::Opcode;

/// Why a connection is closed, as the peer reads it (RFC 6455 §7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseCode {
    /// Nothing is wrong.
    Normal,
    /// The relay goes away: come back in a moment.
    GoingAway,
    /// The peer broke WebSocket's rules.
    Protocol,
    /// The peer may not do this.
    Policy,
    /// A frame was too large.
    TooBig,
    /// The relay failed.
    Internal,
}

impl CloseCode {
    pub(crate) const fn number(self) -> u16 {
        match self {
            Self::Normal => 1000,
            Self::GoingAway => 1001,
            Self::Protocol => 1002,
            Self::Policy => 1008,
            Self::TooBig => 1009,
            Self::Internal => 1011,
        }
    }
}

/// A frame of the server's: complete, unmasked, ready to be written.
pub(crate) fn server_frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    let mut head = [0; header::MAX_SERVER];
    let size = header::write_server(&mut head, true, opcode, payload.len() as u64);
    let mut frame = Vec::with_capacity(size + payload.len());
    frame.extend_from_slice(&head[..size]);
    frame.extend_from_slice(payload);
    frame.into()
}

/// A binary frame of the server's.
pub(crate) fn binary(payload: &[u8]) -> Bytes {
    server_frame(Opcode::Binary, payload)
}

/// A close frame of the server's.
pub(crate) fn close(code: CloseCode, reason: &str) -> Bytes {
    let mut payload = code.number().to_be_bytes().to_vec();
    // A control frame holds 125 bytes; reasons are short sentences of ours in ASCII.
    payload.extend_from_slice(&reason.as_bytes()[..reason.len().min(123)]);
    server_frame(Opcode::Close, &payload)
}
