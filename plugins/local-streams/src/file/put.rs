//! Takes a file: into a partial one beside its place, which bears the place's name only when its hash fits.
//!
//! The partial file's name follows from the device, the place and the hash of the whole, so that a device which begins
//! again finds what is there already.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Stat, flock, fstat, fstatvfs, openat, statat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use skald_core_api::DevicePeer;
use skald_payloads::Digest;
use skald_payloads::streams::{FaultCode, FileReply, FileRequest, FrameKind, StreamFault};
use tokio::time::timeout;

use super::{Ended, FileHandler, Reader, Writer, on_disk};
use crate::beneath::{Root, disk, open_file, regular, system};
use crate::fault;
use crate::frames;
use crate::lines::Folder;
use crate::path::{PARTIAL, WirePath, is_partial};

/// The device hears how far it is after so many bytes.
const TOLD: u64 = 1024 * 1024;
/// What was used of the day's room is written down after so many bytes.
const COUNTED: u64 = 64 * 1024 * 1024;
/// A device that sends nothing for so long is gone. The partial file waits for it.
const SENT: Duration = Duration::from_secs(120);
/// How long a stream that was overtaken has to let go of the partial file.
const LET_GO: Duration = Duration::from_secs(5);
/// Partial files that nobody came back for are removed after so long.
const FORGOTTEN_SECS: i64 = 7 * 24 * 3600;
/// Room that is left on the disk.
const SPARE: u64 = 64 * 1024 * 1024;

/// What is to be put.
#[derive(Clone, Copy)]
pub(super) struct Wish {
    pub size: u64,
    pub sha256: Digest,
    pub overwrite: bool,
}

/// A partial file, open and locked.
struct Partial {
    folder: OwnedFd,
    file: File,
    name: String,
    target: String,
    hash: Sha256,
    at: u64,
}

/// What is found where the file is to be.
enum Found {
    /// The very file.
    Same,
    /// Room for it.
    Place(Box<Partial>),
    /// An overtaken stream still writes it.
    Held,
}

impl FileHandler {
    /// Gives the number of bytes that were received.
    pub(super) async fn take(
        &self,
        peer: &DevicePeer,
        folder: &Folder,
        path: WirePath,
        wish: Wish,
        reader: &mut Reader,
        writer: &mut Writer,
    ) -> Result<u64, Ended> {
        if !folder.write {
            return Err(fault(FaultCode::ReadOnly, "Files may not be put into this folder.").into());
        }
        if wish.size > folder.max_file {
            return Err(fault(FaultCode::TooLarge, "The file is larger than the host allows.").into());
        }
        let name = partial_name(peer, &path, &wish.sha256);
        let upload = self.uploads.begin(format!("{}/{name}", path.folder));
        let taking = async {
            let mut partial = match open(folder, path, name, wish, writer).await? {
                Some(partial) => partial,
                None => {
                    frames::say(writer, &FileReply::End { sha256: Some(wish.sha256), more: false }).await?;
                    return Ok(0);
                }
            };
            frames::say(writer, &FileReply::Have { at: partial.at, sha256: digest(&partial.hash) }).await?;
            match timeout(SENT, reader.hear::<FileRequest>()).await {
                Ok(Ok(Some(FileRequest::From { at }))) if at == partial.at => {}
                Ok(Ok(Some(FileRequest::From { at: 0 }))) => {
                    partial = on_disk(move || partial.empty()).await??
                }
                Ok(Ok(Some(_))) => {
                    return Err(fault(FaultCode::BadRequest, "Nothing can begin there.").into());
                }
                _ => return Err(Ended::Gone),
            }
            self.receive(folder, partial, wish, reader, writer).await
        };
        tokio::select! {
            taken = Box::pin(taking) => taken,
            // A later stream brings the same file.
            () = upload.stop.cancelled() => Err(Ended::Gone),
        }
    }

