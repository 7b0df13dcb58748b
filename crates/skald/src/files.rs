//! Small private files: what the host leaves for the command line to find it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// `<data>/host.json`: the host that runs, or ran last, with this data folder.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostFile {
    pub url: String,
    pub pid: u32,
}

/// The user's record of the host started last.
#[derive(Debug, Serialize, Deserialize)]
pub struct LastHost {
    pub url: String,
    pub data: PathBuf,
}

/// Where a data folder keeps the host's address.
pub fn host_file(data: &Path) -> PathBuf {
    data.join("host.json")
}

/// Where a data folder keeps the command line's token.
pub fn token_file(data: &Path) -> PathBuf {
    data.join("cli-token")
}

/// The user's record of the host started last.
pub fn last_host_file() -> Option<PathBuf> {
    home_folder("XDG_STATE_HOME", ".local/state").map(|d| d.join("skald/host.json"))
}

/// The data folder where none is named.
pub fn default_data() -> Option<PathBuf> {
    home_folder("XDG_DATA_HOME", ".local/share").map(|d| d.join("skald"))
}

fn home_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    // The XDG specification says to ignore relative paths here.
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))
}

/// Writes a file that only its owner can read; readers see the old content or the new, never half of it.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.new", std::process::id()));
    let draft = PathBuf::from(draft);
    let _ = fs::remove_file(&draft);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Reads a JSON file; `None` where there is none.
pub fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|_| io::Error::other("it is not what Skald writes there")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_private_file_is_private_from_its_first_byte_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/file");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left behind");
    }
}
