//! From a client's frames to the server's, in the buffer in which they came.
//!
//! A pipe's frames are never put together. Each piece that arrives is unmasked where it lies and moved over the 4
//! bytes by which the server's header is shorter, so a frame may be on its way out while its rest is still coming in.
//! No socket and no clock in here.

use crate::ws::header::{self, Header, MAX_SERVER, Opcode};

/// What was found in a buffer besides data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The side says goodbye.
    Close,
    /// A frame over the limit.
    TooLarge,
    /// Text, or something that is no WebSocket.
    Broken,
}

/// The outcome of one pass over a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// So many bytes at the front of the buffer are to be written to the other side.
    pub(super) ready: usize,
    /// The bytes from here to the end could not be understood yet: an incomplete header or control frame.
    pub(super) rest: usize,
    /// The payload of the last Ping, which wants an answer on the side it came from.
    pub(super) ping: Option<Vec<u8>>,
    /// What ends the pipe once the ready bytes are written.
    pub(super) end: Option<End>,
}

/// Where one direction stands in its stream of frames.
#[derive(Debug)]
pub(super) struct Transfer {
    limit: u64,
    /// The frame that is passing through: its mask, how much of it has passed and how much is to come.
    current: Option<(Header, u64)>,
    /// Bytes of the message of which the fragments so far have passed; `None` between messages.
    message: Option<u64>,
}

