//! Folders that go away with the test.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A private folder, removed when it is dropped. `SKALD_KEEP_SCRATCH=1` leaves it for a look.
#[derive(Debug)]
pub struct Scratch {
    folder: Option<tempfile::TempDir>,
    path: PathBuf,
}

impl Scratch {
    /// A fresh folder that only its owner can enter.
    pub fn new() -> Result<Self> {
        Self::within(None)
    }

    /// The same inside another folder than the system's for temporary files.
    pub fn within(parent: Option<&Path>) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("skald-test-");
        let folder = match parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        let folder = folder.context("no scratch folder")?;
        let path = folder.path().to_path_buf();
        if std::env::var_os("SKALD_KEEP_SCRATCH").is_some() {
            let _kept = folder.keep();
            eprintln!("scratch folder kept: {}", path.display());
            return Ok(Self { folder: None, path });
        }
        Ok(Self { folder: Some(folder), path })
    }

    /// A folder of this path, made where it is missing, that stays.
    pub fn keep(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self { folder: None, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path inside it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Removes the folder now and tells whether that worked.
    pub fn remove(mut self) -> Result<()> {
        match self.folder.take() {
            Some(folder) => folder.close().context("the scratch folder could not be removed"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_goes_away_with_its_owner() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_path_buf();
        std::fs::write(scratch.join("file"), b"x").unwrap();
        assert!(path.exists());
        drop(scratch);
        assert!(!path.exists() || std::env::var_os("SKALD_KEEP_SCRATCH").is_some());
    }
}
