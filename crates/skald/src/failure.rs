//! How a command ends.

use std::ffi::OsString;

/// Done.
pub const OK: u8 = 0;
/// Rejected, or the command could not do what was asked.
pub const REJECTED: u8 = 1;
/// Wrong usage or configuration.
pub const USAGE: u8 = 2;
/// The question lapsed or was withdrawn: nobody said no.
pub const LAPSED: u8 = 3;
/// The host cannot be reached, or could not do its part.
pub const UNREACHABLE: u8 = 4;

/// How a command ends when it ends well.
#[derive(Debug)]
pub enum Exit {
    /// With this exit code.
    Code(u8),
    /// By becoming another program.
    Replace(Vec<OsString>),
}

impl Exit {
    /// Exit code 0.
    pub fn ok() -> Self {
        Self::Code(OK)
    }
}

/// How a command ends when it does not: one plain sentence that says what to do, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// The sentence.
    pub text: String,
}

impl Failure {
    /// Something went wrong that is neither usage nor reachability.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { code: REJECTED, text: text.into() }
    }

    /// Wrong usage or configuration.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { code: USAGE, text: text.into() }
    }

    /// The host cannot be reached, or could not do its part.
    pub fn unreachable(text: impl Into<String>) -> Self {
        Self { code: UNREACHABLE, text: text.into() }
    }
}
