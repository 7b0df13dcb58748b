//! How a home forgets its pairing.

use crate::failure::{Failure, Outcome};
use crate::holder::{CA, LINK, seed};
use crate::home::{Home, why};
use crate::pairing::Pairing;
use crate::shelf::Shelf;
use crate::vault::Vault;

/// Deletes what a pairing left in the home, in an order that is safe to interrupt.
pub fn erase(home: &Home) -> Outcome<()> {
    let failed = |e: std::io::Error| {
        Failure::refused(format!("The folder {} cannot be emptied ({}).", home.dir().display(), why(&e)))
    };
    let seed = format!("{LINK}/seed");
    if home.path(LINK).exists() {
        home.remove(&seed).map_err(failed)?;
        std::fs::remove_dir_all(home.path(LINK)).map_err(failed)?;
    }
    for folder in ["outbox"] {
        match std::fs::remove_dir_all(home.path(folder)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
    }
    for file in ["memory.sealed", CA] {
        home.remove(file).map_err(failed)?;
    }
    // Last, so that an interrupted logout can be finished by another.
    Pairing::remove(home).map_err(failed)
}

/// A host that let go of this device has forgotten what it is, and is told anew once it has admitted it again.
pub fn introduce_again(home: &Home) -> Outcome<()> {
    // Without the old seed there is no old memory either.
    let Some(vault) = seed(home).ok().and_then(|seed| Vault::new(seed.expose())) else { return Ok(()) };
    let shelf = Shelf::open(home.clone(), vault)?;
    let mut memory = shelf.load()?.memory;
    if memory.greeted.take().is_some() {
        shelf.remember(&memory).map_err(|e| {
            Failure::refused(format!("The folder {} cannot be written ({}).", home.dir().display(), why(&e)))
        })?;
    }
    Ok(())
}
