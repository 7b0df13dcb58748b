//! Where pushes may go whose address a device has chosen.
//!
//! A Web Push endpoint and an ntfy topic are addresses that a device gives to the relay, and the relay calls them. So
//! that nobody can make it call into its operator's network, the name must be on a list, the scheme is https, the
//! port is the usual one, redirects are not followed, and the addresses that the name resolves to are checked at the
//! moment of connecting: a name that changes its mind between check and connection gains nothing.

mod address;
mod host;
mod resolve;

use std::sync::Arc;

use reqwest::Url;

pub use address::is_public;
pub use host::{HostEntry, HostError};
pub use resolve::{Lookup, SystemLookup};

use resolve::Guarded;

/// The longest address that is looked at. UnifiedPush allows 1000 bytes; browsers' are shorter.
const URL_BYTES: usize = 2000;

/// The lists of an operator, and what they allow.
#[derive(Clone)]
pub struct Guard {
    lists: Arc<Lists>,
    lookup: Arc<dyn Lookup>,
}

pub(crate) struct Lists {
    public: Vec<HostEntry>,
    private: Vec<HostEntry>,
}

/// What is said of a name that leads to private addresses alone.
pub const NO_PUBLIC_ADDRESS: &str =
    "the push host has no public address: name it in private_hosts if it may be called all the same";

/// Whether a request failed because its host has no address that may be called.
pub(crate) fn is_private(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<resolve::NoPublicAddress>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Why an address is not called. The text names the host at most, never the path, for the path is the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// It is no address.
    #[error("the device's push address is no https address")]
    Malformed,
    /// The host is not on the list.
    #[error("the push host {0} is not allowed: add it to the hosts in the settings if it should be")]
    Host(String),
}

impl Guard {
    /// Allows `public` hosts at public addresses, and `private` ones at any address.
    pub fn new(public: Vec<HostEntry>, private: Vec<HostEntry>) -> Self {
        Self { lists: Arc::new(Lists { public, private }), lookup: Arc::new(SystemLookup) }
    }

    /// The same with another way to look names up.
    #[must_use]
    pub fn with_lookup(mut self, lookup: Arc<dyn Lookup>) -> Self {
        self.lookup = lookup;
        self
    }

    /// Checks an address that came from a device, all but what its name resolves to.
    pub fn check(&self, address: &str) -> Result<Url, GuardError> {
        self.find(address).map(|(url, _)| url)
    }

    /// The entry of the lists that allows an address. There are as many of them as the operator wrote, while devices
    /// could name any number of hosts below a wildcard.
    pub fn entry(&self, address: &str) -> Option<String> {
        self.find(address).ok().map(|(_, entry)| entry.to_string())
    }

    fn find(&self, address: &str) -> Result<(Url, &HostEntry), GuardError> {
        if address.len() > URL_BYTES {
            return Err(GuardError::Malformed);
        }
        let url = Url::parse(address).map_err(|_| GuardError::Malformed)?;
        let plain = url.scheme() == "https"
            && url.username().is_empty()
            && url.password().is_none()
            && url.fragment().is_none();
        let (Some(host), Some(port), true) = (url.host_str(), url.port_or_known_default(), plain) else {
            return Err(GuardError::Malformed);
        };
        // A literal address is never resolved, so only an entry that names it lets it through.
        let literal = url.domain().is_none();
        let public = self.lists.public.iter().filter(|_| !literal);
        let entry = public.chain(&self.lists.private).find(|entry| entry.allows(host, port));
        match entry {
            Some(entry) => Ok((url, entry)),
            None => {
                let port = if port == 443 { String::new() } else { format!(":{port}") };
                Err(GuardError::Host(format!("{host}{port}")))
            }
        }
    }

    /// Sets up a client that connects to checked addresses alone and follows no redirect.
    pub fn protect(&self, client: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        client
            .dns_resolver(Guarded { lists: Arc::clone(&self.lists), lookup: Arc::clone(&self.lookup) })
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would look the name up itself.
            .no_proxy()
            .https_only(true)
            .referer(false)
    }
}

impl Lists {
    /// Whether this name may lead to private addresses.
    pub(crate) fn may_be_private(&self, host: &str) -> bool {
        self.private.iter().any(|entry| entry.names(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(texts: &[&str]) -> Vec<HostEntry> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn guard() -> Guard {
        Guard::new(
            entries(&["fcm.googleapis.com", "*.push.apple.com", "up.example.org:8443"]),
            entries(&["ntfy.home", "192.168.1.5:8443", "[fd00::5]"]),
        )
    }

    #[test]
    fn listed_hosts_are_called_at_their_port() {
        for address in [
            "https://fcm.googleapis.com/fcm/send/abc",
            "https://FCM.googleapis.com:443/fcm/send/abc",
            "https://web.push.apple.com/x",
            "https://a.b.push.apple.com/x?y=z",
            "https://up.example.org:8443/x",
            "https://ntfy.home/up1",
            "https://192.168.1.5:8443/x",
            "https://[fd00::5]/x",
        ] {
            assert!(guard().check(address).is_ok(), "{address}");
        }
    }

    #[test]
    fn nothing_else_is_called() {
        for address in [
            "http://fcm.googleapis.com/x",
            "ftp://fcm.googleapis.com/x",
            "file:///etc/passwd",
            "https://fcm.googleapis.com:8443/x",
            "https://fcm.googleapis.com:80/x",
            "https://fcm.googleapis.com./x",
            "https://evil.fcm.googleapis.com/x",
            "https://fcm.googleapis.com.evil.net/x",
            "https://fcm.googleapis.com@evil.net/x",
            "https://user@fcm.googleapis.com/x",
            "https://user:pass@fcm.googleapis.com/x",
            "https://fcm.googleapis.com/x#y",
            "https://evil.net/?fcm.googleapis.com",
            "https://evil.net\\@fcm.googleapis.com/x",
            "https://push.apple.com/x",
            "https://evilpush.apple.com/x",
            "https://.push.apple.com/x",
            "https://up.example.org/x",
            "https://ntfy.home:8443/x",
            "https://192.168.1.5/x",
            "https://192.168.1.6:8443/x",
            "https://127.0.0.1/x",
            "https://0x7f000001/x",
            "https://2130706433/x",
            "https://127.1/x",
            "https://0177.0.0.1/x",
            "https://[::1]/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://[fd00::6]/x",
            "https://localhost/x",
            "https://169.254.169.254/latest/meta-data",
            "https:///x",
            "",
            "fcm.googleapis.com/x",
        ] {
            assert!(guard().check(address).is_err(), "{address}");
        }
        let long = format!("https://fcm.googleapis.com/{}", "x".repeat(URL_BYTES));
        assert_eq!(guard().check(&long), Err(GuardError::Malformed));
    }

    #[test]
    fn a_literal_address_needs_an_entry_among_the_private_ones() {
        let guard = Guard::new(entries(&["8.8.8.8"]), Vec::new());
        assert!(guard.check("https://8.8.8.8/x").is_err());
    }

    #[test]
    fn the_error_names_the_host_and_not_the_secret_path() {
        let error = guard().check("https://evil.net:444/secret?token=secret").unwrap_err().to_string();
        assert!(error.contains("evil.net:444") && !error.contains("secret"), "{error}");
    }
}
