//! The host: Inbox, rules, audit, plugins, events and storage.
//!
//! [`Host`] is the one value the web server and the command line build on. It owns the data folder (one process at a
//! time), the SQLite database in it, every plugin and every background task; [`Host::shutdown`] ends and joins them
//! all. It knows no web framework, no relay and no particular plugin.
//!
//! Time is an argument: everything that lapses asks the [`Clock`] in [`HostConfig`], so that tests move it by hand.
#![deny(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod access;
mod audit;
mod clock;
mod error;
mod events;
mod host;
mod inbox;
mod json;
mod notifications;
mod plugins;
mod retention;
mod rules;
mod schema;
mod secret;
mod settings;
mod store;
mod streams;

pub use access::{Access, ApiToken, NewSession, SessionInfo, SignInLink};
pub use audit::{Audit, AuditEntry};
pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, FieldError, OpenError, StoreError};
pub use events::{EventHub, EventStream};
pub use host::{Host, HostConfig};
pub use inbox::{
    Created, HistoryEntry, HistoryPage, InboxService, ItemKind, ItemState, LateAnswer, NewApproval,
    NewClarification, NewElicitation, RequestStatus, limits,
};
pub use json::from_json;
pub use plugins::{PluginInfo, PluginTimings, Plugins};
pub use rules::{Bypass, Rules};
pub use secret::{Content, Secret};
pub use settings::{Settings, SettingsStore, SettingsUpdate};
pub use streams::Streams;
