//! Certificates from an authority that speaks ACME.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::SettingsError;

/// Where certificates come from, when the relay gets them itself (RFC 8555, RFC 8737). On when a domain is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Acme {
    /// The names on the certificate. Port 443 of each must reach this relay. Environment: `RELAY_ACME_DOMAINS`,
    /// separated by commas.
    pub domains: Vec<String>,
    /// Where the authority may write to, such as `["mailto:you@example.org"]`. Environment: `RELAY_ACME_CONTACT`,
    /// separated by commas.
    pub contact: Vec<String>,
    /// The authority's directory. Naming domains means that you agree to its terms. Environment:
    /// `RELAY_ACME_DIRECTORY`.
    pub directory: String,
    /// PEM file of a private authority that the directory's own certificate comes from. Environment:
    /// `RELAY_ACME_ROOT_CA`.
    pub root_ca: Option<PathBuf>,
}

impl Default for Acme {
    fn default() -> Self {
        Self {
            domains: Vec::new(),
            contact: Vec::new(),
            directory: "https://acme-v02.api.letsencrypt.org/directory".to_owned(),
            root_ca: None,
        }
    }
}

impl Acme {
    /// Whether the relay gets its certificates itself.
    pub fn is_on(&self) -> bool {
        !self.domains.is_empty()
    }

    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        for domain in &self.domains {
            if domain.starts_with("*.") {
                let reason =
                    format!("holds {domain}: a wildcard cannot be proved over TLS, so name each domain");
                return Err(SettingsError::value("acme.domains", reason));
            }
            let good = !domain.contains("..")
                && !domain.starts_with('.')
                && !domain.ends_with('.')
                && domain.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
                && domain.parse::<std::net::IpAddr>().is_err();
            if !good || domain.is_empty() {
                let reason = format!("holds {domain:?}, which is no name such as relay.example.org");
                return Err(SettingsError::value("acme.domains", reason));
            }
        }
        if let Some(contact) = self.contact.iter().find(|contact| !contact.contains(':')) {
            let reason = format!("holds {contact:?}, which is no address such as mailto:you@example.org");
            return Err(SettingsError::value("acme.contact", reason));
        }
        if !self.directory.starts_with("https://") {
            return Err(SettingsError::value(
                "acme.directory",
                "must be an address that begins with https://",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_authority_could_certify_is_refused_by_name() {
        let with = |domain: &str| Acme { domains: vec![domain.to_owned()], ..Acme::default() };
        with("relay.example.org").validate().unwrap();
        for wrong in
            ["*.example.org", "", "https://relay.example.org", "192.0.2.1", "a..b", "relay.example.org."]
        {
            let error = with(wrong).validate().unwrap_err().to_string();
            assert!(error.starts_with("acme.domains "), "{error}");
        }
        let plain = Acme { directory: "http://ca.example".to_owned(), ..Acme::default() };
        assert!(plain.validate().unwrap_err().to_string().starts_with("acme.directory "));
        let contact = Acme { contact: vec!["me@example.org".to_owned()], ..Acme::default() };
        assert!(contact.validate().unwrap_err().to_string().starts_with("acme.contact "));
    }
}
