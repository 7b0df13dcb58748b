//! How far a transfer is: a bar on a terminal, or a line of JSON now and then for programs.

use std::cell::Cell;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

/// Bytes between two lines of JSON; of a large file a hundredth.
const STEP: u64 = 1024 * 1024;

/// A bar on standard error, or lines on standard output.
pub struct Progress {
    bar: ProgressBar,
    json: bool,
    told: Cell<u64>,
}

impl Progress {
    /// Nothing is drawn where nobody looks.
    pub fn new(name: &str, json: bool) -> Self {
        let shown = !json && std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_prefix(crate::text::one_line(name));
        Self { bar, json, told: Cell::new(0) }
    }

    /// So many bytes of so many are done.
    pub fn at(&self, done: u64, of: u64) {
        self.bar.set_length(of);
        self.bar.set_position(done);
        if self.json && done.abs_diff(self.told.get()) >= STEP.max(of / 100) {
            self.told.set(done);
            // A reader that is gone is met again at the end.
            let _ = crate::out::json(&json!({"event": "progress", "done": done, "size": of}));
        }
    }

    /// Says what holds it up, or nothing.
    pub fn note(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