    async fn receive(
        &self,
        folder: &Folder,
        mut partial: Partial,
        wish: Wish,
        reader: &mut Reader,
        writer: &mut Writer,
    ) -> Result<u64, Ended> {
        let broken = |fault| Ended::Broken(fault);
        let store = |_| Ended::Broken(fault(FaultCode::Failed, "The host's database reports an error."));
        let begun = partial.at;
        let left = wish.size - begun;
        let promise = self.quota.promise(&folder.name, left, folder.daily).await.map_err(store)?;
        let mut promise = promise.ok_or_else(|| {
            broken(fault(FaultCode::Quota, "As much was put into this folder today as the host allows."))
        })?;
        if let Some(free) = free(&partial.folder)
            && free < left.saturating_add(SPARE)
        {
            return Err(broken(fault(FaultCode::DiskFull, "The host's disk has no room for it.")));
        }
        let (mut told, mut counted) = (begun, begun);
        while partial.at < wish.size {
            match timeout(SENT, reader.next()).await {
                Ok(Ok(Some(FrameKind::Data))) => {}
                Ok(Ok(Some(_))) => {
                    return Err(broken(fault(
                        FaultCode::BadRequest,
                        "Data was to come and something else came.",
                    )));
                }
                _ => {
                    let _ = self.quota.used(&mut promise, partial.at - counted).await;
                    return Err(Ended::Gone);
                }
            }
            let body = reader.take_body();
            if body.is_empty() || body.len() as u64 > wish.size - partial.at {
                return Err(broken(fault(
                    FaultCode::Mismatch,
                    "Another number of bytes came than was announced.",
                )));
            }
            let (written, back) = on_disk(move || partial.write(body)).await.map_err(broken)?;
            partial = written.map_err(broken)?;
            reader.give_back(back);
            if partial.at - counted >= COUNTED {
                self.quota.used(&mut promise, partial.at - counted).await.map_err(store)?;
                counted = partial.at;
            }
            if partial.at - told >= TOLD {
                told = partial.at;
                frames::say(writer, &FileReply::Got { at: told }).await?;
            }
        }
        self.quota.used(&mut promise, partial.at - counted).await.map_err(store)?;
        on_disk(move || partial.finish(wish)).await.map_err(broken)?.map_err(broken)?;
        frames::say(writer, &FileReply::End { sha256: Some(wish.sha256), more: false }).await?;
        Ok(left)
    }
}

fn partial_name(peer: &DevicePeer, path: &WirePath, sha256: &Digest) -> String {
    let mut hash = Sha256::new();
    for part in [peer.key.as_bytes(), path.parts.join("/").as_bytes(), &sha256.0] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    format!("{PARTIAL}{}", &hex::encode(hash.finalize())[..32])
}

/// Opens the partial file and looks at what it holds; `None`: the file is there already.
async fn open(
    folder: &Folder,
    path: WirePath,
    name: String,
    wish: Wish,
    writer: &mut Writer,
) -> Result<Option<Partial>, Ended> {
    let until = tokio::time::Instant::now() + LET_GO;
    loop {
        let (place, parts, name) = (folder.path.clone(), path.parts.clone(), name.clone());
        let looking = on_disk(move || look(&Root::open(&place)?, &parts, name, wish));
        tokio::pin!(looking);
        // A large file takes a while to look at, and the stream must not seem dead.
        let found = loop {
            match timeout(Duration::from_secs(10), &mut looking).await {
                Ok(found) => break found??,
                Err(_) => frames::say(writer, &FileReply::Checking { at: 0 }).await?,
            }
        };
        match found {
            Found::Same => return Ok(None),
            Found::Place(partial) => return Ok(Some(*partial)),
            Found::Held if tokio::time::Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Found::Held => {
                return Err(fault(FaultCode::Busy, "The same file is put there by another stream.").into());
            }
        }
    }
}

fn look(root: &Root, parts: &[String], name: String, wish: Wish) -> Result<Found, StreamFault> {
    let (folder, target) = root.parent(parts)?;
    match statat(&folder, target, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        Err(e) => return Err(system(e)),
        Ok(stat) => {
            regular(&stat)?;
            // The word that it was done may have been lost on its way.
            if stat.st_size as u64 == wish.size && is_same(&folder, target, wish)? {
                return Ok(Found::Same);
            }
            if !wish.overwrite {
                return Err(fault(FaultCode::Exists, "There is another file of that name."));
            }
        }
    }
    sweep(&folder);
    let flags = OFlags::RDWR
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let file = openat(&folder, &name, flags, mode).map_err(system)?;
    let stat = fstat(&file).map_err(system)?;
    regular(&stat)?;
    if stat.st_nlink != 1 {
        return Err(fault(FaultCode::NotAFile, "The partial file is known under another name as well."));
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Found::Held),
        Err(e) => return Err(system(e)),
    }
    let mut partial = Partial {
        folder,
        file: File::from(file),
        name,
        target: target.to_owned(),
        hash: Sha256::new(),
        at: 0,
    };
    // An overtaken stream may have finished between the two looks; then the name is another file's by now.
    if !partial.is_named()? {
        return Ok(Found::Held);
    }
    if fstat(&partial.file).map_err(system)?.st_size as u64 > wish.size {
        return partial.empty().map(|p| Found::Place(Box::new(p)));
    }
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match partial.file.read(&mut buffer).map_err(|e| disk(&e))? {
            0 => return Ok(Found::Place(Box::new(partial))),
            read => {
                partial.hash.update(&buffer[..read]);
                partial.at += read as u64;
            }
        }
    }
}

