//! Where the relay is.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::Uri;

/// The control socket's path.
const CONTROL: &str = "/v1/ws";

/// A relay's address, checked: `wss://`, or `ws://` on a loopback address alone, with the path `/v1/ws`.
#[derive(Clone, PartialEq, Eq)]
pub struct RelayUrl {
    tls: bool,
    /// Without brackets.
    host: String,
    port: u16,
    /// What stands before `/v1/ws`, for a relay below a path of a larger site.
    prefix: String,
}

/// The text is not the address of a relay; it says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RelayUrlError {
    /// Not an address at all.
    #[error("the relay address is not valid; it looks like wss://relay.example/v1/ws")]
    Invalid,
    /// Another scheme.
    #[error("the relay address must begin with wss://")]
    Scheme,
    /// Unencrypted to another computer.
    #[error(
        "the relay address must begin with wss://; ws:// is for a relay on this computer alone (127.0.0.1, ::1 or localhost)"
    )]
    Plain,
    /// A password or a query.
    #[error("the relay address must not hold a user name, a query or a fragment")]
    Extras,
    /// Another path.
    #[error("the path of the relay address must be /v1/ws, or be left out")]
    Path,
}

impl RelayUrl {
    /// Reads an address; a missing path is completed.
    pub fn parse(text: &str) -> Result<Self, RelayUrlError> {
        let text = text.trim();
        if text.contains('#') {
            return Err(RelayUrlError::Extras);
        }
        let uri: Uri = text.parse().map_err(|_| RelayUrlError::Invalid)?;
        let tls = match uri.scheme_str() {
            Some("wss") => true,
            Some("ws") => false,
            Some(_) => return Err(RelayUrlError::Scheme),
            None => return Err(RelayUrlError::Invalid),
        };
        let authority = uri.authority().ok_or(RelayUrlError::Invalid)?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(RelayUrlError::Extras);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let has_port = authority.as_str().trim_end_matches(|c: char| c.is_ascii_digit()).ends_with(':')
            && !authority.as_str().ends_with(']');
        let port = match authority.port_u16() {
            Some(0) => return Err(RelayUrlError::Invalid),
            Some(port) => port,
            None if has_port => return Err(RelayUrlError::Invalid),
            None if tls => 443,
            None => 80,
        };
        if host.is_empty() || (authority.host().starts_with('[') && host.parse::<Ipv6Addr>().is_err()) {
            return Err(RelayUrlError::Invalid);
        }
        if !tls && !is_loopback(&host) {
            return Err(RelayUrlError::Plain);
        }
        let prefix = match uri.path().trim_end_matches('/') {
            "" => "",
            path => path.strip_suffix(CONTROL).ok_or(RelayUrlError::Path)?,
        };
        Ok(Self { tls, host, port, prefix: prefix.to_owned() })
    }

    /// Whether TLS protects it.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the HTTP `Host` header says: the port only where it is not the scheme's.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    pub(crate) fn control_path(&self) -> String {
        format!("{}{CONTROL}", self.prefix)
    }

    pub(crate) fn pipe_path(&self) -> String {
        format!("{}/v1/pipe", self.prefix)
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "wss" } else { "ws" };
        write!(f, "{scheme}://{}{}", self.authority(), self.control_path())
    }
}

impl fmt::Debug for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_addresses_are_completed() {
        for (text, full) in [
            ("wss://relay.example", "wss://relay.example/v1/ws"),
            ("wss://Relay.Example:443/", "wss://relay.example/v1/ws"),
            (" wss://relay.example:8443/v1/ws ", "wss://relay.example:8443/v1/ws"),
            ("wss://example.org/skald/v1/ws", "wss://example.org/skald/v1/ws"),
            ("wss://[2001:db8::1]:9/v1/ws", "wss://[2001:db8::1]:9/v1/ws"),
            ("ws://127.0.0.1:8080", "ws://127.0.0.1:8080/v1/ws"),
            ("ws://127.9.9.9:1/", "ws://127.9.9.9:1/v1/ws"),
            ("ws://[::1]:8080", "ws://[::1]:8080/v1/ws"),
            ("ws://localhost", "ws://localhost/v1/ws"),
        ] {
            assert_eq!(RelayUrl::parse(text).unwrap().to_string(), full, "{text}");
        }
    }

    #[test]
    fn bad_addresses_say_what_is_wrong() {
        for (text, error) in [
            ("", RelayUrlError::Invalid),
            ("relay.example", RelayUrlError::Invalid),
            ("https://relay.example", RelayUrlError::Scheme),
            ("ws://relay.example", RelayUrlError::Plain),
            ("ws://10.0.0.1", RelayUrlError::Plain),
            ("ws://127.0.0.1.evil.example", RelayUrlError::Plain),
            ("wss://user:pw@relay.example", RelayUrlError::Extras),
            ("wss://relay.example/v1/ws?token=1", RelayUrlError::Extras),
            ("wss://relay.example/v1/ws#x", RelayUrlError::Extras),
            ("wss://relay.example/other", RelayUrlError::Path),
            ("wss://relay.example:0", RelayUrlError::Invalid),
            ("wss://relay.example:70000", RelayUrlError::Invalid),
        ] {
            assert_eq!(RelayUrl::parse(text), Err(error), "{text}");
        }
    }
}
