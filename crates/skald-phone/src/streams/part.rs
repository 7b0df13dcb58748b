//! A file on its way here: a partial one beside its place, and a record of what of it is sound.
//!
//! The record has a line for every MiB, its SHA-256. A later run believes the beginning of the partial file as far as
//! the record bears it out, so neither needs to be forced to the disk before the end: what a crash lost or tore does not
//! fit, and is fetched again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};
use skald_payloads::Digest;
use skald_payloads::streams::Prefix;

use crate::failure::{Failure, Outcome};
use crate::home::why;

const CHUNK: u64 = 1024 * 1024;

/// A partial file, open and this process's alone.
pub struct Part {
    target: PathBuf,
    path: PathBuf,
    file: File,
    record: File,
    whole: Sha256,
    chunk: Sha256,
    at: u64,
}

fn beside(target: &Path, ending: &str) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    target.with_file_name(name)
}

impl Part {
    /// Opens the partial file for `target` with what is sound of an earlier run for the same `source`. `anew`: with
    /// nothing.
    pub fn open(target: &Path, source: &str, anew: bool) -> Outcome<Self> {
        let path = beside(target, ".skald-part");
        let failed = |e: io::Error| {
            Failure::refused(format!(
                "The file {} cannot be written ({}); make room or choose another place.",
                path.display(),
                why(&e)
            ))
        };
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).open(path)
        };
        let file = open(&path).map_err(failed)?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::refused(format!(
                "Another `skald-phone get` writes {} just now; wait for it or stop it.",
                path.display()
            )));
        }
        let record = open(&beside(target, ".skald-part.sums")).map_err(failed)?;
        let mut part = Self {
            target: target.to_path_buf(),
            path: path.clone(),
            file,
            record,
            whole: Sha256::new(),
            chunk: Sha256::new(),
            at: 0,
        };
        part.recover(source, anew).map_err(failed)?;
        Ok(part)
    }

    fn recover(&mut self, source: &str, anew: bool) -> io::Result<()> {
        let title = format!("{}\n", hex::encode(Sha256::digest(source)));
        let mut lines = BufReader::new(&self.record);
        let mut line = String::new();
        let same = !anew && lines.read_line(&mut line).is_ok() && line == title;
        let mut sound = title.len() as u64;
        let mut buffer = vec![0; CHUNK as usize];
        // The first line that the file does not bear out ends what is believed.
        while let Some(sum) = same.then(|| sum_in(&mut lines)).flatten() {
            if self.file.read_exact(&mut buffer).is_err() || hex::encode(Sha256::digest(&buffer)) != sum {
                break;
            }
            self.whole.update(&buffer);
            self.at += CHUNK;
            sound += 65;
        }
        if !same {
            self.record.set_len(0)?;
            self.record.rewind()?;
            self.record.write_all(title.as_bytes())?;
        }
        self.record.set_len(sound)?;
        self.record.seek(SeekFrom::Start(sound))?;
        self.file.set_len(self.at)?;
        self.file.seek(SeekFrom::Start(self.at))?;
        Ok(())
    }

    /// Bytes that are here.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// What is here, as the host is told.
    pub fn prefix(&self) -> Option<Prefix> {
        (self.at > 0).then(|| Prefix { at: self.at, sha256: self.digest() })
    }

    /// The hash of what is here.
    pub fn digest(&self) -> Digest {
        Digest(self.whole.clone().finalize().into())
    }

    /// Adds what comes next.
    pub fn write(&mut self, mut bytes: &[u8]) -> Outcome<()> {
        let failed = |e: io::Error, path: &Path| {
            Failure::refused(format!(
                "{} cannot be written further ({}); make room and run the command again, it goes on from there.",
                path.display(),
                why(&e)
            ))
        };
        while !bytes.is_empty() {
            let room = CHUNK - self.at % CHUNK;
            let (now, rest) =
                bytes.split_at(usize::try_from(room).map_or(bytes.len(), |r| r.min(bytes.len())));
            self.file.write_all(now).map_err(|e| failed(e, &self.path))?;
            self.whole.update(now);
            self.chunk.update(now);
            self.at += now.len() as u64;
            if self.at.is_multiple_of(CHUNK) {
                let sum = hex::encode(self.chunk.finalize_reset());
                self.record.write_all(format!("{sum}\n").as_bytes()).map_err(|e| failed(e, &self.path))?;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Gives the file its name, once its hash was found to fit.
    pub fn finish(self, overwrite: bool) -> Outcome<()> {
        let failed = |e: io::Error| {
            Failure::refused(format!("{} cannot be written ({}).", self.target.display(), why(&e)))
        };
        self.file.sync_all().map_err(failed)?;
        if overwrite {
            std::fs::rename(&self.path, &self.target).map_err(failed)?;
        } else {
            take_name(&self.path, &self.target).map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => exists(&self.target),
                _ => failed(e),
            })?;
        }
        let _ = std::fs::remove_file(beside(&self.target, ".skald-part.sums"));
        if let Some(folder) = self.target.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            // The name is durable with its folder. Some file systems know no such thing.
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }

    /// Throws away what cannot be used.
    pub fn discard(self) {
        let _ = std::fs::remove_file(beside(&self.target, ".skald-part.sums"));
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The next line of the record, if it is a whole one.
fn sum_in(lines: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    (lines.read_line(&mut line).ok()? == 65 && line.pop() == Some('\n')).then_some(line)
}

/// The failure of a fetch whose place is taken.
pub fn exists(target: &Path) -> Failure {
    Failure::refused(format!(
        "{} exists already; choose another place, or replace it with --overwrite.",
        target.display()
    ))
}

/// Takes a name only where nobody has it.
fn take_name(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            taken => return Ok(taken?),
        }
    }
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n * 31 + n / 253) as u8).collect()
    }

    #[test]
    fn what_is_sound_of_an_earlier_run_is_kept_and_nothing_else() {
        let dir = tempfile::tempdir().expect("folder");
        let target = dir.path().join("a");
        let all = content(3_500_000);
        let mut part = Part::open(&target, "photos/a", false).expect("opened");
        for bytes in all.chunks(333_333) {
            part.write(bytes).expect("written");
        }
        assert!(Part::open(&target, "photos/a", false).is_err(), "it is in use");
        drop(part);
        let part = Part::open(&target, "photos/a", false).expect("opened");
        let sound = 3 * CHUNK as usize;
        let sha256 = Digest(Sha256::digest(&all[..sound]).into());
        assert_eq!(part.prefix(), Some(Prefix { at: sound as u64, sha256 }));
        drop(part);
        // A crash tore the second MiB.
        let mut torn = std::fs::read(beside(&target, ".skald-part")).expect("read");
        torn[1_500_000] ^= 1;
        std::fs::write(beside(&target, ".skald-part"), torn).expect("written");
        let mut part = Part::open(&target, "photos/a", false).expect("opened");
        assert_eq!(part.at(), CHUNK);
        part.write(&all[CHUNK as usize..]).expect("written");
        assert_eq!(part.digest(), Digest(Sha256::digest(&all).into()));
        part.finish(false).expect("finished");
        assert_eq!(std::fs::read(&target).expect("read"), all);
        assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 1);
    }

    #[test]
    fn another_source_or_a_fresh_start_begins_at_nothing() {
        let dir = tempfile::tempdir().expect("folder");
        let target = dir.path().join("a");
        for (source, anew, kept) in
            [("x", false, 0), ("x", false, CHUNK), ("y", false, 0), ("y", false, CHUNK), ("y", true, 0)]
        {
            let mut part = Part::open(&target, source, anew).expect("opened");
            assert_eq!(part.at(), kept, "{source} {anew}");
            part.write(&content(CHUNK as usize)[..(CHUNK - kept) as usize]).expect("written");
        }
    }

    #[test]
    fn a_file_that_appeared_meanwhile_is_not_replaced_unasked() {
        let dir = tempfile::tempdir().expect("folder");
        let target = dir.path().join("a");
        std::fs::write(&target, "mine").expect("written");
        let part = Part::open(&target, "x", false).expect("opened");
        assert!(part.finish(false).expect_err("taken").sentence.contains("--overwrite"));
        assert_eq!(std::fs::read(&target).expect("read"), b"mine");
        Part::open(&target, "x", false).expect("opened").finish(true).expect("finished");
        assert_eq!(std::fs::read(&target).expect("read"), b"");
    }
}
