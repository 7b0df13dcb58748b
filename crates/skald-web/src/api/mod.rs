//! The API, one module per subject.

pub(crate) mod access;
pub(crate) mod answers;
pub(crate) mod ask;
pub(crate) mod events;
pub(crate) mod inbox;
pub(crate) mod plugins;
pub(crate) mod schema;
pub(crate) mod settings;
