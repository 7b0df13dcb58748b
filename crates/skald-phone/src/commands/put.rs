//! `put`: puts a file into a folder of the host, over as many streams as it takes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use skald_payloads::Digest;
use skald_payloads::streams::{FILE, FaultCode, FileReply, FileRequest, FrameHead, StreamFault};
use tokio::io::AsyncWriteExt;

use super::get::pause;
use super::ls::{settle, size};
use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::home::why;
use crate::out;
use crate::session::Session;
use crate::streams::progress::Progress;
use crate::streams::retry::Retry;
use crate::streams::{self, Incoming, Outgoing, Trouble};
use crate::text::one_line;

const CHUNK: usize = 128 * 1024;

/// What is put, and where.
struct Upload {
    file: File,
    path: String,
    size: u64,
    sha256: Digest,
    overwrite: bool,
}

pub async fn run(session: &Session, json: bool, args: cli::Put) -> Outcome<()> {
    let path = place(&args.file, &args.path)?;
    let progress = Progress::new(&path, json);
    progress.note("reading");
    let mut upload = read(&args.file, path, args.overwrite)?;
    let mut retry = Retry::new(args.wait);
    let (mut first, mut done) = (None, 0);
    loop {
        let before = done;
        match send(session, &mut upload, &progress, &mut first, &mut done).await {
            Ok(()) => break,
            Err(trouble) => {
                let failure = settle(trouble, &upload.path)?;
                pause(&mut retry, done > before, failure, &progress).await?;
            }
        }
    }
    drop(progress);
    if json {
        return out::json(
            &json!({"event": "done", "path": upload.path, "size": upload.size, "sha256": upload.sha256,
            "continued_at": first.unwrap_or(upload.size)}),
        );
    }
    out::line(&format!("{} is on your host ({}).", one_line(&upload.path), size(upload.size)))
}

/// The whole path on the host.
fn place(file: &Path, path: &str) -> Outcome<String> {
    if path.contains('/') && !path.ends_with('/') {
        return Ok(path.to_owned());
    }
    let name = file.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Failure::usage("The file's own name cannot be one on your host; name it as FOLDER/PATH.")
    })?;
    Ok(format!("{}/{name}", path.trim_end_matches('/')))
}

/// Opens the file and reads it once, for its hash.
fn read(file: &Path, path: String, overwrite: bool) -> Outcome<Upload> {
    let failed = |e: std::io::Error| {
        Failure::usage(format!(
            "{} cannot be read ({}); correct the path or its permissions.",
            file.display(),
            why(&e)
        ))
    };
    let meta = std::fs::metadata(file).map_err(failed)?;
    if !meta.is_file() {
        return Err(Failure::usage(format!("{} is not a file; name a file to put.", file.display())));
    }
    let mut file = File::open(file).map_err(failed)?;
    let (sha256, size) = sum(&mut file, u64::MAX).map_err(failed)?;
    Ok(Upload { file, path, size, sha256, overwrite })
}

/// The hash of at most `len` bytes from the beginning, and how many there were.
fn sum(file: &mut File, len: u64) -> std::io::Result<(Digest, u64)> {
    file.rewind()?;
    let mut from = file.take(len);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut all = 0;
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok((Digest(hash.finalize().into()), all)),
            read => {
                hash.update(&buffer[..read]);
                all += read as u64;
            }
        }
    }
}

fn changed() -> Trouble {
    // Said as the host says it when the hash does not fit.
    Trouble::Fault(StreamFault { code: FaultCode::Mismatch, text: String::new() })
}

/// One stream's worth. `first` is where the first stream began, `done` how much the host has said it has.
async fn send(
    session: &Session,
    upload: &mut Upload,
    progress: &Progress,
    first: &mut Option<u64>,
    done: &mut u64,
) -> Result<(), Trouble> {
    let (mut from, mut to) = streams::open(session, FILE, &[]).await?;
    let (path, size, sha256) = (upload.path.clone(), upload.size, upload.sha256);
    streams::say(&mut to, &FileRequest::Put { path, size, sha256, overwrite: upload.overwrite }).await?;
    let begins = loop {
        match from.hear().await? {
            FileReply::Checking { .. } => {}
            FileReply::Have { at, sha256 } => {
                // What a crash left there may not be what was sent.
                let same = at <= size && sum(&mut upload.file, at).is_ok_and(|own| own == (sha256, at));
                break if same { at } else { 0 };
            }
            FileReply::End { .. } => return Ok(()),
            FileReply::Error(fault) => return Err(Trouble::Fault(fault)),
            _ => return Err(Trouble::Broken),
        }
    };
    first.get_or_insert(begins);
    *done = begins;
    progress.note("");
    progress.at(begins, size);
    streams::say(&mut to, &FileRequest::From { at: begins }).await?;
    let mut heard = Box::pin(hear(&mut from, size, progress, done));
    tokio::select! {
        // The host may refuse in the middle.
        ended = &mut heard => return ended,
        sent = pour(upload, begins, &mut to) => match sent {
            // What it said before it left counts more than that it left.
            Err(Trouble::Broken) | Ok(()) => {}
            Err(trouble) => return Err(trouble),
        },
    }
    heard.await
}

async fn hear(from: &mut Incoming, size: u64, progress: &Progress, done: &mut u64) -> Result<(), Trouble> {
    loop {
        match from.hear().await? {
            FileReply::Got { at } => {
                *done = at;
                progress.at(at, size);
            }
            FileReply::End { .. } => return Ok(()),
            FileReply::Error(fault) => return Err(Trouble::Fault(fault)),
            _ => return Err(Trouble::Broken),
        }
    }
}

async fn pour(upload: &mut Upload, begins: u64, to: &mut Outgoing) -> Result<(), Trouble> {
    let here = |_| changed();
    upload.file.seek(SeekFrom::Start(begins)).map_err(here)?;
    let mut buffer = vec![0; FrameHead::LEN + CHUNK];
    let mut left = upload.size - begins;
    while left > 0 {
        let want = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        let read = upload.file.read(&mut buffer[FrameHead::LEN..FrameHead::LEN + want]).map_err(here)?;
        if read == 0 {
            return Err(changed());
        }
        streams::send(to, &mut buffer, read).await?;
        left -= read as u64;
    }
    Ok(to.flush().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_name_where_only_a_folder_is_named() {
        let file = Path::new("/tmp/a.jpg");
        for (path, whole) in [
            ("inbox", "inbox/a.jpg"),
            ("inbox/", "inbox/a.jpg"),
            ("inbox/sub/", "inbox/sub/a.jpg"),
            ("inbox/b", "inbox/b"),
        ] {
            assert_eq!(place(file, path).as_deref(), Ok(whole));
        }
    }
}
