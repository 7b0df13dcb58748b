//! `log`: the last lines of the host's log, and every new one.

mod handler;
mod layer;
mod ring;

pub(crate) use handler::LogHandler;
pub use layer::LogLayer;
pub use ring::LogRing;
