//! The relay's language: frames, pipe messages, ids, error codes, limits and challenge signatures.
