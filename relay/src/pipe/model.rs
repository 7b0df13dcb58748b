//! A straightforward reading of RFC 6455, against which decoder and splice are compared: all bytes at hand at once, one
//! byte at a time, nothing in place. For tests and fuzzers alone.

use super::transfer::{End, Transfer};
use crate::ws::{DecodeError, Decoder, Incoming};

/// The largest message of the comparison: small enough for random bytes to exceed.
const LIMIT: u64 = 300;

/// What a stream of a client's bytes means.
#[derive(Default)]
struct Meaning {
    /// What a splice passes on.
    passed: Vec<u8>,
    /// The last Ping.
    ping: Option<Vec<u8>>,
    end: Option<End>,
}

fn read(wire: &[u8]) -> Meaning {
    let mut meaning = Meaning::default();
    let mut at = 0;
    // The bytes of the message of which fragments have passed.
    let mut message: Option<u64> = None;
    loop {
        let byte = |n: usize| wire.get(at + n).copied();
        let (Some(first), Some(second)) = (byte(0), byte(1)) else { return meaning };
        let (fin, opcode, short) = (first & 0x80 != 0, first & 0x0f, second & 0x7f);
        let control = opcode >= 8;
        let known = matches!(opcode, 0 | 1 | 2 | 8 | 9 | 10);
        if first & 0x70 != 0 || !known || second & 0x80 == 0 || control && (!fin || short > 125) {
            meaning.end = Some(End::Broken);
            return meaning;
        }
        let wide = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mut len = if wide == 0 { u64::from(short) } else { 0 };
        for n in 0..wide {
            let Some(next) = byte(2 + n) else { return meaning };
            len = len << 8 | u64::from(next);
        }
        if wide == 2 && len < 126 || wide == 8 && !(65_536..1 << 63).contains(&len) {
            meaning.end = Some(End::Broken);
            return meaning;
        }
        let body = at + 2 + wide + 4;
        if wire.len() < body {
            return meaning;
        }
        let payload: Vec<u8> = wire[body..]
            .iter()
            .take(usize::try_from(len).unwrap_or(usize::MAX))
            .enumerate()
            .map(|(n, b)| b ^ wire[body - 4 + n % 4])
            .collect();
        let whole = payload.len() as u64 == len;
        if control {
            if !whole {
                return meaning;
            }
            match opcode {
                8 => {
                    meaning.end = Some(End::Close);
                    return meaning;
                }
                9 => meaning.ping = Some(payload),
                _ => {}
            }
        } else {
            let so_far = match (opcode, message) {
                (2, None) => 0,
                (0, Some(so_far)) => so_far,
                _ => {
                    meaning.end = Some(End::Broken);
                    return meaning;
                }
            };
            if so_far + len > LIMIT {
                meaning.end = Some(End::TooLarge);
                return meaning;
            }
            message = (!fin).then_some(so_far + len);
            meaning.passed.extend([first, short]);
            meaning.passed.extend_from_slice(&wire[at + 2..at + 2 + wide]);
            meaning.passed.extend(payload);
            if !whole {
                return meaning;
            }
        }
        at = body + len as usize;
    }
}

/// Feeds `wire`, cut by the numbers of `cuts`, through splice and decoder, and panics where they differ from the model.
pub(crate) fn compare(wire: &[u8], cuts: &[u8]) {
    let expected = read(wire);
    let (mut held, mut out, mut ping, mut end) = (Vec::new(), Vec::new(), None, None);
    let mut transfer = Transfer::new(LIMIT);
    for part in pieces(wire, cuts) {
        held.extend_from_slice(part);
        let pass = transfer.pass(&mut held);
        out.extend_from_slice(&held[..pass.ready]);
        held.drain(..pass.rest);
        ping = pass.ping.or(ping);
        end = pass.end;
        if end.is_some() {
            break;
        }
    }
    assert_eq!(out, expected.passed, "what is passed on");
    assert_eq!((ping, end), (expected.ping, expected.end), "pings and the end");
    decode(wire, cuts, &out);
}

