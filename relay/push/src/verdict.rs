//! What a provider said, in the terms by which the relay acts.

use std::borrow::Cow;
use std::time::Duration;

use crate::push::UnixMillis;

/// What became of a push.
///
/// Reasons go to the log, so they never hold a token, a body or anything else that came from a device: a provider's
/// own code at most.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The provider took it.
    Accepted,
    /// The token leads nowhere any more and must be forgotten.
    TokenDead {
        /// When the provider found that out. A token that the device registered later is alive.
        since: Option<UnixMillis>,
    },
    /// The provider wants less.
    Later {
        /// How long it wants to be left alone; nothing where it does not say.
        after: Option<Duration>,
        /// For whom this holds.
        who: Throttled,
    },
    /// The body is larger than the provider takes: it goes again without content.
    TooLarge,
    /// The provider will not take it, and trying again changes nothing until somebody acts.
    Refused {
        /// Whose fault it is.
        fault: Fault,
        /// What the provider calls it.
        reason: Cow<'static, str>,
    },
    /// The provider did not answer, or the answer made no sense.
    Unreachable {
        /// What happened.
        reason: Cow<'static, str>,
    },
    /// No provider is set up that reaches this device.
    NoProvider,
}

/// For whom a provider's wish for less holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttled {
    /// This device alone.
    Device,
    /// Everything that goes the same way.
    Lane,
}

/// Who has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operator: a key is wrong or revoked, or the provider has locked the account. The way is closed meanwhile.
    Operator,
    /// The operator, but only devices of some kind are concerned. The push is given up, and others still go.
    Partly,
    /// The device: what it registered cannot be used, or is not allowed. The push is given up, and others still go.
    Device,
    /// This program: it sent what the provider does not understand. The push is given up, and others still go.
    Ours,
}

impl Verdict {
    /// An answer of a provider that says to come back later, to this device.
    pub fn later_for_device(after: Option<Duration>) -> Self {
        Self::Later { after, who: Throttled::Device }
    }

    /// An answer of a provider that is not well, or wants less of everything.
    pub fn later_for_lane(after: Option<Duration>) -> Self {
        Self::Later { after, who: Throttled::Lane }
    }

    /// A refusal that the operator must look at.
    pub fn operator(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused { fault: Fault::Operator, reason: reason.into() }
    }

    /// A refusal that is a fault in this program.
    pub fn ours(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused { fault: Fault::Ours, reason: reason.into() }
    }

    /// A refusal that concerns this device alone.
    pub fn device(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused { fault: Fault::Device, reason: reason.into() }
    }

    /// No answer, or none that makes sense.
    pub fn unreachable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Unreachable { reason: reason.into() }
    }
}
