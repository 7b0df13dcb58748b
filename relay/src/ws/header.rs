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

/// Takes the mask off (or puts it on). `at` is how far into the frame's payload the data begins.
pub(crate) fn unmask(data: &mut [u8], mask: [u8; 4], at: u64) {
    let turn = (at % 4) as usize;
    let mask = [mask[turn], mask[(turn + 1) % 4], mask[(turn + 2) % 4], mask[(turn + 3) % 4]];
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut chunks = data.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        chunk.copy_from_slice(&(u64::from_ne_bytes(word) ^ wide).to_ne_bytes());
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
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