impl Transfer {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, current: None, message: None }
    }

    /// Whether the last byte that was turned is not the last of its frame.
    pub(super) fn is_mid_frame(&self) -> bool {
        self.current.is_some()
    }

    /// Turns what can be turned.
    pub(super) fn pass(&mut self, buf: &mut [u8]) -> Pass {
        let (mut read, mut write) = (0, 0);
        let mut pass = Pass { ready: 0, rest: 0, ping: None, end: None };
        while read < buf.len() {
            if let Some((frame, passed)) = self.current.take() {
                let left = frame.len - passed;
                let here = (buf.len() - read).min(usize::try_from(left).unwrap_or(usize::MAX));
                header::unmask_to(buf, read, write, here, frame.mask, passed);
                read += here;
                write += here;
                let passed = passed + here as u64;
                if passed < frame.len {
                    self.current = Some((frame, passed));
                }
                continue;
            }
            let frame = match header::parse_client(&buf[read..]) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => {
                    pass.end = Some(End::Broken);
                    break;
                }
            };
            if frame.opcode.is_control() {
                let body = read + frame.size..read + frame.size + frame.len as usize;
                if body.end > buf.len() {
                    break;
                }
                let payload = &mut buf[body.clone()];
                header::unmask(payload, frame.mask, 0);
                match frame.opcode {
                    Opcode::Ping => pass.ping = Some(payload.to_vec()),
                    Opcode::Close => pass.end = Some(End::Close),
                    _ => {}
                }
                read = body.end;
                if pass.end.is_some() {
                    break;
                }
                continue;
            }
            if let Err(end) = self.begin(&frame) {
                pass.end = Some(end);
                break;
            }
            let mut head = [0; MAX_SERVER];
            let size = header::write_server(&mut head, frame.fin, frame.opcode, frame.len);
            buf[write..write + size].copy_from_slice(&head[..size]);
            write += size;
            read += frame.size;
            if frame.len > 0 {
                self.current = Some((frame, 0));
            }
        }
        pass.ready = write;
        pass.rest = read;
        pass
    }

    /// Judges a data frame by its header alone.
    fn begin(&mut self, frame: &Header) -> Result<(), End> {
        let so_far = match (frame.opcode, self.message) {
            (Opcode::Binary, None) => 0,
            (Opcode::Continuation, Some(so_far)) => so_far,
            // A pipe carries bytes: text is refused, and so are fragments out of order.
            _ => return Err(End::Broken),
        };
        let whole = so_far.saturating_add(frame.len);
        if whole > self.limit {
            return Err(End::TooLarge);
        }
        self.message = (!frame.fin).then_some(whole);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client_frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut head = [0; MAX_SERVER];
        let size = header::write_server(&mut head, true, Opcode::Binary, payload.len() as u64);
        head[0] = first;
        head[1] |= 0x80;
        let mut body = payload.to_vec();
        header::unmask(&mut body, mask, 0);
        [&head[..size], &mask, &body].concat()
    }

    fn server_frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut head = [0; MAX_SERVER];
        let size = header::write_server(&mut head, true, Opcode::Binary, payload.len() as u64);
        head[0] = first;
        [&head[..size], payload].concat()
    }

    /// Feeds a stream in pieces as a driver does, and gives what came out and how it ended.
    fn run(limit: u64, wire: &[u8], piece: usize) -> (Vec<u8>, Option<End>, Vec<Vec<u8>>) {
        let mut transfer = Transfer::new(limit);
        let (mut held, mut out, mut pings) = (Vec::new(), Vec::new(), Vec::new());
        for part in wire.chunks(piece) {
            held.extend_from_slice(part);
            let pass = transfer.pass(&mut held);
            out.extend_from_slice(&held[..pass.ready]);
            held.drain(..pass.rest);
            pings.extend(pass.ping);
            if pass.end.is_some() {
                return (out, pass.end, pings);
            }
        }
        (out, None, pings)
    }

    #[test]
    fn fragments_pass_as_they_are_and_pings_do_not() {
        let mask = [1, 2, 3, 4];
        let wire = [
            client_frame(0x02, b"hel", mask),
            client_frame(0x89, b"?", mask),
            client_frame(0x80, b"lo", mask),
            client_frame(0x8a, b"pong", mask),
        ]
        .concat();
        let expected = [server_frame(0x02, b"hel"), server_frame(0x80, b"lo")].concat();
        assert_eq!(run(100, &wire, 3), (expected, None, vec![b"?".to_vec()]));
    }

    #[test]
    fn a_frame_or_message_over_the_limit_ends_the_pipe_by_its_header() {
        let mask = [9; 4];
        let large = client_frame(0x82, &[0; 101], mask);
        assert_eq!(run(100, &large[..6], 100), (Vec::new(), Some(End::TooLarge), Vec::new()));
        let first = client_frame(0x02, &[0; 60], mask);
        let wire = [first.clone(), client_frame(0x80, &[0; 60], mask)].concat();
        assert_eq!(run(100, &wire, 1000).1, Some(End::TooLarge));
        assert_eq!(run(120, &wire, 1000).1, None);
    }

    #[test]
    fn a_close_ends_the_pipe_after_what_came_before_it() {
        let wire = [client_frame(0x82, b"last", [3; 4]), client_frame(0x88, &[3, 232], [4; 4])].concat();
        assert_eq!(run(100, &wire, 5), (server_frame(0x82, b"last"), Some(End::Close), Vec::new()));
    }

    #[test]
    fn text_and_unmasked_frames_end_the_pipe() {
        assert_eq!(run(100, &client_frame(0x81, b"hello", [1; 4]), 100).1, Some(End::Broken));
        assert_eq!(run(100, &server_frame(0x82, b"hello"), 100).1, Some(End::Broken));
        assert_eq!(run(100, &client_frame(0x80, b"lone", [1; 4]), 100).1, Some(End::Broken));
    }

    proptest! {
        #[test]
        fn however_the_stream_is_cut_the_same_bytes_come_out(
            frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..400), any::<[u8; 4]>()), 1..8),
            piece in 1usize..100,
        ) {
            let wire: Vec<u8> = frames.iter().flat_map(|(body, mask)| client_frame(0x82, body, *mask)).collect();
            let expected: Vec<u8> = frames.iter().flat_map(|(body, _)| server_frame(0x82, body)).collect();
            prop_assert_eq!(run(1000, &wire, piece), (expected, None, Vec::new()));
        }

        #[test]
        fn no_bytes_make_it_panic(wire in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
            let (out, _, _) = run(64, &wire, piece);
            prop_assert!(out.len() <= wire.len());
        }
    }
}
