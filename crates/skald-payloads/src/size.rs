//! How large a sealed payload may be, from the length of its framed plaintext (spec framing).
//!
//! The framed plaintext is what goes into the cipher: two bytes of header and the body, compressed where that made it
//! smaller. The cipher adds its tag and nothing else, so the sealed length is known before anything is sealed.

/// The authentication tag that sealing adds.
const TAG_BYTES: usize = 16;

/// Largest ciphertext, tag included, of a store-and-forward message (spec framing).
pub const STORED_LIMIT_BYTES: usize = 65_000;

/// Largest ciphertext, tag included, of a live message (spec framing).
pub const LIVE_LIMIT_BYTES: usize = 524_000;

/// Longest base64 text of a ciphertext that rides inside a push (spec payloads, Which channel).
pub const PUSH_LIMIT_BASE64: usize = 3_500;

/// The ciphertext's length for a framed plaintext of `framed` bytes.
pub const fn ciphertext_len(framed: usize) -> usize {
    framed.saturating_add(TAG_BYTES)
}

/// The length of padded standard base64 over `bytes` bytes.
pub const fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

/// Whether a framed plaintext of this length rides inside a push once sealed.
pub const fn fits_push(framed: usize) -> bool {
    base64_len(ciphertext_len(framed)) <= PUSH_LIMIT_BASE64
}

/// Whether a framed plaintext of this length may be sent as a store-and-forward message.
pub const fn fits_stored(framed: usize) -> bool {
    ciphertext_len(framed) <= STORED_LIMIT_BYTES
}

/// Whether a framed plaintext of this length may be sent as a live message.
pub const fn fits_live(framed: usize) -> bool {
    ciphertext_len(framed) <= LIVE_LIMIT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_met_to_the_byte() {
        assert!(fits_push(2_609) && !fits_push(2_610), "2,625 bytes of ciphertext are 3,500 of base64");
        assert!(fits_stored(64_984) && !fits_stored(64_985));
        assert!(fits_live(523_984) && !fits_live(523_985));
    }

    #[test]
    fn base64_is_padded() {
        assert_eq!([0, 1, 2, 3, 4].map(base64_len), [0, 4, 4, 4, 8]);
    }

    #[test]
    fn absurd_lengths_do_not_overflow() {
        assert!(!fits_push(usize::MAX) && !fits_stored(usize::MAX) && !fits_live(usize::MAX));
    }
}
