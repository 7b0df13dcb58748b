//! Hands out a file: from its beginning, from where an earlier stream broke, or a part of it.
//!
//! A device that has the beginning says its length and hash. Where the file begins so, the rest follows, and the hash at
//! the end is that of the whole as it is now; where it does not, the file has changed, and the device is told.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use rustix::fs::{Stat, fstat};
use sha2::{Digest as _, Sha256};
use skald_payloads::Digest;
use skald_payloads::streams::{FaultCode, FileReply, FrameHead, Prefix, Span, StreamFault};
use tokio::sync::mpsc;

use super::list::modified;
use super::{Ended, Writer};
use crate::beneath::{Root, disk, system};
use crate::fault;
use crate::frames;
use crate::lines::Folder;
use crate::path::WirePath;

/// Bytes in one frame.
const CHUNK: usize = 128 * 1024;
/// How often the device hears that what it has is still looked at, in bytes.
const CHECKING: u64 = 64 * 1024 * 1024;

/// What the disk has to say next.
enum Step {
    Say(FileReply),
    Data(Vec<u8>, usize),
    Fault(StreamFault),
    Done(Digest),
}

/// Gives the number of bytes that were sent.
pub(super) async fn run(
    folder: &Folder,
    path: WirePath,
    have: Option<Prefix>,
    range: Option<Span>,
    writer: &mut Writer,
) -> Result<u64, Ended> {
    if have.is_some() && range.is_some() {
        return Err(
            fault(FaultCode::BadRequest, "A part and a continuation are two different wishes.").into()
        );
    }
    // Two chunks ahead: the disk reads while the stream writes, and a slow stream holds the disk back.
    let (steps, mut next) = mpsc::channel(2);
    let place = folder.path.clone();
    // Ends when the receiver is gone, at the latest after the chunk in hand.
    let reading = tokio::task::spawn_blocking(move || {
        if let Err(fault) = produce(place, &path.parts, have, range, &steps) {
            let _ = steps.blocking_send(Step::Fault(fault));
        }
    });
    let (mut begun, mut sent) = (false, 0);
    while let Some(step) = next.recv().await {
        match step {
            Step::Say(reply) => {
                begun |= matches!(reply, FileReply::File { .. });
                frames::say(writer, &reply).await?;
            }
            Step::Data(mut buffer, len) => {
                frames::put(writer, frames::data(&mut buffer, len)).await?;
                sent += len as u64;
            }
            Step::Fault(fault) if begun => return Err(Ended::Broken(fault)),
            Step::Fault(fault) => return Err(Ended::Refused(fault)),
            Step::Done(sha256) => {
                frames::say(writer, &FileReply::End { sha256: Some(sha256), more: false }).await?;
                return Ok(sent);
            }
        }
    }
    let _ = reading.await;
    Err(Ended::Broken(fault(FaultCode::Failed, "A part of Skald failed unexpectedly.")))
}

fn changed() -> StreamFault {
    fault(FaultCode::Changed, "The file has changed on the host.")
}

/// Reads the file and says what is to be sent. A receiver that is gone ends it.
fn produce(
    place: PathBuf,
    parts: &[String],
    have: Option<Prefix>,
    range: Option<Span>,
    steps: &mpsc::Sender<Step>,
) -> Result<(), StreamFault> {
    let (mut file, stat) = Root::open(&place)?.file(parts)?;
    let size = stat.st_size as u64;
    let mut hash = Sha256::new();
    let (at, len) = match (have, range) {
        (Some(have), _) => {
            if have.at > size || !begins_with(&mut file, &mut hash, have, steps)? {
                return Err(changed());
            }
            (have.at, size - have.at)
        }
        (None, Some(span)) if span.at > size => {
            return Err(fault(FaultCode::BadRequest, "The file is not so long."));
        }
        (None, Some(span)) => {
            file.seek(SeekFrom::Start(span.at)).map_err(|e| disk(&e))?;
            (span.at, span.len.min(size - span.at))
        }
        (None, None) => (0, size),
    };
    let head = FileReply::File { size, at, len, modified: modified(&stat) };
    if steps.blocking_send(Step::Say(head)).is_err() {
        return Ok(());
    }
    let mut left = len;
    while left > 0 {
        let mut buffer = frames::buffer(CHUNK);
        let want = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        let body = &mut buffer[FrameHead::LEN..FrameHead::LEN + want];
        let read = file.read(body).map_err(|e| disk(&e))?;
        if read == 0 {
            return Err(changed());
        }
        hash.update(&body[..read]);
        left -= read as u64;
        if steps.blocking_send(Step::Data(buffer, read)).is_err() {
            return Ok(());
        }
    }
    if !same(&stat, &fstat(&file).map_err(system)?) {
        return Err(changed());
    }
    let _ = steps.blocking_send(Step::Done(Digest(hash.finalize().into())));
    Ok(())
}

/// Whether the file begins with what the device has; leaves the file behind that, and its hash begun.
fn begins_with(
    file: &mut File,
    hash: &mut Sha256,
    have: Prefix,
    steps: &mpsc::Sender<Step>,
) -> Result<bool, StreamFault> {
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < have.at {
        let want = usize::try_from(have.at - at).map_or(CHUNK, |left| left.min(CHUNK));
        let read = file.read(&mut buffer[..want]).map_err(|e| disk(&e))?;
        if read == 0 {
            return Ok(false);
        }
        hash.update(&buffer[..read]);
        at += read as u64;
        if at % CHECKING < read as u64 && steps.blocking_send(Step::Say(FileReply::Checking { at })).is_err()
        {
            return Ok(false);
        }
    }
    Ok(<[u8; 32]>::from(hash.clone().finalize()) == have.sha256.0)
}

/// Whether nothing was written between two looks.
fn same(a: &Stat, b: &Stat) -> bool {
    (a.st_size, a.st_mtime, a.st_mtime_nsec, a.st_ctime, a.st_ctime_nsec)
        == (b.st_size, b.st_mtime, b.st_mtime_nsec, b.st_ctime, b.st_ctime_nsec)
}
