//! The sealed files of a home: answers on their way, one file each, and the memory.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::desk::{Entry, Memory};
use crate::failure::{Failure, Outcome};
use crate::home::{Home, why};
use crate::vault::Vault;

const OUTBOX: &str = "outbox";
const MEMORY: &str = "memory.sealed";

/// Reads and writes what is kept. The holder of the home's lock has the only one.
pub struct Shelf {
    home: Home,
    vault: Vault,
}

/// What was found at the start.
pub struct Found {
    /// What is kept between runs.
    pub memory: Memory,
    /// Answers that are not confirmed.
    pub outbox: Vec<Entry>,
    /// How many answers could not be opened; they are put aside, not deleted.
    pub damaged: usize,
}

impl Shelf {
    /// Opens the home's shelf.
    pub fn open(home: Home, vault: Vault) -> Outcome<Self> {
        let path = home.path(OUTBOX);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|e| {
            Failure::refused(format!("The folder {} cannot be made ({}).", path.display(), why(&e)))
        })?;
        Ok(Self { home, vault })
    }

    /// Reads everything.
    pub fn load(&self) -> Outcome<Found> {
        let cannot = |e: io::Error| {
            Failure::refused(format!(
                "The folder {} cannot be read ({}).",
                self.home.dir().display(),
                why(&e)
            ))
        };
        // The memory is a convenience: the host sends the Inbox again. A damaged one starts empty.
        let memory = self
            .home
            .read(MEMORY)
            .map_err(cannot)?
            .and_then(|sealed| self.vault.open(MEMORY, &sealed).ok())
            .and_then(|plain| serde_json::from_slice(&plain).ok())
            .unwrap_or_default();
        let mut outbox = Vec::new();
        let mut damaged = 0;
        for file in fs::read_dir(self.home.path(OUTBOX)).map_err(cannot)? {
            let name = file.map_err(cannot)?.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                // A crash came before this one was whole, so nobody was told that it is kept.
                let _ = fs::remove_file(self.home.path(OUTBOX).join(&name));
            }
            if !name.ends_with(SUFFIX) || name.starts_with('.') {
                continue;
            }
            let inside = format!("{OUTBOX}/{name}");
            let entry: Option<Entry> = self
                .home
                .read(&inside)
                .map_err(cannot)?
                .and_then(|sealed| self.vault.open(&inside, &sealed).ok())
                .and_then(|plain| serde_json::from_slice(&plain).ok());
            match entry {
                Some(entry) => outbox.push(entry),
                None => {
                    damaged += 1;
                    fs::rename(self.home.path(&inside), self.home.path(&format!("{inside}.damaged")))
                        .map_err(cannot)?;
                }
            }
        }
        Ok(Found { memory, outbox, damaged })
    }

    /// Makes an answer durable.
    pub fn keep(&self, entry: &Entry) -> Outcome<()> {
        let name = file_of(&entry.request_id);
        let failed = |cause: String| {
            Failure::refused(format!("The answer cannot be kept, so it was not sent ({cause})."))
        };
        let plain =
            Zeroizing::new(serde_json::to_vec(entry).map_err(|_| failed("it cannot be written".into()))?);
        let sealed = self.vault.seal(&name, &plain).map_err(|_| failed("it cannot be sealed".into()))?;
        self.home.write(&name, &sealed).map_err(|e| failed(why(&e)))
    }

    /// Removes an answer that is over.
    pub fn drop_answer(&self, request_id: &str) -> io::Result<()> {
        self.home.remove(&file_of(request_id))
    }

    /// Makes the memory durable.
    pub fn remember(&self, memory: &Memory) -> io::Result<()> {
        let plain = Zeroizing::new(serde_json::to_vec(memory)?);
        let sealed = self.vault.seal(MEMORY, &plain).map_err(|_| io::Error::other("it cannot be sealed"))?;
        self.home.write(MEMORY, &sealed)
    }
}

const SUFFIX: &str = ".sealed";

/// Request ids are the host's text, so they do not become file names themselves.
fn file_of(request_id: &str) -> String {
    format!("{OUTBOX}/{}{SUFFIX}", hex::encode(&Sha256::digest(request_id.as_bytes())[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Draft;
    use serde_json::{Map, Value};
    use skald_payloads::ElicitationAction;

    fn shelf(dir: &std::path::Path) -> Shelf {
        let home = Home::locate(Some(dir.join("home"))).expect("located");
        home.create().expect("created");
        Shelf::open(home, Vault::new(&[1; 32]).expect("vault")).expect("open")
    }

    fn entry(id: &str) -> Entry {
        let content = Map::from_iter([("password".to_owned(), Value::from("canary-hunter2"))]);
        Entry {
            token: "t".into(),
            request_id: id.into(),
            draft: Draft::Elicitation { action: ElicitationAction::Accept, content: Some(content) },
            digest: None,
            payload: "{\"content\":\"canary-hunter2\"}".into(),
            title: "t".into(),
            expires_at: None,
            left: false,
        }
    }

    #[test]
    fn kept_answers_come_back_and_tell_nothing_on_disk() {
        let dir = tempfile::tempdir().expect("folder");
        let shelf = shelf(dir.path());
        shelf.keep(&entry("../../etc/passwd")).expect("kept");
        shelf.keep(&entry("b")).expect("kept");
        let found = shelf.load().expect("loaded");
        assert_eq!((found.outbox.len(), found.damaged), (2, 0));
        for file in fs::read_dir(dir.path().join("home/outbox")).expect("list") {
            let bytes = fs::read(file.expect("entry").path()).expect("read");
            assert!(!bytes.windows(6).any(|w| w == b"canary"));
        }
        shelf.drop_answer("b").expect("dropped");
        assert_eq!(shelf.load().expect("loaded").outbox, [entry("../../etc/passwd")]);
    }

    #[test]
    fn a_damaged_answer_is_put_aside_and_counted() {
        let dir = tempfile::tempdir().expect("folder");
        let shelf = shelf(dir.path());
        shelf.keep(&entry("a")).expect("kept");
        fs::write(dir.path().join("home").join(file_of("a")), b"rubbish").expect("damage");
        let found = shelf.load().expect("loaded");
        assert_eq!((found.outbox.len(), found.damaged), (0, 1));
        assert_eq!(shelf.load().expect("loaded").damaged, 0);
    }

    #[test]
    fn the_memory_survives_and_a_damaged_one_starts_empty() {
        let dir = tempfile::tempdir().expect("folder");
        let shelf = shelf(dir.path());
        let memory = Memory { next_note: 7, ..Memory::default() };
        shelf.remember(&memory).expect("kept");
        assert_eq!(shelf.load().expect("loaded").memory.next_note, 7);
        fs::write(dir.path().join("home").join(MEMORY), b"rubbish").expect("damage");
        assert_eq!(shelf.load().expect("loaded").memory.next_note, 0);
    }
}
