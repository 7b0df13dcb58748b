//! What only the two ends of a namespace know: keys, the envelope, its framing, counters, the pipe's cipher, the QR
//! and the verification code.
//!
//! The relay links nothing of this. The crate is pure: it reads no clock, draws no randomness and opens no file; what
//! it needs of those is an argument. Secrets are wiped when they are dropped and have no way to be printed.
//!
//! The normative text is `spec/crypto.md` and `spec/framing.md`; every byte is checked against
//! `proto/vectors/vectors.json`.
#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

pub mod counter;
pub mod decision;
pub mod features;
pub mod framing;
pub mod identity;
mod kdf;
pub mod pipe;
pub mod qr;
pub mod session;
pub mod signal;
pub mod storage;
pub mod verify;

pub use counter::{ReplayWindow, Replayed, SendCounter};
pub use identity::{Identity, KeyAgreementError, Seed};
pub use qr::{QrError, QrPayload};
pub use session::{Aad, Direction, OpenError, SealError, Sealed, SessionKey};
pub use verify::{VerificationCode, verification_code};

#[cfg(test)]
mod vectors_tests;
