//! How a command ends when it does not end well: one plain sentence and an exit code that scripts rely on.

use std::fmt;

/// Why a command did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Refused, ended otherwise, or broken on this side.
    Refused,
    /// The command line, the home folder or the input is not usable.
    Usage,
    /// Relay or host cannot be reached now; what was asked is kept where that makes sense.
    Unreachable,
    /// Stopped by a signal.
    Interrupted,
}

impl Code {
    /// The process's exit code.
    pub fn exit(self) -> u8 {
        match self {
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Unreachable => 4,
            Self::Interrupted => 130,
        }
    }

    /// The word for it between two processes on one home.
    pub fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::Interrupted => "interrupted",
        }
    }

    /// The reverse of [`Code::word`]; what is not known counts as refused.
    pub fn from_word(word: &str) -> Self {
        match word {
            "usage" => Self::Usage,
            "unreachable" => Self::Unreachable,
            "interrupted" => Self::Interrupted,
            _ => Self::Refused,
        }
    }
}

/// A failure for people: the sentence goes to standard error as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which exit code.
    pub code: Code,
    /// One plain sentence with what to do.
    pub sentence: String,
}

impl Failure {
    /// Refused, ended otherwise, or broken on this side.
    pub fn refused(sentence: impl Into<String>) -> Self {
        Self { code: Code::Refused, sentence: sentence.into() }
    }

    /// The input cannot be used.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self { code: Code::Usage, sentence: sentence.into() }
    }

    /// Relay or host cannot be reached.
    pub fn unreachable(sentence: impl Into<String>) -> Self {
        Self { code: Code::Unreachable, sentence: sentence.into() }
    }

    /// Stopped by a signal, with nothing to say.
    pub fn interrupted() -> Self {
        Self { code: Code::Interrupted, sentence: String::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Failure {}

/// What every step of a command gives back.
pub type Outcome<T> = Result<T, Failure>;
