//! The search for a secret where none may be: in files, logs and databases, in the clear or thinly wrapped.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A place where a canary was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The file, or the name given for a text.
    pub place: PathBuf,
    /// How it stood there: `clear`, `hex` or `base64`.
    pub form: &'static str,
}

/// Every file below `root` that holds `secret`, in the clear, in hex or in base64 (of either alphabet and at any of the
/// three alignments). Links are not followed.
pub fn traces_in_tree(root: &Path, secret: &[u8]) -> Result<Vec<Trace>> {
    let forms = forms(secret);
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("{} cannot be listed", folder.display()))?
        {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                match fs::read(entry.path()) {
                    Ok(bytes) => found.extend(traces(&entry.path(), &bytes, &forms)),
                    // A running database drops its journal files as it likes.
                    Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => {}
                    Err(other) => {
                        return Err(other).context(format!("{} cannot be read", entry.path().display()));
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Whether `secret` stands in the clear in what the process `pid` may write to of its memory. For its parent, on Linux.
pub fn is_in_memory(pid: u32, secret: &[u8]) -> Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).context("the process has no memory map")?;
    let memory = fs::File::open(format!("/proc/{pid}/mem")).context("its memory cannot be read")?;
    let mut read = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((from, to)) = range.split_once('-') else { continue };
        let (from, to) = (u64::from_str_radix(from, 16)?, u64::from_str_radix(to, 16)?);
        if !rights.starts_with("rw") {
            continue;
        }
        let mut region = vec![0; usize::try_from(to - from)?];
        // What was mapped a moment ago may be gone.
        if memory.read_exact_at(&mut region, from).is_ok() {
            read += region.len();
            if contains(&region, secret) {
                return Ok(true);
            }
        }
    }
    anyhow::ensure!(read > 0, "nothing of the process's memory could be read");
    Ok(false)
}

/// The same search in what a program printed.
pub fn traces_in_text(name: &str, text: &str, secret: &[u8]) -> Vec<Trace> {
    traces(Path::new(name), text.as_bytes(), &forms(secret))
}

fn traces(place: &Path, bytes: &[u8], forms: &[(&'static str, Vec<u8>)]) -> Vec<Trace> {
    let mut found: Vec<Trace> = Vec::new();
    for (form, needle) in forms {
        if contains(bytes, needle) && found.iter().all(|trace| trace.form != *form) {
            found.push(Trace { place: place.to_path_buf(), form });
        }
    }
    found
}

fn contains(hay: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && hay.windows(needle.len()).any(|window| window == needle)
}

fn forms(secret: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let hex = |case: fn(&u8) -> String| secret.iter().map(case).collect::<String>().into_bytes();
    let mut forms = vec![
        ("clear", secret.to_vec()),
        ("hex", hex(|byte| format!("{byte:02x}"))),
        ("hex", hex(|byte| format!("{byte:02X}"))),
    ];
    for alphabet in [STANDARD, URL_SAFE] {
        for skipped in 0..3 {
            // The secret may begin at any byte of a group of three; only the digits that depend on it alone are
            // looked for.
            let padded: Vec<u8> = std::iter::repeat_n(0, skipped).chain(secret.iter().copied()).collect();
            let text = base64(&padded, alphabet);
            let first = (skipped * 8).div_ceil(6);
            let last = padded.len() * 8 / 6;
            if last > first {
                forms.push(("base64", text[first..last].to_vec()));
            }
        }
    }
    forms
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> Vec<u8> {
    let mut text = Vec::new();
    for group in bytes.chunks(3) {
        let word =
            group.iter().chain([0, 0].iter()).take(3).fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        text.extend([18, 12, 6, 0].map(|shift| alphabet[(word >> shift & 63) as usize]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Scratch};

    #[test]
    fn a_canary_is_found_however_it_is_wrapped() {
        let scratch = Scratch::new().unwrap();
        let secret = Rng::new(3).word(20).into_bytes();
        fs::create_dir(scratch.join("deep")).unwrap();
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(scratch.join("deep/hex"), format!("token={hex};")).unwrap();
        fs::write(scratch.join("clear"), [b"\0x".as_slice(), &secret, b"y"].concat()).unwrap();
        for lead in 0..3 {
            let whole = [&b"abc"[..lead], &secret, b"tail"].concat();
            fs::write(scratch.join(format!("base64-{lead}")), base64(&whole, STANDARD)).unwrap();
        }
        fs::write(scratch.join("innocent"), Rng::new(4).bytes(4096)).unwrap();
        let mut places: Vec<_> = traces_in_tree(scratch.path(), &secret)
            .unwrap()
            .into_iter()
            .map(|trace| (trace.place.file_name().unwrap().to_string_lossy().into_owned(), trace.form))
            .collect();
        places.sort();
        let expected = [
            ("base64-0", "base64"),
            ("base64-1", "base64"),
            ("base64-2", "base64"),
            ("clear", "clear"),
            ("hex", "hex"),
        ];
        assert_eq!(places, expected.map(|(name, form)| (name.to_owned(), form)));
    }
}
