//! The folder and the seed in it (crypto.md, Identity).

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use skald_e2e::Seed;
use zeroize::Zeroizing;

use crate::error::StartError;
use crate::util;

/// The seed cannot be used. It is never replaced: another seed would be another identity, and every device would have
/// to pair again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// Others can read it.
    #[error("the seed {} can be read by others (mode {mode:o}); it must be 600, and should be replaced if it was exposed", path.display())]
    Mode {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is not 32 bytes long.
    #[error("the seed {} is damaged: it is {len} bytes long instead of 32; restore it from a backup", path.display())]
    Length {
        /// Which file.
        path: PathBuf,
        /// Its length.
        len: u64,
    },
    /// It cannot be read or made.
    #[error("the seed {} cannot be read or made: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A client's folder, locked for as long as this value lives.
pub(crate) struct Folder {
    dir: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder, for the owner alone, and locks it: two processes on one folder would use counters twice.
    pub(crate) fn open(dir: &Path) -> Result<Self, StartError> {
        let fail = |source| StartError::Folder { dir: dir.to_owned(), source };
        let fresh = !dir.exists();
        fs::create_dir_all(dir).map_err(fail)?;
        if fresh {
            fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(fail)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(dir.join("lock")).map_err(fail)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(StartError::InUse(dir.to_owned())),
            Err(fs::TryLockError::Error(source)) => Err(fail(source)),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("peers.db")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// The seed, if there is one.
    pub(crate) fn read_seed(&self) -> Result<Option<Seed>, SeedError> {
        let path = self.dir.join("seed");
        let fail = |source| SeedError::Io { path: path.clone(), source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(fail(e)),
        };
        // Of the file that is read, not of what its name may mean a moment later.
        let meta = file.metadata().map_err(fail)?;
        let mode = meta.mode() & 0o7777;
        if mode & 0o177 != 0 {
            return Err(SeedError::Mode { path, mode });
        }
        if meta.len() != Seed::LEN as u64 {
            return Err(SeedError::Length { path, len: meta.len() });
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(Seed::LEN + 1));
        file.take(Seed::LEN as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
        match Seed::try_from(bytes.as_slice()) {
            Ok(seed) => Ok(Some(seed)),
            Err(wrong) => Err(SeedError::Length { path, len: wrong.0 as u64 }),
        }
    }

    /// The seed, made where there is none: written beside, synced, then renamed, so that no crash leaves half of one.
    pub(crate) fn seed(&self) -> Result<Seed, SeedError> {
        if let Some(seed) = self.read_seed()? {
            return Ok(seed);
        }
        let path = self.dir.join("seed");
        let fail = |source| SeedError::Io { path: path.clone(), source };
        let mut bytes =
            util::random::<32>().map_err(|_| fail(io::Error::other("no random numbers are available")))?;
        let seed = Seed::take(&mut bytes);
        let beside = self.dir.join("seed.new");
        let write = || -> io::Result<()> {
            let _ = fs::remove_file(&beside);
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
            file.write_all(seed.expose())?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(fail)?;
        Ok(seed)
    }

    /// Forgets who this was: seed, store and all. The folder itself stays.
    pub(crate) fn erase(self) -> io::Result<()> {
        for name in ["seed", "seed.new", "peers.db", "peers.db-wal", "peers.db-shm", "lock"] {
            match fs::remove_file(self.dir.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        File::open(&self.dir)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let first = *folder.seed().unwrap().expose();
        assert_eq!(folder.seed().unwrap().expose(), &first);
        let meta = fs::metadata(dir.path().join("seed")).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.len()), (0o600, 32));
        assert!(matches!(Folder::open(dir.path()), Err(StartError::InUse(_))));
    }

    #[test]
    fn a_seed_that_is_damaged_or_exposed_stops_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        folder.seed().unwrap();
        let path = dir.path().join("seed");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(folder.seed(), Err(SeedError::Mode { mode: 0o640, .. })));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, [1; 31]).unwrap();
        assert!(matches!(folder.seed(), Err(SeedError::Length { len: 31, .. })));
        assert_eq!(fs::read(&path).unwrap(), [1; 31]);
    }
}
