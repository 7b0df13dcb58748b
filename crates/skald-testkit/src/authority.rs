//! A private certificate authority, so that tests and `cargo xtask up` speak TLS as the world outside does.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

const DAY: Duration = Duration::from_secs(86_400);
/// Ten years for the authority, which devices are told to trust by file.
const AUTHORITY_DAYS: u32 = 3_650;
/// What current platforms accept of a server certificate at most. Every start makes a new one.
const SERVER_DAYS: u32 = 397;

/// An authority whose certificate is `ca.pem` and whose key is `ca.key` (mode 0600) in one folder.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    key: KeyPair,
}

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct ServerCertificate {
    /// The chain, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM, mode 0600.
    pub key: PathBuf,
}

impl Authority {
    /// The authority kept in `folder`, made on first use.
    ///
    /// An authority that is there but cannot be read is an error: devices trust it by its file, and a new one put
    /// silently in its place would cut them off without a word.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let (certificate, key) = (folder.join("ca.pem"), folder.join("ca.key"));
        if certificate.exists() != key.exists() {
            bail!(
                "{} holds only one of ca.pem and ca.key: put the other back, or remove both and give devices the new \
                 ca.pem.",
                folder.display()
            );
        }
        if key.exists() {
            let text =
                fs::read_to_string(&key).with_context(|| format!("{} cannot be read.", key.display()))?;
            let key = KeyPair::from_pem(&text).with_context(|| {
                format!(
                    "{} is no private key: put it back, or remove the folder {}.",
                    key.display(),
                    folder.display()
                )
            })?;
            return Ok(Self { folder, key });
        }
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made.", folder.display()))?;
        let authority = Self { key: KeyPair::generate().context("no key for the authority")?, folder };
        let own =
            authority.params().self_signed(&authority.key).context("the authority cannot sign itself")?;
        write(&key, authority.key.serialize_pem().as_bytes(), 0o600)?;
        write(&certificate, own.pem().as_bytes(), 0o644)?;
        Ok(authority)
    }

    /// The file that clients are told to trust.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A fresh certificate for this machine's loopback names, written beside the authority as `NAME.pem` and
    /// `NAME.key`. It is made anew at every start, so none runs out while it is in use.
    pub fn issue(&self, name: &str) -> Result<ServerCertificate> {
        let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
        let mut params = CertificateParams::new(names).context("the certificate's names are not valid")?;
        params.distinguished_name.push(DnType::CommonName, "Skald on this machine");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        valid_for(&mut params, SERVER_DAYS);
        let key = KeyPair::generate().context("no key for the server")?;
        let issuer = Issuer::new(self.params(), &self.key);
        let signed = params.signed_by(&key, &issuer).context("the authority cannot sign")?;
        let files = ServerCertificate {
            certificate: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        };
        write(&files.key, key.serialize_pem().as_bytes(), 0o600)?;
        write(&files.certificate, signed.pem().as_bytes(), 0o644)?;
        Ok(files)
    }

    /// The same each time, for a chain is built by name and key identifier: both must equal what `ca.pem` says.
    fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Skald private authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        valid_for(&mut params, AUTHORITY_DAYS);
        params
    }
}

/// From yesterday on, so that a clock that is a little slow at the other end does no harm.
fn valid_for(params: &mut CertificateParams, days: u32) {
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + DAY * days).into();
}

/// Written beside and renamed: a crash leaves the old file or the new one, never half of one.
fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let unfinished = path.with_extension("new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&unfinished)
        .with_context(|| format!("{} cannot be written.", unfinished.display()))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .with_context(|| format!("{} is not written.", path.display()))?;
    fs::rename(&unfinished, path).with_context(|| format!("{} cannot be put in place.", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::Scratch;

    #[test]
    fn an_authority_outlives_a_restart_and_its_keys_are_private() {
        let scratch = Scratch::new().unwrap();
        let first = Authority::open(scratch.join("ca")).unwrap();
        let certificate = fs::read(first.certificate()).unwrap();
        let again = Authority::open(scratch.join("ca")).unwrap();
        assert_eq!(certificate, fs::read(again.certificate()).unwrap());
        assert_eq!(first.key.serialize_pem(), again.key.serialize_pem());
        let server = again.issue("relay").unwrap();
        for private in [server.key, scratch.join("ca/ca.key")] {
            assert_eq!(fs::metadata(private).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn half_an_authority_is_an_error_that_says_what_to_do() {
        let scratch = Scratch::new().unwrap();
        let authority = Authority::open(scratch.join("ca")).unwrap();
        fs::remove_file(authority.certificate()).unwrap();
        let said = format!("{:#}", Authority::open(scratch.join("ca")).unwrap_err());
        assert!(said.contains("put the other back"), "{said}");
    }

    #[test]
    fn a_key_that_cannot_be_read_is_never_replaced() {
        let scratch = Scratch::new().unwrap();
        Authority::open(scratch.join("ca")).unwrap();
        fs::write(scratch.join("ca/ca.key"), "rubbish").unwrap();
        assert!(Authority::open(scratch.join("ca")).is_err());
        assert_eq!(fs::read_to_string(scratch.join("ca/ca.key")).unwrap(), "rubbish");
    }
}
