//! Opens what lies beneath a folder, and nothing else.
//!
//! Every part of a path is opened relative to the folder before it and without following links, by the kernel in one
//! call (`openat2`) or part by part. What was opened is looked at through its descriptor, so nothing can be put in its
//! place between the look and the use.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use skald_payloads::streams::{FaultCode, StreamFault};

use crate::fault;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How parts are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By `openat2` where the kernel has it.
    Best,
    /// Part by part.
    #[cfg_attr(target_os = "linux", allow(dead_code))]
    Steps,
}

/// An offered folder, open.
pub(crate) struct Root {
    folder: OwnedFd,
    how: How,
}

impl Root {
    /// Opens the folder that the owner named. Links in the owner's own path are the owner's business.
    pub(crate) fn open(path: &Path) -> Result<Self, StreamFault> {
        Self::open_by(path, How::Best)
    }

    pub(crate) fn open_by(path: &Path, how: How) -> Result<Self, StreamFault> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| match e {
            Errno::NOENT | Errno::NOTDIR => {
                fault(FaultCode::NotFound, "The folder is not there now; see whether its disk is in place.")
            }
            e => system(e),
        })?;
        Ok(Self { folder, how })
    }

    /// Opens a folder beneath.
    pub(crate) fn folder(&self, parts: &[String]) -> Result<OwnedFd, StreamFault> {
        self.walk(parts).map_err(|e| match e {
            // A link answers as a file does when a folder is asked for.
            Errno::NOTDIR => fault(FaultCode::IsAFile, "A part of the path is not a folder."),
            e => system(e),
        })
    }

    /// The folder that a file lies in, and the file's name there.
    pub(crate) fn parent<'a>(&self, parts: &'a [String]) -> Result<(OwnedFd, &'a str), StreamFault> {
        let Some((name, folders)) = parts.split_last() else {
            return Err(fault(FaultCode::IsAFolder, "It is a folder."));
        };
        Ok((self.folder(folders)?, name))
    }

    /// Opens a file beneath for reading.
    pub(crate) fn file(&self, parts: &[String]) -> Result<(File, Stat), StreamFault> {
        let (parent, name) = self.parent(parts)?;
        open_file(parent.as_fd(), name)
    }

    fn walk(&self, parts: &[String]) -> Result<OwnedFd, Errno> {
        #[cfg(target_os = "linux")]
        if self.how == How::Best
            && let Some(opened) = at_once(self.folder.as_fd(), parts)
        {
            return opened;
        }
        let mut at = openat(&self.folder, c".", FOLDER, Mode::empty())?;
        for part in parts {
            at = openat(&at, part.as_str(), FOLDER, Mode::empty())?;
        }
        Ok(at)
    }
}

/// `None`: this kernel, or what confines this process, does not know the call.
#[cfg(target_os = "linux")]
fn at_once(root: BorrowedFd<'_>, parts: &[String]) -> Option<Result<OwnedFd, Errno>> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if parts.is_empty() { ".".to_owned() } else { parts.join("/") };
    // The kernel says EAGAIN when something was renamed meanwhile; part by part has no such trouble.
    match openat2(root, path, FOLDER, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::INVAL) => None,
        opened => Some(opened),
    }
}

/// Opens a regular file in a folder for reading.
pub(crate) fn open_file(parent: BorrowedFd<'_>, name: &str) -> Result<(File, Stat), StreamFault> {
    // Looked at before it is opened, for opening a device can do something; and after, for it may be another by then.
    regular(&statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(system)?)?;
    // NONBLOCK: a pipe with nobody at its other end must not hold this thread.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(parent, name, flags, Mode::empty()).map_err(system)?;
    let stat = fstat(&file).map_err(system)?;
    regular(&stat)?;
    Ok((File::from(file), stat))
}

/// Refuses what is not a regular file.
pub(crate) fn regular(stat: &Stat) -> Result<(), StreamFault> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(fault(FaultCode::IsAFolder, "It is a folder.")),
        FileType::Symlink => {
            Err(fault(FaultCode::NotAFile, "It is a symbolic link, and links are not followed."))
        }
        _ => Err(fault(FaultCode::NotAFile, "It is not a file but a device, a pipe or a socket.")),
    }
}

/// What the system says, for the other end: never more than a kind.
pub(crate) fn system(error: Errno) -> StreamFault {
    match error {
        Errno::NOENT => fault(FaultCode::NotFound, "There is no such file or folder."),
        Errno::NOTDIR => fault(FaultCode::IsAFile, "A part of the path is not a folder."),
        Errno::ISDIR => fault(FaultCode::IsAFolder, "It is a folder."),
        Errno::LOOP | Errno::XDEV | Errno::MLINK => {
            fault(FaultCode::NotAFile, "A part of the path is a symbolic link, and links are not followed.")
        }
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            fault(FaultCode::BadPath, "The path cannot be one on the host's disk.")
        }
        Errno::EXIST => fault(FaultCode::Exists, "There is a file of that name."),
        Errno::NOSPC | Errno::DQUOT => fault(FaultCode::DiskFull, "The host's disk is full."),
        Errno::ACCESS | Errno::PERM => {
            fault(FaultCode::NotPermitted, "The host's system does not let Skald open it.")
        }
        Errno::ROFS => fault(FaultCode::ReadOnly, "The host's disk is mounted for reading alone."),
        _ => fault(FaultCode::Failed, "The host's disk reports an error."),
    }
}

/// The same of an error of the standard library.
pub(crate) fn disk(error: &io::Error) -> StreamFault {
    system(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}

#[cfg(test)]
mod tests;
