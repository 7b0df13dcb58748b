//! From a TCP connection to a WebSocket: accepting, TLS, the HTTP request, and whose address it is.

pub(crate) mod accept;
pub(crate) mod address;
mod http;
pub(crate) mod tls;
