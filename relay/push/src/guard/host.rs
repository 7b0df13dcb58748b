//! An entry of a list of hosts.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The port of https.
const HTTPS: u16 = 443;

/// A host to which pushes may go: `push.example.org`, `*.example.org` for every name below it, and either with a port
/// such as `push.example.org:8443` where it is not 443. Addresses such as `192.168.1.5` and `[fd00::5]` are entries
/// too, and count only where private hosts are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostEntry {
    name: Name,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// This name or address alone.
    Exactly(String),
    /// Every name that ends with this, which begins with a dot.
    Below(String),
}

/// Text that is no entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host such as push.example.org, *.example.org or push.example.org:8443")]
pub struct HostError(String);

impl HostEntry {
    /// Whether this host may be called at this port. The host is as a parsed address gives it: in lowercase.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        self.port == port && self.names(host)
    }

    /// Whether this host is meant, at whatever port.
    pub fn names(&self, host: &str) -> bool {
        match &self.name {
            Name::Exactly(name) => host == name,
            Name::Below(suffix) => {
                host.strip_suffix(suffix.as_str()).is_some_and(|front| host_name(front).is_some())
            }
        }
    }
}

/// The name in lowercase, if it is made of labels as they are in the Internet.
fn host_name(text: &str) -> Option<String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    (text.len() <= 253 && text.split('.').all(label)).then(|| text.to_ascii_lowercase())
}

impl FromStr for HostEntry {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let wrong = || HostError(text.to_owned());
        let port = |text: &str| text.parse().ok().filter(|port| *port != 0).ok_or_else(wrong);
        if let Some(bracketed) = text.strip_prefix('[') {
            let (address, rest) = bracketed.split_once(']').ok_or_else(wrong)?;
            let address: Ipv6Addr = address.parse().map_err(|_| wrong())?;
            let port = match rest.strip_prefix(':') {
                Some(digits) => port(digits)?,
                None if rest.is_empty() => HTTPS,
                None => return Err(wrong()),
            };
            return Ok(Self { name: Name::Exactly(format!("[{address}]")), port });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, digits)) => (host, port(digits)?),
            None => (text, HTTPS),
        };
        if let Some(suffix) = host.strip_prefix("*.") {
            // A wildcard right below a top-level domain would allow nearly everything.
            let suffix = host_name(suffix).filter(|name| name.contains('.')).ok_or_else(wrong)?;
            return Ok(Self { name: Name::Below(format!(".{suffix}")), port });
        }
        let name = host_name(host).ok_or_else(wrong)?;
        // What a URL would read as an address must be written as one, or the entry would never match.
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.starts_with(|first: char| first.is_ascii_digit()) && name.parse::<IpAddr>().is_err() {
            return Err(wrong());
        }
        Ok(Self { name: Name::Exactly(name), port })
    }
}

impl TryFrom<String> for HostEntry {
    type Error = HostError;
    fn try_from(text: String) -> Result<Self, HostError> {
        text.parse()
    }
}

impl From<HostEntry> for String {
    fn from(entry: HostEntry) -> Self {
        entry.to_string()
    }
}

impl fmt::Display for HostEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Exactly(name) => write!(f, "{name}")?,
            Name::Below(suffix) => write!(f, "*{suffix}")?,
        }
        if self.port == HTTPS { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_being_written() {
        for text in [
            "push.example.org",
            "*.example.org",
            "push.example.org:8443",
            "ntfy",
            "192.168.1.5:1",
            "[fd00::5]",
        ] {
            assert_eq!(text.parse::<HostEntry>().unwrap().to_string(), text);
        }
        assert_eq!("Push.Example.ORG:443".parse::<HostEntry>().unwrap().to_string(), "push.example.org");
        assert_eq!("[FD00:0::5]:99".parse::<HostEntry>().unwrap().to_string(), "[fd00::5]:99");
    }

    #[test]
    fn what_is_no_host_is_refused_with_the_text() {
        for text in [
            "",
            "*",
            "*.",
            "*.org",
            "*.*.org",
            "a.*.org",
            "https://push.example.org",
            "push.example.org/path",
            "push.example.org:",
            "push.example.org:0",
            "push.example.org:99999",
            "user@push.example.org",
            "a..b",
            ".example.org",
            "example.org.",
            "-a.org",
            "a b.org",
            "[fd00::5",
            "[fd00::5]x",
            "fd00::5",
            "[1.2.3.4]",
            "127.1",
            "0x7f.1",
            "pusch\u{fc}.org",
        ] {
            let error = text.parse::<HostEntry>().unwrap_err();
            assert!(error.to_string().contains(text) || !text.is_ascii(), "{text}");
        }
    }

    #[test]
    fn a_wildcard_covers_names_below_it_alone() {
        let entry: HostEntry = "*.push.apple.com".parse().unwrap();
        assert!(entry.allows("web.push.apple.com", 443) && entry.allows("a.b.push.apple.com", 443));
        assert!(!entry.allows("push.apple.com", 443) && !entry.allows(".push.apple.com", 443));
        assert!(!entry.allows("webpush.apple.com", 443) && !entry.allows("web.push.apple.com", 80));
    }
}
