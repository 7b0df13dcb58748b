//! Reads values that must not show: from standard input, or from the terminal without echo.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use zeroize::Zeroizing;

use crate::failure::{Failure, Outcome};

/// More than a form field ever needs, and less than what an envelope holds.
const MAX_VALUE: u64 = 48 * 1024;

/// Reads standard input whole, without its last line break; on a terminal it asks, and hides what is typed when
/// `hidden`.
pub fn from_stdin(prompt: &str, hidden: bool) -> Outcome<Zeroizing<String>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return from_terminal(prompt, hidden);
    }
    let mut bytes = Zeroizing::new(Vec::new());
    stdin
        .lock()
        .take(MAX_VALUE + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| Failure::usage("Standard input cannot be read; nothing was sent."))?;
    if bytes.len() as u64 > MAX_VALUE {
        return Err(Failure::usage("The value on standard input is longer than 48 KiB; nothing was sent."));
    }
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Failure::usage("The value on standard input is not UTF-8 text; nothing was sent."))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Whether there is a person to ask.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on the terminal. What is typed shows only when it is not `hidden`.
pub fn from_terminal(prompt: &str, hidden: bool) -> Outcome<Zeroizing<String>> {
    let unreadable = |_| Failure::usage("The terminal cannot be read; nothing was sent.");
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{prompt}: ");
    let _ = stderr.flush();
    let quiet = if hidden {
        Some(Quiet::begin().map_err(|_| Failure::usage("The terminal cannot be read; nothing was sent."))?)
    } else {
        None
    };
    let mut line = Zeroizing::new(String::new());
    let read = std::io::stdin().lock().take(MAX_VALUE).read_line(&mut line).map_err(unreadable)?;
    if quiet.is_some() {
        let _ = writeln!(stderr);
    }
    drop(quiet);
    if read == 0 {
        return Err(Failure::interrupted());
    }
    while line.ends_with(['\n', '\r']) {
        line.pop();
    }
    Ok(line)
}

/// The terminal's settings from before echo was turned off. A signal may end the command while a read still blocks,
/// so whoever ends the process puts them back.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Echo is off for as long as this lives.
struct Quiet;

impl Quiet {
    fn begin() -> rustix::io::Result<Self> {
        let stdin = std::io::stdin();
        let before = termios::tcgetattr(&stdin)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::ICANON | LocalModes::ISIG);
        termios::tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        Ok(Self)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Turns echo on again where it was turned off.
pub fn restore_terminal() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}
