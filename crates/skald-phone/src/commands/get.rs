//! `get`: fetches a file, over as many streams as it takes.

use std::path::{Path, PathBuf};

use serde_json::json;
use skald_payloads::streams::{FILE, FaultCode, FileReply, FileRequest, FrameKind};
use tokio::time::{Instant, sleep, timeout};

use super::ls::{settle, size};
use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::session::Session;
use crate::streams::part::{Part, exists};
use crate::streams::progress::Progress;
use crate::streams::retry::Retry;
use crate::streams::{self, SILENT, Trouble};
use crate::text::one_line;

pub async fn run(session: &Session, json: bool, args: cli::Get) -> Outcome<()> {
    let target = place(&args.path, args.to.as_deref())?;
    if !args.overwrite && target.symlink_metadata().is_ok() {
        return Err(exists(&target));
    }
    // `--continue` says what happens anyway.
    let mut part = Part::open(&target, &args.path, args.restart && !args.go_on)?;
    let begun_at = part.at();
    let progress = Progress::new(&args.path, json);
    let mut retry = Retry::new(args.wait);
    loop {
        let before = part.at();
        match fetch(session, &args.path, &mut part, &progress).await {
            Ok(()) => break,
            Err(Trouble::Fault(fault)) if fault.code == FaultCode::Changed && part.at() == 0 => {
                // Nothing is lost by beginning again, and the file may hold still next time.
                pause(&mut retry, part.at() > before, settle(Trouble::Broken, &args.path)?, &progress)
                    .await?;
            }
            Err(Trouble::Fault(fault)) if fault.code == FaultCode::Mismatch => {
                part.discard();
                return Err(Failure::refused(format!(
                    "What came of {} is not what your host has; run the command again.",
                    one_line(&args.path)
                )));
            }
            Err(trouble) => {
                let failure = settle(trouble, &args.path)?;
                pause(&mut retry, part.at() > before, failure, &progress).await?;
            }
        }
    }
    let (bytes, sha256) = (part.at(), part.digest());
    part.finish(args.overwrite)?;
    drop(progress);
    if json {
        return out::json(
            &json!({"event": "done", "path": args.path, "to": target, "size": bytes, "sha256": sha256, "continued_at": begun_at}),
        );
    }
    out::line(&format!("{} is here ({}).", one_line(&target.display().to_string()), size(bytes)))
}

/// Waits before the next try, or gives up with `failure`.
pub(super) async fn pause(
    retry: &mut Retry,
    moved: bool,
    failure: Failure,
    progress: &Progress,
) -> Outcome<()> {
    if moved {
        retry.moved();
    }
    let pause = retry.broke(Instant::now()).ok_or(failure)?;
    progress.note("broken off; trying again");
    sleep(pause).await;
    Ok(())
}

/// Where the file is to be.
fn place(path: &str, to: Option<&Path>) -> Outcome<PathBuf> {
    let name = path.rsplit('/').next().unwrap_or_default();
    if !path.contains('/') || matches!(name, "" | "." | "..") {
        return Err(Failure::usage("Name a file as FOLDER/PATH; `skald-phone ls` shows the folders."));
    }
    match to {
        None => Ok(PathBuf::from(name)),
        Some(to) if to.is_dir() => Ok(to.join(name)),
        Some(to) if to.file_name().is_some() => Ok(to.to_path_buf()),
        Some(_) => Err(Failure::usage("Name a file or a folder to put it into.")),
    }
}

/// One stream's worth.
async fn fetch(session: &Session, path: &str, part: &mut Part, progress: &Progress) -> Result<(), Trouble> {
    let (mut from, mut to) = streams::open(session, FILE, &[]).await?;
    let have = part.prefix();
    streams::say(&mut to, &FileRequest::Get { path: path.to_owned(), have, range: None }).await?;
    let total = loop {
        match from.hear().await? {
            FileReply::File { size, at, .. } if at == part.at() => break size,
            FileReply::Checking { at } => progress.at(at, part.at()),
            FileReply::Error(fault) => return Err(Trouble::Fault(fault)),
            _ => return Err(Trouble::Broken),
        }
    };
    progress.note("");
    loop {
        progress.at(part.at(), total);
        match timeout(SILENT, from.next()).await {
            Ok(Ok(Some(FrameKind::Data))) if part.at() + from.body().len() as u64 <= total => {
                part.write(from.body())?;
            }
            Ok(Ok(Some(FrameKind::Say))) => match from.said()? {
                FileReply::End { sha256: Some(sha256), .. } if part.at() == total => {
                    if sha256 == part.digest() {
                        return Ok(());
                    }
                    let text = String::new();
                    return Err(Trouble::Fault(skald_payloads::streams::StreamFault {
                        code: FaultCode::Mismatch,
                        text,
                    }));
                }
                FileReply::Error(fault) => return Err(Trouble::Fault(fault)),
                _ => return Err(Trouble::Broken),
            },
            _ => return Err(Trouble::Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_name_unless_it_is_given_another() {
        let dir = tempfile::tempdir().expect("folder");
        assert_eq!(place("photos/sub/a.jpg", None), Ok(PathBuf::from("a.jpg")));
        assert_eq!(place("photos/a.jpg", Some(dir.path())), Ok(dir.path().join("a.jpg")));
        let other = dir.path().join("b.jpg");
        assert_eq!(place("photos/a.jpg", Some(&other)), Ok(other));
        for bad in ["photos", "photos/", "photos/..", ""] {
            assert_eq!(place(bad, None).expect_err(bad).code.exit(), 2);
        }
    }
}
