//! Running a step's command with its output shown, and reading what test runners say at the end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Tests that ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Went well.
    pub passed: u64,
    /// Did not.
    pub failed: u64,
    /// Were not run.
    pub skipped: u64,
}

impl Counts {
    /// Adds another sum.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// What a runner's line adds to the sum: cargo's `test result: …` or node's `ℹ pass 3` and `# pass 3`.
    pub fn of_line(line: &str) -> Option<Self> {
        let line = line.trim();
        if let Some((_, result)) = line.split_once("test result: ") {
            let number = |word: &str| {
                let before = result.split(word).next()?;
                before.rsplit([' ', '.', ';']).find(|part| !part.is_empty())?.parse().ok()
            };
            return Some(Self {
                passed: number(" passed")?,
                failed: number(" failed")?,
                skipped: number(" ignored")?,
            });
        }
        let rest = line.strip_prefix("ℹ ").or_else(|| line.strip_prefix("# "))?;
        let (word, number) = rest.split_once(' ')?;
        let number = number.parse().ok()?;
        match word {
            "pass" => Some(Self { passed: number, ..Self::default() }),
            "fail" | "cancelled" => Some(Self { failed: number, ..Self::default() }),
            "skipped" | "todo" => Some(Self { skipped: number, ..Self::default() }),
            _ => None,
        }
    }
}

/// Runs a command with its output shown as it comes, and adds up what test runners in it said. A failing command is an
/// error that says which; what was counted until then stands in `counts`.
pub fn run(command: &mut Command, counts: &mut Counts) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let mut child = command
        .current_dir_or(super::root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{shown}` cannot be run"))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.with_context(|| format!("`{shown}`: its output cannot be read"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            if let Some(more) = Counts::of_line(&plain(&line)) {
                counts.add(more);
            }
        }
    }
    let status = child.wait().with_context(|| format!("`{shown}` cannot be joined"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

trait InFolder {
    fn current_dir_or(&mut self, folder: &std::path::Path) -> &mut Self;
}

impl InFolder for Command {
    fn current_dir_or(&mut self, folder: &std::path::Path) -> &mut Self {
        if self.get_current_dir().is_none() {
            self.current_dir(folder);
        }
        self
    }
}

fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The line without colours.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_closing_lines_are_understood() {
        let of = |line: &str| Counts::of_line(&plain(line)).map(|c| (c.passed, c.failed, c.skipped));
        let cargo =
            "test result: ok. 12 passed; 3 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.02s";
        assert_eq!(of(cargo), Some((12, 3, 2)));
        assert_eq!(of(&cargo.replace("ok", "\u{1b}[32mok\u{1b}[m")), Some((12, 3, 2)));
        assert_eq!(of("ℹ pass 41"), Some((41, 0, 0)));
        assert_eq!(of("\u{1b}[34mℹ fail 2\u{1b}[39m"), Some((0, 2, 0)));
        assert_eq!(of("# skipped 1"), Some((0, 0, 1)));
        for other in ["ℹ tests 41", "# Subtest: pass", "running 3 tests", "ℹ duration_ms 3.5", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_failing_command_is_named() {
        let mut counts = Counts::default();
        let script = "echo 'ℹ pass 2'; exit 3";
        let said = run(Command::new("sh").args(["-c", script]), &mut counts).unwrap_err().to_string();
        assert!(said.contains("exit 3") && said.contains("failed"), "{said}");
        assert_eq!(counts.passed, 2);
    }
}
