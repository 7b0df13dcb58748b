//! Who acts, and what they may do.

use serde::{Deserialize, Serialize};

/// The device at the other end of a stream, as the plugin that authenticated it vouches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DevicePeer {
    /// Ed25519 public key, lowercase hex.
    pub key: String,
    /// The name people gave it.
    pub name: String,
}

/// Who did something, for history and audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Actor {
    /// The owner, signed in on the page.
    Owner,
    /// A script with an API token.
    Token {
        /// The token's name.
        name: String,
    },
    /// A paired device.
    Device {
        /// Ed25519 public key, lowercase hex.
        key: String,
        /// The name people gave it.
        name: String,
    },
    /// A rule or a bypass.
    Rule {
        /// Which one, for people.
        name: String,
    },
    /// The clock: the question lapsed.
    Timeout,
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Owner => f.write_str("web"),
            Self::Token { name } => write!(f, "token:{name}"),
            Self::Device { name, .. } => write!(f, "device:{name}"),
            Self::Rule { name } => write!(f, "rule:{name}"),
            Self::Timeout => f.write_str("timeout"),
        }
    }
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Read the Inbox, its history, devices and plugins.
    Read,
    /// Answer items.
    Answer,
    /// Ask: create, read back and withdraw items, send notifications.
    Ask,
    /// Pair, admit and revoke devices, change settings, make tokens.
    Administer,
}

/// Who makes a request. A device may read and answer, and no more: a lost phone must not be able to admit another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The owner, signed in on the page at home.
    Owner,
    /// A script with an API token.
    Token {
        /// The token's name.
        name: String,
    },
    /// A paired device, known by its connection.
    Device(DevicePeer),
}

impl Principal {
    /// Whether this principal may do `what`.
    pub fn may(&self, what: Permission) -> bool {
        match self {
            Self::Owner | Self::Token { .. } => true,
            Self::Device(_) => matches!(what, Permission::Read | Permission::Answer),
        }
    }

    /// The same, as history records it.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Owner => Actor::Owner,
            Self::Token { name } => Actor::Token { name: name.clone() },
            Self::Device(d) => Actor::Device { key: d.key.clone(), name: d.name.clone() },
        }
    }
}
