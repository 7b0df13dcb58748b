//! The commands.

pub mod access;
pub mod ask;
pub mod devices;
pub mod pair;
pub mod plugins;
pub mod run;
pub mod serve;
pub mod status;
