//! What is kept of an authority: the account, and the certificate with its key, in `acme/` in the data folder.
//!
//! Each authority has files of its own, so that trying one out does not lose the account with another.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use instant_acme::AccountCredentials;
use sha2::{Digest as _, Sha256};

use super::super::TlsError;
use super::super::certificate::Certificate;
use crate::private;

/// Where this authority's files are.
pub(super) struct Kept {
    account: PathBuf,
    certificate: PathBuf,
}

impl Kept {
    /// Makes the folder where it is missing.
    pub(super) fn open(data: &Path, directory: &str) -> Result<Self, TlsError> {
        let kept = Self::at(data, directory);
        for folder in [data, &data.join("acme")] {
            private::folder(folder).map_err(|cause| TlsError::Kept { path: folder.to_owned(), cause })?;
        }
        Ok(kept)
    }

    /// The same, without touching the disk.
    pub(super) fn at(data: &Path, directory: &str) -> Self {
        let digest = Sha256::digest(directory);
        let id: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = data.join("acme");
        Self {
            account: folder.join(format!("account-{id}.json")),
            certificate: folder.join(format!("certificate-{id}.pem")),
        }
    }

    pub(super) fn account(&self) -> Result<Option<AccountCredentials>, TlsError> {
        let Some(bytes) = read(&self.account)? else { return Ok(None) };
        // An account that cannot be read is never replaced silently: its key may be all that a person has.
        let wrong = |error: serde_json::Error| TlsError::Kept {
            path: self.account.clone(),
            cause: io::Error::new(io::ErrorKind::InvalidData, error),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(wrong)
    }

    pub(super) fn keep_account(&self, account: &AccountCredentials) -> Result<(), TlsError> {
        let text = serde_json::to_vec(account)
            .map_err(|error| TlsError::Kept { path: self.account.clone(), cause: io::Error::other(error) })?;
        write(&self.account, &text)
    }

    pub(super) fn certificate(&self) -> Result<Option<Certificate>, TlsError> {
        let Some(pem) = read(&self.certificate)? else { return Ok(None) };
        Certificate::from_pem((&self.certificate, &pem), (&self.certificate, &pem)).map(Some)
    }

    /// Keeps chain and key in one file, so that they always belong together, and gives both back as they will be read.
    pub(super) fn keep_certificate(&self, chain: &str, key: &str) -> Result<Certificate, TlsError> {
        let pem = format!("{}\n{key}", chain.trim_end());
        let certificate =
            Certificate::from_pem((&self.certificate, pem.as_bytes()), (&self.certificate, pem.as_bytes()))?;
        write(&self.certificate, pem.as_bytes())?;
        Ok(certificate)
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, TlsError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(TlsError::Kept { path: path.to_owned(), cause }),
    }
}

/// Written beside and renamed, so that a crash leaves the old content or the new one.
fn write(path: &Path, bytes: &[u8]) -> Result<(), TlsError> {
    let unfinished = path.with_extension("new");
    let written = (|| {
        let mut file = private::file(&unfinished)?;
        file.set_len(0)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, path)?;
        private::sync_folder_of(path)
    })();
    written.map_err(|cause| TlsError::Kept { path: path.to_owned(), cause })
}
