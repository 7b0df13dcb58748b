//! What is in a folder.

use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use skald_payloads::streams::{Entry, EntryKind, FileReply, StreamFault};

use super::{Ended, Writer, on_disk};
use crate::beneath::{Root, system};
use crate::frames;
use crate::lines::Folder;
use crate::path::{WirePath, is_partial};

/// Names of one folder that are told. What is beyond is said to be there.
const MOST: usize = 50_000;
/// Entries in one frame: names have at most 255 bytes, and JSON makes at most six of one.
const FRAME: usize = 64;

pub(super) async fn run(folder: &Folder, path: WirePath, writer: &mut Writer) -> Result<(), Ended> {
    let place = folder.path.clone();
    let (entries, more) = on_disk(move || read(&Root::open(&place)?, &path.parts)).await??;
    for some in entries.chunks(FRAME) {
        frames::say(writer, &FileReply::Entries { entries: some.to_vec() }).await?;
    }
    Ok(frames::say(writer, &FileReply::End { sha256: None, more }).await?)
}

fn read(root: &Root, parts: &[String]) -> Result<(Vec<Entry>, bool), StreamFault> {
    let folder = root.folder(parts)?;
    let mut entries = Vec::new();
    let mut more = false;
    for found in Dir::read_from(&folder).map_err(system)? {
        let found = found.map_err(system)?;
        let name = found.file_name().to_bytes();
        if matches!(name, b"." | b"..") || is_partial(name) {
            continue;
        }
        if entries.len() == MOST {
            more = true;
            break;
        }
        // What has gone meanwhile is not told.
        let Ok(stat) = statat(&folder, found.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        entries.push(entry(name, &stat));
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((entries, more))
}

fn entry(name: &[u8], stat: &Stat) -> Entry {
    let text = std::str::from_utf8(name);
    let kind = match (text, FileType::from_raw_mode(stat.st_mode)) {
        (Ok(_), FileType::RegularFile) => EntryKind::File,
        (Ok(_), FileType::Directory) => EntryKind::Folder,
        // A path that a device writes is text, so a name that is none cannot be asked for.
        _ => EntryKind::Other,
    };
    Entry {
        name: String::from_utf8_lossy(name).into_owned(),
        kind,
        size: (kind == EntryKind::File).then_some(stat.st_size as u64),
        modified: Some(modified(stat)),
    }
}

/// When it was changed last, unix milliseconds.
pub(super) fn modified(stat: &Stat) -> i64 {
    stat.st_mtime.saturating_mul(1000).saturating_add(stat.st_mtime_nsec as i64 / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_folder_is_told_in_order_with_what_can_be_opened_and_what_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &[u8]| dir.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(at(b"b"), b"12345").unwrap();
        std::fs::create_dir(at(b"a")).unwrap();
        std::fs::write(at(b"caf\xe9"), b"").unwrap();
        std::fs::write(at(b"\x1b[2J"), b"").unwrap();
        std::fs::write(at(b".skald-upload-0"), b"").unwrap();
        std::os::unix::fs::symlink("b", at(b"link")).unwrap();
        let (entries, more) = read(&Root::open(dir.path()).unwrap(), &[]).unwrap();
        let told: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.kind, e.size)).collect();
        assert_eq!(
            told,
            [
                ("\u{1b}[2J", EntryKind::File, Some(0)),
                ("a", EntryKind::Folder, None),
                ("b", EntryKind::File, Some(5)),
                ("caf\u{fffd}", EntryKind::Other, None),
                ("link", EntryKind::Other, None),
            ]
        );
        assert!(!more && entries.iter().all(|e| e.modified.is_some_and(|at| at > 0)));
    }
}
