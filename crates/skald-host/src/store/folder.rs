//! The data folder: its modes and its lock.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::OpenError;

pub(super) const DATABASE: &str = "skald.db";
const LOCK: &str = "skald.lock";
/// Files that hold secrets or what people decided.
const PRIVATE: [&str; 4] = [DATABASE, "skald.db-wal", "skald.db-shm", "cli-token"];

/// Makes or checks the folder, takes its lock and sees to it that the database file exists with mode 0600 (SQLite
/// gives its companions the mode of the database).
pub(super) fn prepare(dir: &Path) -> Result<File, OpenError> {
    let unusable = |e: std::io::Error| OpenError::Folder { path: dir.to_owned(), cause: plain(&e) };
    let metadata = match std::fs::metadata(dir) {
        Ok(m) => m,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(unusable)?;
            std::fs::metadata(dir).map_err(unusable)?
        }
        Err(e) => return Err(unusable(e)),
    };
    if !metadata.is_dir() {
        return Err(OpenError::Folder { path: dir.to_owned(), cause: "it is not a folder".into() });
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        // Made by hand, or restored from a backup. Whether secrets were exposed is a matter of the files, below.
        std::fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(unusable)?;
    }
    for name in PRIVATE {
        let path = dir.join(name);
        match std::fs::metadata(&path) {
            Ok(m) if m.permissions().mode() & 0o077 != 0 => {
                return Err(OpenError::TooOpen { path, mode: m.permissions().mode() & 0o777, wanted: 0o600 });
            }
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(unusable(e)),
        }
    }
    let lock = private(&dir.join(LOCK)).map_err(unusable)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(dir.to_owned())),
        Err(TryLockError::Error(e)) => return Err(unusable(e)),
    }
    drop(private(&dir.join(DATABASE)).map_err(unusable)?);
    Ok(lock)
}

fn private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn plain(e: &std::io::Error) -> String {
    use std::io::ErrorKind::{NotADirectory, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    match e.kind() {
        PermissionDenied => "no permission to write there".into(),
        StorageFull => "the disk is full".into(),
        ReadOnlyFilesystem => "it is on a read-only disk".into(),
        NotADirectory => "a part of its path is not a folder".into(),
        _ => e.to_string(),
    }
}
