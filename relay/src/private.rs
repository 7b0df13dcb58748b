//! Files and folders for the relay's own eyes.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes a folder with mode 0700 where it is missing.
#[cfg(unix)]
pub(crate) fn folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    if folder.is_dir() {
        let mode = std::fs::metadata(folder)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            tracing::warn!(
                folder = %folder.display(),
                mode = format!("{mode:o}"),
                "others can enter the data folder: its mode should be 700"
            );
        }
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Opens a file for reading and writing, made where it is missing, with mode 0600 in any case.
#[cfg(unix)]
pub(crate) fn file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Makes a rename durable.
#[cfg(unix)]
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn folder(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)
}

#[cfg(not(unix))]
pub(crate) fn file(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

#[cfg(not(unix))]
pub(crate) fn sync_folder_of(_path: &Path) -> io::Result<()> {
    Ok(())
}
