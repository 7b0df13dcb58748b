//! Frame headers (RFC 6455 §5.2).

/// The longest header that a client sends.
#[cfg(test)]
pub(crate) const MAX_CLIENT: usize = 14;
/// The longest header that a server sends.
pub(crate) const MAX_SERVER: usize = 10;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Control frames are short, whole, and may come between fragments.
    pub(crate) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// A rule of WebSocket that the peer broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("a reserved bit is set, and no extension was agreed on")]
    ReservedBit,
    #[error("the opcode is reserved")]
    ReservedOpcode,
    #[error("a client must mask its frames")]
    Unmasked,
    #[error("a control frame is fragmented or too long")]
    Control,
    #[error("a length is not in its shortest form")]
    Length,
    #[error("fragments are out of order")]
    Fragments,
}

/// A client's frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) fin: bool,
    pub(crate) opcode: Opcode,
    pub(crate) len: u64,
    pub(crate) mask: [u8; 4],
    /// How many bytes the header itself took.
    pub(crate) size: usize,
}

/// Reads a client's header; `None` while bytes are missing. What is wrong is found as early as it shows.
pub(crate) fn parse_client(bytes: &[u8]) -> Result<Option<Header>, Violation> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(Violation::ReservedBit);
    }
    let fin = first & 0x80 != 0;
    let opcode = Opcode::from_bits(first & 0x0f).ok_or(Violation::ReservedOpcode)?;
    if second & 0x80 == 0 {
        return Err(Violation::Unmasked);
    }
    let short = second & 0x7f;
    if opcode.is_control() && (!fin || short > 125) {
        return Err(Violation::Control);
    }
    let (len, rest) = match (short, rest) {
        (126, [a, b, rest @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), rest),
        (127, [a, b, c, d, e, f, g, h, rest @ ..]) => {
            (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), rest)
        }
        (126 | 127, _) => return Ok(None),
        (short, rest) => (u64::from(short), rest),
    };
    if (short == 126 && len < 126) || (short == 127 && (len <= u64::from(u16::MAX) || len >> 63 != 0)) {
        return Err(Violation::Length);
    }
    let [a, b, c, d, rest @ ..] = rest else { return Ok(None) };
    Ok(Some(Header { fin, opcode, len, mask: [*a, *b, *c, *d], size: bytes.len() - rest.len() }))
}

/// Writes a server's header and gives its size, which is always 4 bytes less than the client's of the same frame.
pub(crate) fn write_server(into: &mut [u8; MAX_SERVER], fin: bool, opcode: Opcode, len: u64) -> usize {
    into[0] = opcode.bits() | if fin { 0x80 } else { 0 };
    if len <= 125 {
        into[1] = len as u8;
        2
    } else if let Ok(len) = u16::try_from(len) {
        into[1] = 126;
        into[2..4].copy_from_slice(&len.to_be_bytes());
        4
    } else {
        into[1] = 127;
        into[2..10].copy_from_slice(&len.to_be_bytes());
        10
    }
}

/// The mask as it falls on data that begins `at` bytes into the frame's payload, for eight bytes.
fn turned(mask: [u8; 4], at: u64) -> [u8; 8] {
    let turn = (at % 4) as usize;
    std::array::from_fn(|n| mask[(turn + n) % 4])
}

/// Takes the mask off (or puts it on). `at` is how far into the frame's payload the data begins.
pub(crate) fn unmask(data: &mut [u8], mask: [u8; 4], at: u64) {
    let mask = turned(mask, at);
    let wide = u64::from_ne_bytes(mask);
    let (words, rest) = data.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask) {
        *byte ^= key;
    }
}

/// How much is moved at a time: what fits the registers.
const BLOCK: usize = 64;

