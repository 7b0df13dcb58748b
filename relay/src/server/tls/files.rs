//! Certificates from files, read again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::certificate::Certificate;
use super::{Current, TlsError};

/// How often the files are looked at. They are small, and their content decides: dates of files lie.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// From when on a certificate that nobody renews is complained about, once a day.
const COMPLAIN_DAYS: i64 = 14;

/// A certificate's two files.
pub(super) struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// The digest of what was last read, whether it could be used or not.
    seen: [u8; 32],
    current: Arc<Current>,
}

/// What another look at the files brought.
#[derive(Debug)]
enum Look {
    Same,
    Replaced,
    /// The new content cannot be used, so the certificate stays.
    Broken(TlsError),
}

impl Files {
    /// Reads both, and puts the certificate in use.
    pub(super) fn open(certificate: &Path, key: &Path, current: Arc<Current>) -> Result<Self, TlsError> {
        let mut files =
            Self { certificate: certificate.to_owned(), key: key.to_owned(), seen: [0; 32], current };
        match files.look() {
            Look::Broken(error) => Err(error),
            Look::Same | Look::Replaced => Ok(files),
        }
    }

    fn look(&mut self) -> Look {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|cause| TlsError::Pem { path: path.to_owned(), cause: pem::Error::Io(cause) })
        };
        let (certificate, key) = match read(&self.certificate).and_then(|c| Ok((c, read(&self.key)?))) {
            Ok(both) => both,
            Err(error) => {
                let first = self.seen != [0; 32];
                self.seen = [0; 32];
                // A file that is missing while it is replaced is told once.
                return if first || self.current.get().is_none() { Look::Broken(error) } else { Look::Same };
            }
        };
        let digest = Sha256::new().chain_update(&certificate).chain_update([0]).chain_update(&key).finalize();
        if self.seen == <[u8; 32]>::from(digest) {
            return Look::Same;
        }
        self.seen = digest.into();
        match Certificate::from_pem((&self.certificate, &certificate), (&self.key, &key)) {
            Ok(certificate) => {
                self.current.set(certificate);
                Look::Replaced
            }
            Err(error) => Look::Broken(error),
        }
    }

    /// Looks now and then, and whenever it is told to.
    pub(super) async fn watch(mut self, reload: Arc<Notify>, stop: CancellationToken) {
        let mut complained = 0;
        loop {
            let asked = tokio::select! {
                () = stop.cancelled() => return,
                () = reload.notified() => true,
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            // A network file system may take its time.
            let looked = tokio::task::spawn_blocking(move || {
                let look = self.look();
                (self, look)
            });
            let Ok((files, look)) = looked.await else { return };
            self = files;
            match look {
                Look::Same if asked => tracing::info!("the certificate's files have not changed"),
                Look::Same => {}
                Look::Replaced => {
                    complained = 0;
                    tracing::info!("the certificate was read again and is in use");
                }
                Look::Broken(error) => {
                    tracing::error!(%error, "the new certificate cannot be used, so the old one stays in use");
                }
            }
            let today = days();
            if let Some(left) = self.current.facts().map(|facts| facts.days_left(today * 86_400))
                && left < COMPLAIN_DAYS
                && complained != today
            {
                complained = today;
                tracing::warn!(days = left, "the certificate ends soon and nobody has renewed it");
            }
        }
    }
}

fn days() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs() / 86_400).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str) {
        let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(folder.join("c"), certified.cert.pem()).unwrap();
        std::fs::write(folder.join("k"), certified.signing_key.serialize_pem()).unwrap();
    }

    #[test]
    fn a_changed_certificate_is_taken_up_and_a_broken_one_leaves_the_old_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let current = Arc::new(Current::default());
        let name = || current.facts().unwrap().names.remove(0);
        write(dir.path(), "one");
        let mut files =
            Files::open(&dir.path().join("c"), &dir.path().join("k"), Arc::clone(&current)).unwrap();
        assert_eq!(name(), "one");
        assert!(matches!(files.look(), Look::Same));

        write(dir.path(), "two");
        assert!(matches!(files.look(), Look::Replaced));
        assert_eq!(name(), "two");

        std::fs::write(dir.path().join("k"), "half a k").unwrap();
        assert!(matches!(files.look(), Look::Broken(TlsError::Pem { .. })));
        assert!(matches!(files.look(), Look::Same), "told once");
        std::fs::remove_file(dir.path().join("k")).unwrap();
        assert!(matches!(files.look(), Look::Broken(_)));
        assert!(matches!(files.look(), Look::Same));
        assert_eq!(name(), "two");

        write(dir.path(), "three");
        assert!(matches!(files.look(), Look::Replaced));
        assert_eq!(name(), "three");
    }
}
