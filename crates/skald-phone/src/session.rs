//! Reaches the one process that talks to the relay for a home, and becomes it where there is none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use skald_e2e::{Identity, VerificationCode, verification_code};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::failure::{Failure, Outcome};
use crate::holder::{self, Holder};
use crate::home::Home;
use crate::pairing::{Pairing, not_paired};
use crate::wire::Conversation;

const SOCKET: &str = "control.sock";
/// A holder that starts or ends needs a moment; one that does neither hangs.
const PATIENCE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_millis(50);

/// One command's way to the holder. Cheap to clone.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    home: Home,
    ca: Option<PathBuf>,
    holder: Mutex<Option<Holder>>,
}

impl Session {
    /// For `home`; `ca` is the private authority named on the command line.
    pub fn new(home: Home, ca: Option<PathBuf>) -> Self {
        Self(Arc::new(Inner { home, ca, holder: Mutex::new(None) }))
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.0.home
    }

    /// The authority named on the command line.
    pub fn ca(&self) -> Option<&Path> {
        self.0.ca.as_deref()
    }

    /// Speaks to the holder: another process, or this one.
    pub async fn converse(&self) -> Outcome<Conversation> {
        let inner = &self.0;
        let until = Instant::now() + PATIENCE;
        loop {
            let pairing = Pairing::load(&inner.home)?.ok_or_else(not_paired)?;
            {
                let mut held = inner.holder.lock().await;
                if let Some(holder) = held.as_ref() {
                    if let Some(conversation) = holder.converse() {
                        return Ok(conversation);
                    }
                    if let Some(ended) = held.take() {
                        ended.stop().await;
                    }
                }
                inner.home.check()?;
                if let Some(lock) = inner.home.try_lock()? {
                    let listener = bind(&inner.home)?;
                    let ca = holder::authority(&inner.home, inner.ca.as_deref());
                    let holder = Holder::start(inner.home.clone(), lock, pairing, ca, listener).await?;
                    let conversation = holder.converse();
                    *held = Some(holder);
                    if let Some(conversation) = conversation {
                        return Ok(conversation);
                    }
                }
            }
            match connect(&inner.home).await {
                Ok(stream) => return Ok(Conversation::new(stream)),
                Err(_) if Instant::now() < until => sleep(RETRY).await,
                Err(_) => {
                    return Err(Failure::refused(format!(
                        "Another skald-phone uses {} and does not answer; stop it and try again.",
                        inner.home.dir().display()
                    )));
                }
            }
        }
    }

    /// Waits a little before a holder that went away is looked for again.
    pub async fn pause(&self) {
        sleep(RETRY).await;
    }

    /// Stops what this process holds, and waits for it.
    pub async fn close(&self) {
        if let Some(holder) = self.0.holder.lock().await.take() {
            holder.stop().await;
        }
    }

    fn identity(&self) -> Outcome<Identity> {
        Ok(Identity::from_seed(&holder::seed(&self.0.home)?))
    }

    /// This device's public key, lowercase hex.
    pub fn device_key(&self) -> Outcome<String> {
        Ok(hex::encode(self.identity()?.public_key().as_bytes()))
    }

    /// The six digits that the host shows as well.
    pub fn verification_code(&self) -> Outcome<VerificationCode> {
        let pairing = Pairing::load(&self.0.home)?.ok_or_else(not_paired)?;
        let (namespace, agent, agent_x) = pairing.keys().ok_or_else(not_paired)?;
        let own = self.identity()?;
        Ok(verification_code(&namespace, &agent, &agent_x, &own.public_key(), &own.x_public_key()))
    }
}

/// Binds the home's socket. Only the holder of the lock does, so a leftover can be removed.
fn bind(home: &Home) -> Outcome<UnixListener> {
    let path = home.path(SOCKET);
    let failed = |e: std::io::Error| {
        Failure::refused(format!("The socket {} cannot be made ({}).", path.display(), crate::home::why(&e)))
    };
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let short = Short::of(home).map_err(failed)?;
    let listener = UnixListener::bind(short.path()).map_err(failed)?;
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

async fn connect(home: &Home) -> std::io::Result<UnixStream> {
    let short = Short::of(home)?;
    UnixStream::connect(short.path()).await
}

/// A socket's path may have about 100 bytes. A longer one is reached through the open folder, where the system offers
/// that.
struct Short {
    path: PathBuf,
    _dir: Option<std::fs::File>,
}

impl Short {
    fn of(home: &Home) -> std::io::Result<Self> {
        use std::os::fd::AsRawFd;
        use std::os::unix::ffi::OsStrExt;
        let path = home.path(SOCKET);
        if path.as_os_str().as_bytes().len() < 100 {
            return Ok(Self { path, _dir: None });
        }
        let dir = std::fs::File::open(home.dir())?;
        let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(SOCKET);
        Ok(Self { path, _dir: Some(dir) })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn the_socket_is_the_owners_alone_and_a_long_path_is_no_hindrance() {
        let dir = tempfile::tempdir().expect("folder");
        for name in ["h".to_owned(), "long-".repeat(40)] {
            let home = Home::locate(Some(dir.path().join(name))).expect("located");
            home.create().expect("created");
            std::fs::write(home.path(SOCKET), "a leftover").expect("written");
            let listener = bind(&home).expect("bound");
            let mode = std::fs::metadata(home.path(SOCKET)).expect("metadata").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let (client, accepted) = tokio::join!(connect(&home), listener.accept());
            assert!(client.is_ok() && accepted.is_ok());
        }
    }

    #[tokio::test]
    async fn without_a_pairing_every_command_says_so() {
        let dir = tempfile::tempdir().expect("folder");
        let session = Session::new(Home::locate(Some(dir.path().join("h"))).expect("located"), None);
        let failure = session.converse().await.err().expect("not paired");
        assert_eq!((failure.code.exit(), dir.path().join("h").exists()), (2, false));
    }
}