/// Takes the mask off `len` bytes at `from` and moves them forward to `to`, in one pass. The places may overlap.
pub(crate) fn unmask_to(buf: &mut [u8], from: usize, to: usize, len: usize, mask: [u8; 4], at: u64) {
    debug_assert!(to <= from && from + len <= buf.len());
    if from == to {
        return unmask(&mut buf[from..from + len], mask, at);
    }
    let mask = turned(mask, at);
    let wide = u64::from_ne_bytes(mask);
    // A block is read whole before it is written, and it is written before where the next one is read.
    let mut done = 0;
    while done + BLOCK <= len {
        let mut block = [0; BLOCK];
        block.copy_from_slice(&buf[from + done..from + done + BLOCK]);
        for word in block.as_chunks_mut::<8>().0 {
            *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
        }
        buf[to + done..to + done + BLOCK].copy_from_slice(&block);
        done += BLOCK;
    }
    while done + 8 <= len {
        let mut word = [0; 8];
        word.copy_from_slice(&buf[from + done..from + done + 8]);
        let word = (u64::from_ne_bytes(word) ^ wide).to_ne_bytes();
        buf[to + done..to + done + 8].copy_from_slice(&word);
        done += 8;
    }
    for (at, key) in (done..len).zip(mask) {
        buf[to + at] = buf[from + at] ^ key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_all_three_forms() {
        let short = [0x82, 0x85, 1, 2, 3, 4];
        let h = parse_client(&short).unwrap().unwrap();
        assert_eq!((h.len, h.size, h.mask, h.fin, h.opcode), (5, 6, [1, 2, 3, 4], true, Opcode::Binary));
        let medium = [0x02, 0xfe, 0x01, 0x00, 1, 2, 3, 4];
        let h = parse_client(&medium).unwrap().unwrap();
        assert_eq!((h.len, h.size, h.fin), (256, 8, false));
        let long = [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4];
        let h = parse_client(&long).unwrap().unwrap();
        assert_eq!((h.len, h.size), (65536, MAX_CLIENT));
        for whole in [&short[..], &medium, &long] {
            for cut in 0..whole.len() {
                assert_eq!(parse_client(&whole[..cut]), Ok(None), "cut at {cut}");
            }
        }
    }

    #[test]
    fn what_breaks_the_rules_is_named() {
        let wrong = |bytes: &[u8]| parse_client(bytes).unwrap_err();
        assert_eq!(wrong(&[0xc2, 0x80]), Violation::ReservedBit);
        assert_eq!(wrong(&[0x83, 0x80]), Violation::ReservedOpcode);
        assert_eq!(wrong(&[0x82, 0x05]), Violation::Unmasked);
        assert_eq!(wrong(&[0x09, 0x80]), Violation::Control);
        assert_eq!(wrong(&[0x89, 0xfe]), Violation::Control);
        assert_eq!(wrong(&[0x82, 0xfe, 0, 5, 0, 0, 0, 0]), Violation::Length);
        assert_eq!(wrong(&[0x82, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]), Violation::Length);
    }

    #[test]
    fn unmasking_and_moving_at_once_equals_one_after_the_other() {
        let whole: Vec<u8> = (0..=255).chain(0..=100).collect();
        for (from, to, len, at) in
            [(14, 10, 300, 0), (5, 5, 200, 3), (200, 0, 150, 2), (9, 1, 7, 1), (70, 64, 64, 5)]
        {
            let mut one_by_one = whole.clone();
            unmask(&mut one_by_one[from..from + len], [9, 8, 7, 6], at);
            one_by_one.copy_within(from..from + len, to);
            let mut at_once = whole.clone();
            unmask_to(&mut at_once, from, to, len, [9, 8, 7, 6], at);
            assert_eq!(at_once[to..to + len], one_by_one[to..to + len], "{len} bytes from {from} to {to}");
        }
    }

    #[test]
    fn unmasking_in_parts_equals_unmasking_at_once() {
        let whole: Vec<u8> = (0..100).collect();
        let mut once = whole.clone();
        unmask(&mut once, [9, 8, 7, 6], 0);
        for cut in 0..whole.len() {
            let mut parts = whole.clone();
            let (a, b) = parts.split_at_mut(cut);
            unmask(a, [9, 8, 7, 6], 0);
            unmask(b, [9, 8, 7, 6], cut as u64);
            assert_eq!(parts, once);
        }
        assert_eq!(once[5], 5 ^ 8);
    }
}