/// The decoder's messages are what the splice passed on, put together.
fn decode(wire: &[u8], cuts: &[u8], passed: &[u8]) {
    let mut decoder = Decoder::new(LIMIT as usize, &[]);
    let mut messages = Vec::new();
    'parts: for part in pieces(wire, cuts) {
        decoder.extend(part);
        loop {
            match decoder.next() {
                Ok(Some(Incoming::Binary(bytes))) => messages.push(bytes.to_vec()),
                // Where a splice ends, a decoder may go on.
                Ok(Some(Incoming::Text | Incoming::Close)) => break 'parts,
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(DecodeError::TooLarge | DecodeError::Violation(_)) => break 'parts,
            }
        }
    }
    assert_eq!(messages, assemble(passed), "the decoder's messages");
}

/// Whole messages of a server's stream that is known to be in order.
fn assemble(mut wire: &[u8]) -> Vec<Vec<u8>> {
    let (mut messages, mut message) = (Vec::new(), Vec::new());
    while let [first, short, rest @ ..] = wire {
        // Nothing over the limit passes, so eight bytes of length never do.
        let (len, rest) = match (short, rest) {
            (126, [a, b, rest @ ..]) => (usize::from(u16::from_be_bytes([*a, *b])), rest),
            (short, rest) => (usize::from(*short), rest),
        };
        let Some((payload, after)) = rest.split_at_checked(len) else { break };
        message.extend_from_slice(payload);
        if first & 0x80 != 0 {
            messages.push(std::mem::take(&mut message));
        }
        wire = after;
    }
    messages
}

/// The stream in pieces of one byte more than each number says, again and again.
fn pieces<'a>(mut wire: &'a [u8], cuts: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut sizes = cuts.iter().cycle();
    std::iter::from_fn(move || {
        let size = sizes.next().map_or(wire.len(), |cut| usize::from(*cut) + 1).min(wire.len());
        let (piece, rest) = wire.split_at_checked(size).filter(|(piece, _)| !piece.is_empty())?;
        wire = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            short @ 0..=125 => frame.push(0x80 | short as u8),
            long => {
                frame.push(0x80 | 126);
                frame.extend((long as u16).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().enumerate().map(|(n, byte)| byte ^ mask[n % 4]));
        frame
    }

    #[test]
    fn the_model_reads_what_is_written() {
        let wire = [
            frame(0x02, b"hel", [1, 2, 3, 4]),
            frame(0x89, b"?", [5; 4]),
            frame(0x80, b"lo", [6; 4]),
            frame(0x88, b"", [7; 4]),
        ]
        .concat();
        let meaning = read(&wire);
        assert_eq!(meaning.passed, b"\x02\x03hel\x80\x02lo");
        assert_eq!((meaning.ping, meaning.end), (Some(b"?".to_vec()), Some(End::Close)));
        assert_eq!(assemble(&meaning.passed), [b"hello"]);
    }

    proptest! {
        /// Frames of all kinds, good ones and some that are not, cut anywhere.
        #[test]
        fn splice_and_decoder_agree_with_the_model(
            frames in prop::collection::vec(
                (prop::sample::select(vec![0x82u8, 0x02, 0x00, 0x80, 0x89, 0x8a, 0x88, 0x81, 0x83, 0xc2]),
                 prop::collection::vec(any::<u8>(), 0..320), any::<[u8; 4]>()),
                0..8,
            ),
            cuts in prop::collection::vec(any::<u8>(), 0..6),
            end in 0usize..40,
        ) {
            let mut wire: Vec<u8> = frames.iter().flat_map(|(first, body, mask)| frame(*first, body, *mask)).collect();
            wire.truncate(wire.len().saturating_sub(end));
            compare(&wire, &cuts);
        }

        #[test]
        fn any_bytes_mean_the_same_to_all_three(
            wire in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(any::<u8>(), 0..6),
        ) {
            compare(&wire, &cuts);
        }
    }
}
