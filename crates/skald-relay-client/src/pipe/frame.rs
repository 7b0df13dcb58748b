//! WebSocket frames as a pipe needs them (RFC 6455 §5), sealed and masked where they lie.
//!
//! The control socket uses a library; the pipe does not, because every copy of a stream's bytes costs more than all the
//! rest: here the plaintext is copied once into a buffer with room for the header, sealed and masked in place, and written.

use bytes::{Buf as _, BytesMut};

/// Room for the longest client header: two bytes, eight of length, four of mask.
pub(super) const HEADER_ROOM: usize = 14;
/// A control frame's payload is short.
const MAX_CONTROL: usize = 125;

/// Kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The other side does not speak WebSocket as it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Violation;

/// Writes header and mask around the payload that lies in `buffer` from [`HEADER_ROOM`] on, and gives where the frame
/// begins.
pub(super) fn finish(buffer: &mut [u8], opcode: Opcode, mask: [u8; 4]) -> usize {
    let len = buffer.len() - HEADER_ROOM;
    let header = match len {
        0..=125 => 6,
        126..=0xffff => 8,
        _ => 14,
    };
    let start = HEADER_ROOM - header;
    buffer[start] = 0x80 | opcode.bits();
    match header {
        6 => buffer[start + 1] = 0x80 | len as u8,
        8 => {
            buffer[start + 1] = 0x80 | 126;
            buffer[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            buffer[start + 1] = 0x80 | 127;
            buffer[start + 2..start + 10].copy_from_slice(&(len as u64).to_be_bytes());
        }
    }
    buffer[HEADER_ROOM - 4..HEADER_ROOM].copy_from_slice(&mask);
    apply_mask(&mut buffer[HEADER_ROOM..], mask);
    start
}

fn apply_mask(payload: &mut [u8], mask: [u8; 4]) {
    // Words of eight bytes let the compiler use vector registers.
    let word = u64::from_ne_bytes([mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3]]);
    let (words, rest) = payload.as_chunks_mut::<8>();
    for chunk in words {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

/// A frame of its own, for control.
pub(super) fn control(opcode: Opcode, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut buffer = vec![0; HEADER_ROOM];
    buffer.extend_from_slice(&payload[..payload.len().min(MAX_CONTROL)]);
    let start = finish(&mut buffer, opcode, mask);
    buffer.drain(..start);
    buffer
}

/// A frame from the relay: not masked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Incoming {
    pub(super) opcode: Opcode,
    pub(super) last: bool,
    pub(super) payload: BytesMut,
}

/// Takes a whole frame off the front of `buffer`. `Ok(None)`: there is none yet, and room for it was made.
pub(super) fn take(buffer: &mut BytesMut, max_payload: usize) -> Result<Option<Incoming>, Violation> {
    let [first, second, ..] = buffer[..] else { return Ok(None) };
    let opcode = match first & 0x0f {
        0 => Opcode::Continuation,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return Err(Violation),
    };
    // No extension was negotiated, and a server never masks.
    if first & 0x70 != 0 || second & 0x80 != 0 {
        return Err(Violation);
    }
    let last = first & 0x80 != 0;
    let (header, len) = match second {
        126 => match buffer.get(2..4) {
            Some(b) => (4, u64::from(u16::from_be_bytes([b[0], b[1]]))),
            None => return Ok(None),
        },
        127 => match buffer.get(2..10).and_then(|b| <[u8; 8]>::try_from(b).ok()) {
            Some(b) => (10, u64::from_be_bytes(b)),
            None => return Ok(None),
        },
        short => (2, u64::from(short)),
    };
    let max = if opcode.is_control() { MAX_CONTROL } else { max_payload };
    let len = usize::try_from(len).ok().filter(|len| *len <= max).ok_or(Violation)?;
    if opcode.is_control() && !last {
        return Err(Violation);
    }
    if buffer.len() < header + len {
        // At most the largest frame, which the relay's own limit bounds.
        buffer.reserve(header + len - buffer.len());
        return Ok(None);
    }
    buffer.advance(header);
    Ok(Some(Incoming { opcode, last, payload: buffer.split_to(len) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the relay does with a client's frame: take the header off, unmask.
    fn unmask(frame: &[u8]) -> (u8, Vec<u8>) {
        assert_eq!(frame[1] & 0x80, 0x80, "a client masks");
        let (at, len) = match frame[1] & 0x7f {
            126 => (4, usize::from(u16::from_be_bytes([frame[2], frame[3]]))),
            127 => (10, u64::from_be_bytes(frame[2..10].try_into().unwrap()) as usize),
            short => (2, usize::from(short)),
        };
        let mask = &frame[at..at + 4];
        let payload: Vec<u8> = frame[at + 4..].iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m).collect();
        assert_eq!(payload.len(), len);
        (frame[0], payload)
    }

    fn server(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            n @ 0..=125 => out.push(n as u8),
            n @ 126..=0xffff => {
                out.push(126);
                out.extend((n as u16).to_be_bytes());
            }
            n => {
                out.push(127);
                out.extend((n as u64).to_be_bytes());
            }
        }
        out.extend(payload);
        out
    }

    proptest! {
        #[test]
        fn frames_are_written_as_a_server_reads_them(len in 0usize..70_000, mask in any::<[u8; 4]>()) {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut buffer = vec![0; HEADER_ROOM];
            buffer.extend_from_slice(&payload);
            let start = finish(&mut buffer, Opcode::Binary, mask);
            prop_assert_eq!(unmask(&buffer[start..]), (0x82, payload));
        }

        #[test]
        fn frames_are_read_however_they_are_cut(
            lens in proptest::collection::vec(0usize..70_000, 1..4), cuts in proptest::collection::vec(1usize..9_000, 1..40),
        ) {
            let frames: Vec<Vec<u8>> = lens.iter().map(|n| vec![*n as u8; *n]).collect();
            let stream: Vec<u8> = frames.iter().flat_map(|f| server(0x82, f)).collect();
            let (mut buffer, mut got, mut at) = (BytesMut::new(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(stream.len());
                buffer.extend_from_slice(&stream[at..end]);
                at = end;
                while let Some(frame) = take(&mut buffer, 1 << 20).unwrap() {
                    got.push(frame.payload.to_vec());
                }
                if at == stream.len() {
                    break;
                }
            }
            prop_assert_eq!(got, frames);
        }

        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut buffer = BytesMut::from(&noise[..]);
            while let Ok(Some(_)) = take(&mut buffer, 100) {}
        }
    }

    #[test]
    fn what_the_protocol_forbids_is_refused_before_it_is_buffered() {
        for (name, bytes) in [
            ("masked", vec![0x82, 0x81, 0, 0, 0, 0, 1]),
            ("an extension bit", server(0xc2, b"x")),
            ("text", server(0x81, b"x")),
            ("a control frame in parts", server(0x09, b"x")),
            ("a long control frame", server(0x89, &[0; 126])),
            ("too long", vec![0x82, 127, 0, 0, 0, 0, 0x7f, 0, 0, 0]),
            ("absurdly long", vec![0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            assert_eq!(take(&mut BytesMut::from(&bytes[..]), 1 << 20), Err(Violation), "{name}");
        }
    }

    #[test]
    fn a_control_frame_stands_alone() {
        assert_eq!(unmask(&control(Opcode::Pong, b"abc", [1, 2, 3, 4])), (0x8a, b"abc".to_vec()));
    }
}
