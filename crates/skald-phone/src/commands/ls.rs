//! `ls`: the folders that the host offers, or what is in one.

use serde_json::json;
use skald_payloads::streams::{Entry, EntryKind, FILE, FileReply, FileRequest, FolderInfo};
use tokio::time::{Instant, sleep};

use crate::cli;
use crate::failure::{Code, Failure, Outcome};
use crate::out;
use crate::session::Session;
use crate::streams::retry::Retry;
use crate::streams::{self, Trouble, words};
use crate::text::one_line;

enum Found {
    Folders(Vec<FolderInfo>),
    Entries(Vec<Entry>, bool),
}

pub async fn run(session: &Session, json: bool, args: cli::Ls) -> Outcome<()> {
    let path = args.path.map(|path| path.trim_end_matches('/').to_owned()).filter(|path| !path.is_empty());
    let mut retry = Retry::new(args.wait.wait);
    let found = loop {
        match ask(session, path.as_deref()).await {
            Ok(found) => break found,
            Err(trouble) => {
                let failure = settle(trouble, path.as_deref().unwrap_or_default())?;
                match retry.broke(Instant::now()) {
                    Some(pause) => sleep(pause).await,
                    None => return Err(failure),
                }
            }
        }
    };
    match found {
        Found::Folders(folders) => show_folders(&folders, json),
        Found::Entries(entries, more) => show_entries(&entries, more, json),
    }
}

/// What may pass comes back; what will not is the command's end.
pub(super) fn settle(trouble: Trouble, path: &str) -> Outcome<Failure> {
    match trouble {
        Trouble::Broken => Ok(Failure::unreachable("The connection to your host broke; try again.")),
        Trouble::Fault(fault) if words::passing(&fault) => Ok(words::failure(&fault, path)),
        Trouble::Fault(fault) => Err(words::failure(&fault, path)),
        Trouble::Failure(failure) if failure.code == Code::Unreachable => Ok(failure),
        Trouble::Failure(failure) => Err(failure),
    }
}

async fn ask(session: &Session, path: Option<&str>) -> Result<Found, Trouble> {
    let (mut from, mut to) = streams::open(session, FILE, &[]).await?;
    let request = match path {
        Some(path) => FileRequest::List { path: path.to_owned() },
        None => FileRequest::Folders,
    };
    streams::say(&mut to, &request).await?;
    let mut all = Vec::new();
    loop {
        match from.hear().await? {
            FileReply::Folders { folders } => return Ok(Found::Folders(folders)),
            FileReply::Entries { entries } => all.extend(entries),
            FileReply::End { more, .. } => return Ok(Found::Entries(all, more)),
            FileReply::Error(fault) => return Err(Trouble::Fault(fault)),
            _ => {}
        }
    }
}

fn show_folders(folders: &[FolderInfo], json: bool) -> Outcome<()> {
    if json {
        return out::json(&json!({ "folders": folders }));
    }
    if folders.is_empty() {
        out::aside("Your host offers no folder; name some in the settings of its plugin Local streams.");
    }
    for folder in folders {
        out::line(&format!("{}  {}/", if folder.write { "rw" } else { "ro" }, one_line(&folder.name)))?;
    }
    Ok(())
}

fn show_entries(entries: &[Entry], more: bool, json: bool) -> Outcome<()> {
    if json {
        return out::json(&json!({ "entries": entries, "more": more }));
    }
    let mut text = String::new();
    for entry in entries {
        let size = entry.size.map(size).unwrap_or_default();
        let mark = match entry.kind {
            EntryKind::File => "",
            EntryKind::Folder => "/",
            EntryKind::Other => "  (not opened)",
        };
        text.push_str(&format!("{size:>9}  {}{mark}\n", one_line(&entry.name)));
    }
    out::text_of(&text)?;
    if more {
        out::aside("There is more in the folder than is shown.");
    }
    Ok(())
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_short() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (50 << 20, "50.0 MiB"), (5 << 40, "5.0 TiB")]
        {
            assert_eq!(super::size(bytes), text);
        }
    }
}
