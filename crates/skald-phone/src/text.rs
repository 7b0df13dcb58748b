//! What comes from elsewhere is shown so that it can deceive nobody: a tool call that hides part of itself behind
//! terminal escapes or reversed text would be approved unread.

use std::fmt::Write as _;

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether escapes for colours may be written.
    pub colour: bool,
}

impl Style {
    /// No colours at all.
    #[cfg(test)]
    pub const PLAIN: Self = Self { colour: false };

    /// Colours on a terminal, unless `NO_COLOR` is set (no-color.org) or the terminal is dumb.
    pub fn for_stdout() -> Self {
        use std::io::IsTerminal;
        let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Self { colour: std::io::stdout().is_terminal() && !refused }
    }

    /// `text` in the given SGR style.
    pub fn paint(self, sgr: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Headings.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What matters less.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }
}

/// Shows every character that a terminal would act upon, or that people cannot see, as an escape of its own.
/// Line feeds stay: callers split at them first.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' => out.push_str("\\r"),
            c if c.is_control() || unseen(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// One line: line feeds and tabs are escaped as well.
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Direction overrides, zero-width and other characters without ink that can make text read as another.
fn unseen(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Lines of `text`, each made visible and indented; an empty text gives one line that says so.
pub fn indented(text: &str, indent: &str, mut paint: impl FnMut(&str) -> String) -> String {
    if text.is_empty() {
        return format!("{indent}(empty)\n");
    }
    let mut out = String::new();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        let line = visible(line);
        let _ = writeln!(out, "{indent}{}", paint(&line));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_cannot_act() {
        let shown = visible("rm -rf / \x1b[2K\x1b[1Gls\r\u{9b}31m\u{7}");
        assert_eq!(shown, "rm -rf / \\u{1b}[2K\\u{1b}[1Gls\\r\\u{9b}31m\\u{7}");
        assert!(!shown.chars().any(char::is_control));
    }

    #[test]
    fn reversed_and_invisible_text_is_shown_as_what_it_is() {
        assert_eq!(visible("a\u{202e}cod.exe\u{2066}b\u{200b}"), "a\\u{202e}cod.exe\\u{2066}b\\u{200b}");
        // Joiners that scripts and emoji need stay: they deceive nobody about a command's bytes.
        assert_eq!(visible("née ☂ 👩\u{200d}🚒"), "née ☂ 👩\u{200d}🚒");
    }

    #[test]
    fn lines_are_kept_whole_and_each_is_indented() {
        assert_eq!(indented("a\nb\n\nc\n", "  ", str::to_owned), "  a\n  b\n  \n  c\n");
        assert_eq!(indented("", "  ", str::to_owned), "  (empty)\n");
        assert_eq!(one_line("a\nb\tc"), "a\\nb\\tc");
    }

    #[test]
    fn no_colour_means_no_escape() {
        assert_eq!(Style::PLAIN.bold("x"), "x");
        assert_eq!(Style { colour: true }.bold("x"), "\x1b[1mx\x1b[0m");
    }
}
