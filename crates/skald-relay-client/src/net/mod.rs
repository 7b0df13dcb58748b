//! Reaching the relay: address, TCP, TLS, each step with a deadline and a plain error.

mod dial;
mod url;

pub(crate) use dial::{Dialer, Io};
pub use url::{RelayUrl, RelayUrlError};