fn is_same(folder: &OwnedFd, target: &str, wish: Wish) -> Result<bool, StreamFault> {
    let (mut file, _) = open_file(folder.as_fd(), target)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match file.read(&mut buffer).map_err(|e| disk(&e))? {
            0 => return Ok(digest(&hash) == wish.sha256),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn digest(hash: &Sha256) -> Digest {
    Digest(hash.clone().finalize().into())
}

/// Bytes that are free for us on the disk of a folder.
fn free(folder: &OwnedFd) -> Option<u64> {
    fstatvfs(folder).ok().map(|v| v.f_bavail.saturating_mul(v.f_frsize))
}

/// Removes partial files that nobody came back for.
fn sweep(folder: &OwnedFd) {
    let now = skald_core_api::PluginStatus::now_ms() / 1000;
    let old = |stat: &Stat| now - stat.st_mtime > FORGOTTEN_SECS;
    let Ok(entries) = rustix::fs::Dir::read_from(folder) else { return };
    for entry in entries.flatten().filter(|e| is_partial(e.file_name().to_bytes())) {
        let name = entry.file_name();
        if statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| regular(&stat).is_ok() && old(&stat))
        {
            let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
        }
    }
}

impl Partial {
    /// Whether its name still stands for this very file.
    fn is_named(&self) -> Result<bool, StreamFault> {
        let own = fstat(&self.file).map_err(system)?;
        let named = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(named.is_ok_and(|named| (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)))
    }

    fn empty(mut self) -> Result<Self, StreamFault> {
        self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0))).map_err(|e| disk(&e))?;
        (self.hash, self.at) = (Sha256::new(), 0);
        Ok(self)
    }

    /// Gives the buffer back as well.
    fn write(mut self, body: Vec<u8>) -> (Result<Self, StreamFault>, Vec<u8>) {
        if let Err(e) = self.file.write_all(&body) {
            let fault = disk(&e);
            // A full disk is not filled further by what waits for its rest.
            if fault.code == FaultCode::DiskFull {
                self.remove();
            }
            return (Err(fault), body);
        }
        self.hash.update(&body);
        self.at += body.len() as u64;
        (Ok(self), body)
    }

    fn remove(&self) {
        let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
    }

    /// Gives the file its name, if it is what was announced.
    fn finish(self, wish: Wish) -> Result<(), StreamFault> {
        if digest(&self.hash) != wish.sha256 {
            self.remove();
            return Err(fault(FaultCode::Mismatch, "What came is not what was announced."));
        }
        self.file.sync_all().map_err(|e| disk(&e))?;
        if !self.is_named()? {
            return Err(fault(FaultCode::Changed, "The partial file was replaced on the host."));
        }
        let placed = if wish.overwrite {
            rustix::fs::renameat(&self.folder, &self.name, &self.folder, &self.target)
        } else {
            self.place()
        };
        placed.map_err(|e| {
            if e == Errno::EXIST {
                self.remove();
            }
            system(e)
        })?;
        // The name is durable with its folder. Some file systems know no such thing.
        let _ = rustix::fs::fsync(&self.folder);
        Ok(())
    }

    /// Takes the name only where nobody has it.
    fn place(&self) -> Result<(), Errno> {
        let (at, from, to) = (&self.folder, &self.name, &self.target);
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        match rustix::fs::renameat_with(at, from, at, to, RenameFlags::NOREPLACE) {
            // Not every file system can; a second name and then the first one's end do the same.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            placed => return placed,
        }
        rustix::fs::linkat(at, from, at, to, AtFlags::empty())?;
        rustix::fs::unlinkat(at, from, AtFlags::empty())
    }
}
