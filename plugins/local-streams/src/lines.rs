//! Lines of the settings: one folder or one port each.

use std::net::IpAddr;
use std::path::PathBuf;

/// A folder that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// What devices call it.
    pub name: String,
    /// Whether files may be put there.
    pub write: bool,
    /// Largest file that may be put, in bytes.
    pub max_file: u64,
    /// What may be put on one day, in bytes.
    pub daily: u64,
    /// Where it is.
    pub path: PathBuf,
}

/// A port that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    /// What devices call it.
    pub name: String,
    /// A host's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

const FOLDER_FORM: &str =
    "Write a folder as NAME ro PATH or NAME rw PATH, for example: photos ro /srv/pictures.";
const PORT_FORM: &str = "Write a port as NAME PORT or NAME HOST:PORT, for example: dev 5173.";

/// Reads `NAME ro|rw [max=SIZE] [daily=SIZE] PATH`.
pub(crate) fn folder(line: &str, max_file: u64, daily: u64) -> Result<Folder, String> {
    let (name, rest) = line.split_once(char::is_whitespace).ok_or(FOLDER_FORM)?;
    let (access, mut rest) = rest.trim_start().split_once(char::is_whitespace).ok_or(FOLDER_FORM)?;
    let write = match access {
        "ro" => false,
        "rw" => true,
        _ => return Err(FOLDER_FORM.into()),
    };
    let mut folder = Folder { name: named(name)?, write, max_file, daily, path: PathBuf::new() };
    rest = rest.trim_start();
    // Options stand before the path, for a path may hold anything.
    while !rest.starts_with('/') {
        let (option, after) = rest.split_once(char::is_whitespace).ok_or(FOLDER_FORM)?;
        match option.split_once('=') {
            Some(("max", value)) => folder.max_file = size(value)?,
            Some(("daily", value)) => folder.daily = size(value)?,
            _ => return Err(format!("{FOLDER_FORM} The path must begin with a slash.")),
        }
        rest = after.trim_start();
    }
    folder.path = PathBuf::from(rest);
    Ok(folder)
}

/// Reads `NAME PORT` or `NAME HOST:PORT`.
pub(crate) fn port(line: &str, beyond_loopback: bool) -> Result<Port, String> {
    let (name, place) = line.split_once(char::is_whitespace).ok_or(PORT_FORM)?;
    let place = place.trim();
    let (host, port) = place.rsplit_once(':').unwrap_or(("127.0.0.1", place));
    let port: u16 = port.parse().ok().filter(|p| *p > 0).ok_or(PORT_FORM)?;
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() || bare.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '@' | '[' | ']')) {
        return Err(PORT_FORM.into());
    }
    let near =
        bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !near && !beyond_loopback {
        return Err(format!(
            "{bare} is not this computer; write a port of 127.0.0.1, or allow ports of other computers."
        ));
    }
    Ok(Port { name: named(name)?, host: bare.into(), port })
}

/// Names are typed on command lines and shown in logs.
fn named(name: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() <= 64 && !name.starts_with('.') && !name.is_empty() && name.chars().all(fine) {
        Ok(name.to_owned())
    } else {
        Err("A name has up to 64 letters without accents, digits, hyphens, underscores and dots, and does not begin with a dot.".into())
    }
}

/// Reads `500M`, `2G`, `2GiB`: powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || "Write a size as a number and K, M, G or T, for example 500M.".to_owned();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.to_ascii_uppercase();
    let shift = match unit.trim_end_matches('B').trim_end_matches('I') {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|n| *n > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_with_their_limits_and_any_path() {
        let read = folder("inbox rw max=2G daily=500MiB /srv/My files, all = here", 1, 2).unwrap();
        let path = PathBuf::from("/srv/My files, all = here");
        assert_eq!(
            read,
            Folder { name: "inbox".into(), write: true, max_file: 2 << 30, daily: 500 << 20, path }
        );
        let plain = folder("photos   ro   /p", 1, 2).unwrap();
        assert_eq!((plain.write, plain.max_file, plain.daily), (false, 1, 2));
        for bad in [
            "",
            "photos",
            "photos ro",
            "photos /p",
            "photos rx /p",
            "photos ro p",
            "photos ro ../p",
            "../x ro /p",
            "a/b ro /p",
            ".a ro /p",
            "a ro max= /p",
            "a ro max=1 /p",
            "a ro max=0G /p",
            "a ro most=1G /p",
            "a ro max=99999999999999T /p",
            "ü ro /p",
        ] {
            assert!(folder(bad, 1, 2).is_err_and(|told| told.ends_with('.')), "{bad}");
        }
    }

    #[test]
    fn ports_are_on_this_computer_unless_told_otherwise() {
        for (line, host, number) in [
            ("dev 5173", "127.0.0.1", 5173),
            ("dev localhost:80", "localhost", 80),
            ("dev [::1]:80", "::1", 80),
            ("dev  127.0.0.1:1", "127.0.0.1", 1),
        ] {
            let read = port(line, false).unwrap();
            assert_eq!((read.host.as_str(), read.port), (host, number), "{line}");
        }
        for bad in [
            "dev",
            "dev 0",
            "dev 65536",
            "dev x",
            "dev :80",
            "dev http://a:80",
            "dev me@a:80",
            "de/v 80",
            "dev a b:80",
        ] {
            assert!(port(bad, true).is_err(), "{bad}");
        }
        for far in ["dev 192.168.0.2:80", "dev example.org:80", "dev 0.0.0.0:80", "dev 127.0.0.1.example:80"]
        {
            assert!(port(far, false).unwrap_err().contains("not this computer"), "{far}");
            assert!(port(far, true).is_ok(), "{far}");
        }
    }
}
