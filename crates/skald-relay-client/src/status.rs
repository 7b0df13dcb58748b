//! The link's state, in words a person can act upon.

use std::fmt;

/// Where the link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkState {
    /// Looking for the relay, or proving who this is.
    Connecting,
    /// Connected and authenticated.
    Connected,
    /// Pausing before the next attempt; [`LinkStatus::last_error`] says why.
    Waiting,
    /// Device: paired, and not yet admitted by the agent.
    AwaitingAdmission,
    /// Device: it was admitted once and no longer is. Attempts go on slowly, for a relay that lost its list gets it
    /// back from the agent.
    Revoked,
    /// Shut down.
    Stopped,
}

impl LinkState {
    /// One word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Waiting => "waiting",
            Self::AwaitingAdmission => "awaiting_admission",
            Self::Revoked => "revoked",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The link's state, why, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkStatus {
    /// Where it stands.
    pub state: LinkState,
    /// What ended the last attempt or session; `None` once connected. `Display` gives one plain sentence.
    pub last_error: Option<LinkProblem>,
    /// Unix milliseconds of the last change of `state`.
    pub since: u64,
}

/// Why there is no connection. `Display` is one plain sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkProblem {
    /// No address behind the name.
    #[error("The relay's name {0} was not found; check the address and this computer's network.")]
    NameNotFound(String),
    /// No TCP connection.
    #[error(
        "The relay at {0} cannot be reached; check the address, the network, and that the relay is running."
    )]
    Unreachable(String),
    /// A step took too long.
    #[error("The relay at {host} did not answer in time ({step}); the next attempt follows by itself.")]
    TimedOut {
        /// Which relay.
        host: String,
        /// What was awaited.
        step: &'static str,
    },
    /// Nobody this computer trusts vouches for the certificate.
    #[error(
        "The certificate of {0} is not trusted; if the relay has a private authority, name its file in the settings."
    )]
    CertificateUntrusted(String),
    /// The certificate is another host's.
    #[error("The certificate that {0} shows is not for this name; check the address.")]
    CertificateName(String),
    /// Expired, not yet valid, or this computer's clock is wrong.
    #[error(
        "The certificate of {0} is not valid at this computer's time; check the clock, then ask the relay's operator."
    )]
    CertificateTime(String),
    /// Another failure of TLS.
    #[error(
        "A secure connection to {0} could not be set up; check that the address and port are those of a relay."
    )]
    Tls(String),
    /// Something answers there, and it is no relay.
    #[error("{host} answers, but not as a relay (HTTP status {status}); check the address.")]
    NotARelay {
        /// Which host.
        host: String,
        /// Its answer.
        status: u16,
    },
    /// What came is not this protocol.
    #[error("What answers at the relay's address does not speak its protocol; check the address.")]
    Protocol,
    /// Too many connections.
    #[error(
        "The relay takes no more connections from here for the moment; the next attempt follows by itself."
    )]
    Busy,
    /// The relay said no.
    #[error("The relay refused the connection ({0}); the next attempt follows by itself.")]
    Refused(String),
    /// The relay put this client into another namespace.
    #[error("The relay answered for another namespace and is not to be trusted; check the address.")]
    WrongNamespace,
    /// Device: the agent did not admit it yet.
    #[error("This device waits to be admitted; compare the code and admit it on the host.")]
    NotAdmitted,
    /// Device: no longer admitted.
    #[error("This device is no longer admitted; pair it again if it should be.")]
    Revoked,
    /// The relay closed, or the network did.
    #[error("The connection to the relay ended; the next attempt follows by itself.")]
    Closed,
    /// Nothing was heard.
    #[error("Nothing was heard from the relay for too long; the next attempt follows by itself.")]
    Silent,
    /// The store failed.
    #[error("The store of the relay connection cannot be read or written ({0}); check the disk.")]
    Store(String),
    /// The application does not take its messages.
    #[error("Too many received messages wait to be processed; no more are taken until they are.")]
    Backlog,
}
