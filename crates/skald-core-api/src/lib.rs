//! What a plugin sees of Skald.
//!
//! The host hands every plugin a [`PluginContext`]; the plugin gives back a [`Running`] value that owns all it
//! started. Nothing here knows of a relay, a phone or a web framework: host and plugins meet at these types alone.
#![deny(missing_docs)]

mod context;
mod inbox;
mod items;
mod plugin;
mod principal;
mod streams;

pub use context::{Event, Events, PluginContext, StatusReporter};
pub use inbox::{AnswerOutcome, Inbox, InboxError, InboxSnapshot, Notification};
pub use items::{
    Answer, Approval, Clarification, Decision, DecisionProof, Elicitation, ElicitationAction, Outcome,
    RequestId,
};
pub use plugin::{
    ConfigFault, Manifest, Plugin, PluginHttp, PluginRequest, PluginResponse, PluginState, PluginStatus,
    Running, StartError,
};
pub use principal::{Actor, DevicePeer, Permission, Principal};
pub use streams::{
    ByteStream, LocalWeb, StreamError, StreamHandler, StreamOffer, StreamRegistration, StreamRegistry,
    TypeTaken,
};
