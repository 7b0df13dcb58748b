//! From the bytes of a client to whole messages. No socket and no clock in here.

use bytes::Bytes;

use super::header::{self, Header, Opcode, Violation};

/// Memory is claimed in steps of this size as a frame really arrives, whatever length its header announces.
const GROWTH: usize = 64 * 1024;

/// A whole message or control frame.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Incoming {
    Binary(Bytes),
    /// A text message, whose content nobody wants.
    Text,
    Ping(Bytes),
    Pong(Bytes),
    Close,
}

/// Why no further message can be read from this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The frame, or the message that its fragments make, exceeds the limit.
    #[error("the frame is too large")]
    TooLarge,
    /// The peer does not keep to WebSocket's rules.
    #[error("{0}")]
    Violation(#[from] Violation),
}

/// Puts messages together and unmasks them, up to a limit that may change on the way.
pub(crate) struct Decoder {
    limit: usize,
    buf: Vec<u8>,
    /// Where in `buf` the next frame begins.
    at: usize,
    /// Fragments so far, and whether they are text.
    fragments: Option<(Vec<u8>, bool)>,
    /// How many bytes to throw away before the next frame begins.
    skip: u64,
}

impl Decoder {
    pub(crate) fn new(limit: usize, early: &[u8]) -> Self {
        Self { limit, buf: early.to_vec(), at: 0, fragments: None, skip: 0 }
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes in what the socket gave.
    pub(crate) fn extend(&mut self, mut bytes: &[u8]) {
        if self.skip > 0 {
            let skipped = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            self.skip -= skipped as u64;
            bytes = &bytes[skipped..];
        }
        if self.at > 0 && self.at == self.buf.len() {
            self.buf.clear();
            self.at = 0;
        }
        let free = self.buf.capacity() - self.buf.len();
        if free < bytes.len() {
            if self.at > 0 {
                self.buf.drain(..self.at);
                self.at = 0;
            }
            let step = match header::parse_client(&self.buf) {
                Ok(Some(h)) if h.len <= self.limit as u64 => {
                    (h.size + h.len as usize).saturating_sub(self.buf.len()).clamp(bytes.len(), GROWTH)
                }
                _ => bytes.len(),
            };
            self.buf.reserve_exact(step.max(bytes.len()));
        }
        self.buf.extend_from_slice(bytes);
    }

    /// The header at which the decoder stands, if it has come so far.
    pub(crate) fn upcoming(&self) -> Result<Option<Header>, DecodeError> {
        let header = header::parse_client(&self.buf[self.at..])?;
        match header {
            // A limit that is passed shows in the header; not a byte more is waited for.
            Some(h) if h.len > self.limit as u64 => Err(DecodeError::TooLarge),
            header => Ok(header),
        }
    }

    /// The next whole message, or `None` until more bytes come.
    pub(crate) fn next(&mut self) -> Result<Option<Incoming>, DecodeError> {
        while let Some(h) = self.upcoming()? {
            let (start, len) = (self.at + h.size, h.len as usize);
            if self.buf.len() - start < len {
                break;
            }
            let payload = self.take(start, len, h.mask);
            if let Some(message) = self.assemble(&h, payload)? {
                return Ok(Some(message));
            }
        }
        if self.at == self.buf.len() {
            // A connection at rest holds nothing.
            self.buf = Vec::new();
            self.at = 0;
        }
        Ok(None)
    }

    /// Passes over the frame that was too large, so that what follows it can be read.
    pub(crate) fn skip_oversize(&mut self) {
        if let Ok(Some(h)) = header::parse_client(&self.buf[self.at..]) {
            let here = (self.buf.len() - self.at) as u64;
            let whole = h.len.saturating_add(h.size as u64);
            self.skip = whole.saturating_sub(here);
            self.at += usize::try_from(whole.min(here)).unwrap_or(0);
        }
    }

    /// Whether a message has begun that is not whole yet.
    pub(crate) fn is_amid(&self) -> bool {
        self.at < self.buf.len() || self.fragments.is_some()
    }

    /// Bytes that were read and not yet understood as a whole frame.
    pub(crate) fn into_rest(mut self) -> Vec<u8> {
        self.buf.drain(..self.at);
        self.buf
    }

    fn take(&mut self, start: usize, len: usize, mask: [u8; 4]) -> Bytes {
        let payload = &mut self.buf[start..start + len];
        header::unmask(payload, mask, 0);
        // A copy of exactly this size: a slice would pin whatever else was read with it.
        let bytes = Bytes::copy_from_slice(payload);
        self.at = start + len;
        bytes
    }

    fn assemble(&mut self, h: &Header, payload: Bytes) -> Result<Option<Incoming>, DecodeError> {
        let text = match (h.opcode, &self.fragments) {
            (Opcode::Ping, _) => return Ok(Some(Incoming::Ping(payload))),
            (Opcode::Pong, _) => return Ok(Some(Incoming::Pong(payload))),
            (Opcode::Close, _) => return Ok(Some(Incoming::Close)),
            (Opcode::Continuation, None) | (Opcode::Text | Opcode::Binary, Some(_)) => {
                return Err(Violation::Fragments.into());
            }
            (Opcode::Continuation, Some((_, text))) => *text,
            (opcode, None) => opcode == Opcode::Text,
        };
        let whole = match self.fragments.take() {
            None if h.fin => payload,
            fragments => {
                let mut so_far = fragments.map(|(bytes, _)| bytes).unwrap_or_default();
                if so_far.len() + payload.len() > self.limit {
                    return Err(DecodeError::TooLarge);
                }
                so_far.extend_from_slice(&payload);
                if !h.fin {
                    self.fragments = Some((so_far, text));
                    return Ok(None);
                }
                so_far.into()
            }
        };
        Ok(Some(if text { Incoming::Text } else { Incoming::Binary(whole) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A client's frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x11, 0x22, 0x33, 0x44];
        let mut head = [0; header::MAX_SERVER];
        let size = header::write_server(&mut head, true, Opcode::Binary, payload.len() as u64);
        head[0] = first;
        head[1] |= 0x80;
        let mut out = head[..size].to_vec();
        out.extend_from_slice(&mask);
        let mut body = payload.to_vec();
        header::unmask(&mut body, mask, 0);
        out.extend_from_slice(&body);
        out
    }

    fn all(decoder: &mut Decoder) -> Result<Vec<Incoming>, DecodeError> {
        let mut seen = Vec::new();
        while let Some(message) = decoder.next()? {
            seen.push(message);
        }
        Ok(seen)
    }

    #[test]
    fn fragments_are_joined_and_control_frames_pass_between_them() {
        let mut wire = frame(0x02, b"he");
        wire.extend(frame(0x89, b"?"));
        wire.extend(frame(0x80, b"llo"));
        let mut decoder = Decoder::new(100, &wire);
        let seen = all(&mut decoder).unwrap();
        assert!(seen == [Incoming::Ping(Bytes::from("?")), Incoming::Binary(Bytes::from("hello"))]);
    }

    #[test]
    fn fault_12_an_oversize_frame_is_refused_by_its_header_alone() {
        let wire = frame(0x82, &[0; 101]);
        let mut decoder = Decoder::new(100, &wire[..header::MAX_CLIENT.min(6)]);
        assert_eq!(decoder.next().err(), Some(DecodeError::TooLarge));
        let mut decoder = Decoder::new(101, &wire);
        assert!(decoder.next().unwrap().is_some());
    }

    #[test]
    fn what_follows_an_oversize_frame_can_be_read_once_it_is_skipped() {
        let mut wire = frame(0x82, &[0; 200]);
        wire.extend(frame(0x88, b""));
        for cut in [8, 50, wire.len() - 2] {
            let mut decoder = Decoder::new(100, &wire[..cut]);
            assert_eq!(decoder.next().err(), Some(DecodeError::TooLarge));
            decoder.skip_oversize();
            decoder.extend(&wire[cut..]);
            assert!(decoder.next().unwrap() == Some(Incoming::Close));
        }
    }

    #[test]
    fn fragments_together_keep_to_the_limit() {
        let mut wire = frame(0x02, &[0; 60]);
        wire.extend(frame(0x80, &[0; 60]));
        assert_eq!(all(&mut Decoder::new(100, &wire)).err(), Some(DecodeError::TooLarge));
    }

    #[test]
    fn an_announced_length_claims_no_memory_before_it_comes() {
        let mut decoder = Decoder::new(1 << 30, &[]);
        decoder.extend(&[0x82, 0xff, 0, 0, 0, 0, 0x3f, 0, 0, 0, 1, 2, 3, 4]);
        assert!(decoder.next().unwrap().is_none());
        decoder.extend(&[0; 100]);
        assert!(decoder.next().unwrap().is_none());
        assert!(decoder.buf.capacity() <= 2 * GROWTH, "{}", decoder.buf.capacity());
    }

    #[test]
    fn fault_26_a_decoder_at_rest_holds_no_buffer() {
        let mut decoder = Decoder::new(1 << 20, &[]);
        for part in frame(0x82, &vec![7; 300_000]).chunks(16_384) {
            decoder.extend(part);
            decoder.next().unwrap();
        }
        assert!(decoder.next().unwrap().is_none());
        assert_eq!(decoder.buf.capacity(), 0);
    }

    #[test]
    fn continuations_out_of_order_are_a_violation() {
        let lone = frame(0x80, b"x");
        assert_eq!(all(&mut Decoder::new(9, &lone)).err(), Some(Violation::Fragments.into()));
        let mut two = frame(0x02, b"x");
        two.extend(frame(0x82, b"y"));
        assert_eq!(all(&mut Decoder::new(9, &two)).err(), Some(Violation::Fragments.into()));
    }

    proptest! {
        #[test]
        fn however_the_bytes_are_cut_the_messages_are_the_same(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8),
            cut in 1usize..50,
        ) {
            let wire: Vec<u8> = bodies.iter().flat_map(|b| frame(0x82, b)).collect();
            let mut decoder = Decoder::new(1000, &[]);
            let mut seen = Vec::new();
            for part in wire.chunks(cut) {
                decoder.extend(part);
                seen.extend(all(&mut decoder).unwrap());
            }
            let expected: Vec<_> = bodies.into_iter().map(|b| Incoming::Binary(b.into())).collect();
            prop_assert!(seen == expected);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let mut decoder = Decoder::new(50, &[]);
            for part in parts {
                decoder.extend(&part);
                if all(&mut decoder).is_err() {
                    break;
                }
            }
        }
    }
}
