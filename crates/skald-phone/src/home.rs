//! The device's folder: who may read it, and which process uses it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// The folder that holds one device.
#[derive(Debug, Clone)]
pub struct Home {
    dir: PathBuf,
}

/// Held by the one process that talks to the relay for this home. Released when dropped, or when the process dies.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
}

impl Home {
    /// The folder that was named, or the user's own.
    pub fn locate(named: Option<PathBuf>) -> Outcome<Self> {
        let dir = match named {
            Some(dir) if dir.as_os_str().is_empty() => {
                return Err(Failure::usage("The home folder's name is empty; name a folder with --home."));
            }
            Some(dir) => dir,
            None => default_dir().ok_or_else(|| {
                Failure::usage("There is no home folder to use by default; name one with --home.")
            })?,
        };
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        Ok(Self { dir })
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether there is anything of a device in it.
    pub fn exists(&self) -> bool {
        self.path(LOCK).exists()
    }

    /// Makes the folder, for its owner alone. A folder that holds other things is left as it is: making it private
    /// could lock others out of what is theirs.
    pub fn create(&self) -> Outcome<()> {
        let shown = self.dir.display();
        let cannot =
            |e: io::Error| Failure::usage(format!("The folder {shown} cannot be made ({}).", why(&e)));
        if !self.dir.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(cannot)?;
        }
        if !self.exists() {
            let mut entries = fs::read_dir(&self.dir)
                .map_err(|e| Failure::usage(format!("The folder {shown} cannot be used ({}).", why(&e))))?;
            if entries.next().is_some() {
                return Err(Failure::usage(format!(
                    "The folder {shown} holds other things; name a new or empty folder with --home."
                )));
            }
        }
        self.check()
    }

    /// Makes sure that nobody else can read the folder.
    pub fn check(&self) -> Outcome<()> {
        let shown = self.dir.display();
        let meta = fs::metadata(&self.dir)
            .map_err(|e| Failure::usage(format!("The folder {shown} cannot be used ({}).", why(&e))))?;
        if !meta.is_dir() {
            return Err(Failure::usage(format!("{shown} is not a folder; name one with --home.")));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(Failure::usage(format!(
                "The folder {shown} belongs to another user; use one of your own."
            )));
        }
        if meta.mode() & 0o077 != 0 {
            fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o700)).map_err(|e| {
                Failure::usage(format!(
                    "The folder {shown} is open to others and cannot be closed ({}).",
                    why(&e)
                ))
            })?;
        }
        Ok(())
    }

    /// Takes the home for this process, or `None` where another process has it.
    pub fn try_lock(&self) -> Outcome<Option<HomeLock>> {
        let path = self.path(LOCK);
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(
                |e| Failure::usage(format!("The file {} cannot be opened ({}).", path.display(), why(&e))),
            )?;
        match file.try_lock() {
            Ok(()) => Ok(Some(HomeLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(Failure::refused(format!(
                "The folder {} cannot be locked ({}).",
                self.dir.display(),
                why(&e)
            ))),
        }
    }

    /// Writes a file so that after a crash there is the old content or the new, never a part; mode 0600.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.path(name);
        let parent = path.parent().unwrap_or(&self.dir).to_path_buf();
        let temporary = parent.join(format!(
            ".{}.new",
            path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
        ));
        // A leftover of a crash may have been made by anybody's umask: start from nothing.
        match fs::remove_file(&temporary) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        sync_dir(&parent)
    }

    /// Reads a file; `None` where there is none.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Removes a file durably; absent is fine.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        sync_dir(path.parent().unwrap_or(&self.dir))
    }
}

/// The lock file. Its presence also marks a folder as a device's home.
pub const LOCK: &str = "lock";

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn default_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|h| h.join(".local/share")))
        .map(|base| base.join("skald-phone"))
}

/// The cause of a file error in few words.
pub fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full".into(),
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only".into(),
        io::ErrorKind::NotADirectory => "a part of its path is not a folder".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_lowercase()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(dir: &Path) -> Home {
        Home::locate(Some(dir.to_path_buf())).expect("located")
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("metadata").mode() & 0o777
    }

    #[test]
    fn a_new_home_is_its_owners_alone() {
        let dir = tempfile::tempdir().expect("folder");
        let home = home(&dir.path().join("deep/home"));
        home.create().expect("created");
        assert_eq!(mode(home.dir()), 0o700);
        let _lock = home.try_lock().expect("lockable").expect("free");
        assert_eq!(mode(&home.path(LOCK)), 0o600);
        home.write("a", b"x").expect("written");
        assert_eq!(mode(&home.path("a")), 0o600);
    }

    #[test]
    fn an_empty_open_folder_is_closed_and_a_used_one_left_alone() {
        let dir = tempfile::tempdir().expect("folder");
        let open = dir.path().join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("mode");
        home(&open).create().expect("usable");
        assert_eq!(mode(&open), 0o700);
        let used = dir.path().join("used");
        fs::create_dir(&used).expect("made");
        fs::set_permissions(&used, fs::Permissions::from_mode(0o755)).expect("mode");
        fs::write(used.join("letter.txt"), "x").expect("written");
        assert_eq!(home(&used).create().expect_err("refused").code.exit(), 2);
        assert_eq!(mode(&used), 0o755);
    }

    #[test]
    fn one_process_holds_the_home() {
        let dir = tempfile::tempdir().expect("folder");
        let home = home(&dir.path().join("h"));
        home.create().expect("created");
        let first = home.try_lock().expect("lockable");
        assert!(first.is_some());
        assert!(home.try_lock().expect("lockable").is_none());
        drop(first);
        assert!(home.try_lock().expect("lockable").is_some());
    }

    #[test]
    fn writing_replaces_whole_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().expect("folder");
        let home = home(&dir.path().join("h"));
        home.create().expect("created");
        fs::write(home.path(".f.new"), "half").expect("leftover");
        home.write("f", b"one").expect("written");
        home.write("f", b"two").expect("written");
        assert_eq!(home.read("f").expect("read").as_deref(), Some(&b"two"[..]));
        home.remove("f").expect("removed");
        home.remove("f").expect("absent is fine");
        assert_eq!(fs::read_dir(home.dir()).expect("list").count(), 0);
    }
}
