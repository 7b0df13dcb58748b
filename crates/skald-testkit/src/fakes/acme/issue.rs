//! Signing what was proved.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

const DAY: Duration = Duration::from_secs(86_400);

/// The authority's own key.
pub(super) struct Issuer {
    params: CertificateParams,
    key: KeyPair,
    root: String,
}

impl Issuer {
    pub(super) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "A certificate authority for tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("no key for the authority")?;
        let root = params.self_signed(&key).context("the authority cannot sign itself")?.pem();
        Ok(Self { params, key, root })
    }

    pub(super) fn root(&self) -> String {
        self.root.clone()
    }

    /// Signs a request if it asks for these names and no others; the request's own signature is verified.
    pub(super) fn issue(
        &self,
        csr: &[u8],
        names: &[String],
        lifetime: Option<(Duration, Duration)>,
    ) -> Result<String, String> {
        let mut request =
            CertificateSigningRequestParams::from_der(&csr.into()).map_err(|error| error.to_string())?;
        let mut proved = Vec::new();
        for name in names {
            let name = Ia5String::try_from(name.as_str()).map_err(|error| error.to_string())?;
            proved.push(SanType::DnsName(name));
        }
        if request.params.subject_alt_names != proved {
            return Err("the request asks for other names than the order".to_owned());
        }
        let (age, left) = lifetime.unwrap_or((DAY, DAY * 90));
        let now = SystemTime::now();
        request.params.not_before = (now - age).into();
        request.params.not_after = (now + left).into();
        request.params.use_authority_key_identifier_extension = true;
        let issuer = rcgen::Issuer::new(self.params.clone(), &self.key);
        let signed = request.signed_by(&issuer).map_err(|error| error.to_string())?;
        Ok(signed.pem())
    }
}
