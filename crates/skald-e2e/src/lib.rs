//! What only the ends know: keys, envelope, framing, counters, pipe cipher, QR and verification code.
