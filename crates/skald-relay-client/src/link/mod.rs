//! The link to the relay as a machine without socket and clock, and the pace of what it sends.

mod machine;
mod pacer;

pub(crate) use machine::{Effect, Input, Machine, Role};
pub(crate) use pacer::{Pacer, Urgency};
