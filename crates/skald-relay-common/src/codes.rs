//! The error codes of relay-protocol §12, and `internal`, which says that the fault is the relay's own.

use std::fmt;
use std::str::FromStr;

/// Why the relay refused something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// No `Auth` in time.
    ChallengeTimeout,
    /// The signature is not one of that key over this challenge.
    InvalidSignature,
    /// The client is not on the agent's list.
    Unauthorized,
    /// The namespace or the recipient does not exist, or is not in this namespace.
    NotFound,
    /// No pairing window is open, or the token is wrong, spent or expired.
    PairingClosed,
    /// A quota is used up.
    RateLimited,
    /// The frame exceeds its size limit.
    PayloadTooLarge,
    /// The recipient's queue is full.
    QueueFull,
    /// A frame that is malformed, incomplete, or not allowed here.
    BadRequest,
    /// The relay failed; the peer did nothing wrong.
    Internal,
}

/// A code that this version does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown error code")]
pub struct UnknownCode;

impl ErrorCode {
    /// Every code.
    pub const ALL: [Self; 10] = [
        Self::ChallengeTimeout,
        Self::InvalidSignature,
        Self::Unauthorized,
        Self::NotFound,
        Self::PairingClosed,
        Self::RateLimited,
        Self::PayloadTooLarge,
        Self::QueueFull,
        Self::BadRequest,
        Self::Internal,
    ];

    /// The code as it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChallengeTimeout => "challenge_timeout",
            Self::InvalidSignature => "invalid_signature",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::PairingClosed => "pairing_closed",
            Self::RateLimited => "rate_limited",
            Self::PayloadTooLarge => "payload_too_large",
            Self::QueueFull => "queue_full",
            Self::BadRequest => "bad_request",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ErrorCode {
    type Err = UnknownCode;
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL.into_iter().find(|code| code.as_str() == text).ok_or(UnknownCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_wire() {
        for code in ErrorCode::ALL {
            assert_eq!(code.to_string().parse(), Ok(code));
        }
        assert_eq!("teapot".parse::<ErrorCode>(), Err(UnknownCode));
    }
}
