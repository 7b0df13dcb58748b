//! Reading a certificate, and what is to be known about it.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::TlsError;

/// A chain with its key.
pub(crate) struct Certificate {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) facts: Facts,
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Seconds since 1970.
    pub(crate) not_before: i64,
    /// Seconds since 1970.
    pub(crate) not_after: i64,
    /// DNS names, as they are written, and addresses.
    pub(crate) names: Vec<String>,
}

impl Facts {
    fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let validity = parsed.validity();
        let alternative = parsed.subject_alternative_name().ok()?;
        let names = alternative.iter().flat_map(|names| &names.value.general_names);
        Some(Self {
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            names: names.filter_map(name).collect(),
        })
    }

    /// Whether this name is on the certificate, by itself or under a wildcard.
    pub(crate) fn covers(&self, name: &str) -> bool {
        let parent = name.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|known| {
            known.eq_ignore_ascii_case(name)
                || known
                    .strip_prefix("*.")
                    .is_some_and(|of| parent.is_some_and(|p| p.eq_ignore_ascii_case(of)))
        })
    }

    /// Whole days until it ends; negative once it has.
    pub(crate) fn days_left(&self, now: i64) -> i64 {
        (self.not_after - now).div_euclid(86_400)
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from))
                .ok()
                .map(|ip| ip.to_string())
        }
        _ => None,
    }
}

impl Certificate {
    /// From PEM texts, which may be one; the paths are for errors.
    pub(crate) fn from_pem(
        (certificate_path, certificate): (&Path, &[u8]),
        (key_path, key): (&Path, &[u8]),
    ) -> Result<Self, TlsError> {
        let pem = |path: &Path| {
            let path = path.to_owned();
            move |cause| TlsError::Pem { path, cause }
        };
        let chain = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(pem(certificate_path))?;
        let Some(leaf) = chain.first() else { return Err(TlsError::Empty(certificate_path.to_owned())) };
        let facts = Facts::read(leaf).ok_or_else(|| TlsError::Malformed(certificate_path.to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(pem(key_path))?;
        let certified = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider());
        let key = certified.map_err(|cause| TlsError::Unusable {
            certificate: certificate_path.to_owned(),
            key: key_path.to_owned(),
            cause,
        })?;
        Ok(Self { key: Arc::new(key), facts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_dates_are_read_and_wildcards_cover_one_label() {
        let names = ["relay.example".to_owned(), "*.wild.example".to_owned(), "192.0.2.1".to_owned()];
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 1, 31);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let (path, private) = (Path::new("x.pem"), key.serialize_pem());
        let read = Certificate::from_pem((path, pem.as_bytes()), (path, private.as_bytes())).unwrap();
        let facts = read.facts;
        assert_eq!(facts.names, ["relay.example", "*.wild.example", "192.0.2.1"]);
        assert_eq!(facts.not_after - facts.not_before, 30 * 86_400);
        assert_eq!(facts.days_left(facts.not_after - 1), 0);
        assert_eq!(facts.days_left(facts.not_after + 1), -1);
        for (name, covered) in [
            ("relay.example", true),
            ("RELAY.example", true),
            ("a.wild.example", true),
            ("wild.example", false),
            ("a.b.wild.example", false),
            ("192.0.2.1", true),
        ] {
            assert_eq!(facts.covers(name), covered, "{name}");
        }
    }

    #[test]
    fn another_key_is_refused_and_both_files_are_named() {
        let certified = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
        let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let pem = certified.cert.pem();
        let read = Certificate::from_pem(
            (Path::new("chain.pem"), pem.as_bytes()),
            (Path::new("key.pem"), other.as_bytes()),
        );
        let error = read.err().unwrap().to_string();
        assert!(error.contains("chain.pem") && error.contains("key.pem"), "{error}");
    }
}
