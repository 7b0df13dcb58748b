//! Rules of the tree that no other tool checks.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{links, verdict};

/// Files aim below 400 lines; from here on it is an error.
const TOO_LONG: usize = 450;

/// Checks every file that git knows, or would take, in the tree at `root`.
pub fn check(root: &Path) -> Result<()> {
    let mut found = Vec::new();
    for name in files(root)? {
        let path = root.join(&name);
        // A file that is deleted but not yet committed is still listed. What is not text has no rules here.
        let Some(text) = fs::read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            continue;
        };
        found.extend(of_file(&name, &text));
        if name.ends_with(".md") {
            found.extend(links::dangling(root, &name, &text));
        }
    }
    verdict(found)
}

fn files(root: &Path) -> Result<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git cannot be run")?;
    if !listed.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// A file that holds tests and nothing else.
pub fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let named = name == "tests.rs"
        || name.starts_with("test_")
        || name.ends_with("_tests.rs")
        || name.contains(".test.");
    let mut folders = path.components().rev().skip(1).map(|part| part.as_os_str());
    named || folders.any(|folder| folder == "tests" || folder == "test")
}

/// What is wrong with one file, each fault in a line that names the place.
fn of_file(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let ending = Path::new(name).extension().unwrap_or_default().to_string_lossy().into_owned();
    if name.ends_with(".lock") || name.ends_with("package-lock.json") {
        return found;
    }
    let rust = ending == "rs";
    let script = matches!(ending.as_str(), "ts" | "tsx" | "mjs" | "js");
    let code = rust || script;
    let length = text.lines().count();
    if (code || ending == "css") && length > TOO_LONG {
        found.push(format!("{name}: {length} lines; split it by concern (files aim below 400)"));
    }
    if rust
        && name.ends_with("src/lib.rs")
        && !text.contains("#![deny(missing_docs)]")
        && !text.trim().is_empty()
    {
        found.push(format!("{name}: a library says #![deny(missing_docs)]"));
    }
    let paused = ["start_paused", "time::pause()"].iter().any(|sign| text.contains(sign));
    let mut in_tests = is_test_file(Path::new(name));
    for (number, line) in text.lines().enumerate() {
        let mut tell = |what: &str| found.push(format!("{name}:{}: {what}", number + 1));
        in_tests |= rust && line.trim() == "#[cfg(test)]";
        if machine_path(line) {
            tell("a path of somebody's machine");
        }
        if !code {
            continue;
        }
        if LEFT_OPEN.iter().any(|parts| line.contains(&parts.concat())) {
            tell("left open; do it, or file it");
        }
        if rust && line.trim_start().starts_with(&["#[ign", "ore"].concat()) {
            tell("a test that does not run");
        }
        if in_tests && !paused && SLEEPS.iter().any(|parts| line.contains(&parts.concat())) {
            tell("a test sleeps; wait for a signal, or use virtual time");
        }
    }
    found
}

/// Written in halves, so that this file does not find itself.
const LEFT_OPEN: &[[&str; 2]] = &[
    ["TO", "DO"],
    ["FIX", "ME"],
    ["XX", "X:"],
    ["HA", "CK:"],
    ["todo", "!("],
    ["dbg", "!("],
    ["unimple", "mented!("],
];

const SLEEPS: &[[&str; 2]] =
    &[["thread::sl", "eep("], ["time::sl", "eep("], ["setTim", "eout(r"], ["waitForTim", "eout("]];

fn machine_path(line: &str) -> bool {
    let folders =
        [["/wo", "rk/"], ["/ro", "ot/"], ["/fa", "rm/"], ["/Us", "ers/"]].map(|parts| parts.concat());
    let at_start = |at: usize| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | ')'))
    };
    if folders.iter().any(|folder| line.match_indices(folder.as_str()).any(|(at, _)| at_start(at))) {
        return true;
    }
    line.match_indices("/home/").any(|(at, found)| {
        let owner: String =
            line[at + found.len()..].chars().take_while(char::is_ascii_alphanumeric).collect();
        at_start(at) && !owner.is_empty() && line[at + found.len() + owner.len()..].starts_with('/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, text: &str) -> String {
        of_file(name, text).join("\n")
    }

    #[test]
    fn a_clean_file_is_quiet() {
        assert_eq!(said("crates/a/src/b.rs", "//! Does a thing.\nfn f() {}\n"), "");
        assert_eq!(
            said("docs/a.md", "The seed is at `<data>/relay/seed`, see https://example.org/home/page.\n"),
            ""
        );
    }

    #[test]
    fn each_fault_is_named_with_its_place() {
        let sleep = ["std::thread::sl", "eep(d);"].concat();
        assert!(said("tests/tests/a.rs", &sleep).contains(":1: a test sleeps"));
        assert!(said("src/a.rs", &format!("\n#[cfg(test)]\n{sleep}")).contains(":3: a test sleeps"));
        assert_eq!(said("src/a.rs", &format!("{sleep}\n#[cfg(test)]\n")), "");
        assert_eq!(
            said("src/a.rs", &format!("#[cfg(test)]\n#[tokio::test(start_paused = true)]\n{sleep}")),
            ""
        );
        assert!(said("src/a.rs", &["// TO", "DO: more"].concat()).contains("left open"));
        assert!(said("README.md", &["see /ro", "ot/notes"].concat()).contains("somebody's machine"));
        assert!(said("README.md", &["see /ho", "me/ann/notes"].concat()).contains("somebody's machine"));
        assert!(said("src/a.rs", &["#[ign", "ore]"].concat()).contains("does not run"));
        assert!(said("src/a.rs", &"x\n".repeat(TOO_LONG + 1)).contains("split it"));
        assert!(said("crates/a/src/lib.rs", "//! A.\n").contains("missing_docs"));
    }
}
