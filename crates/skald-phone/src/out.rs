//! Standard output and error. A reader that closed the pipe ends the command quietly.

use std::io::{self, Write};

use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// Writes a line to standard output.
pub fn line(text: &str) -> Outcome<()> {
    text_of(&format!("{text}\n"))
}

/// Writes text to standard output as it is.
pub fn text_of(text: &str) -> Outcome<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => Failure::interrupted(),
        _ => Failure::refused("Standard output cannot be written."),
    })
}

/// Writes one JSON value as a line.
pub fn json(value: &Value) -> Outcome<()> {
    line(&value.to_string())
}

/// Says something beside the result.
pub fn aside(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Unix milliseconds now.
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
