//! Small care for text that people read.

/// At most `max` characters of `text`; what is cut is marked with an ellipsis. Never cuts inside a character.
pub fn clip(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(max.saturating_sub(1)).collect();
    out.truncate(out.trim_end().len());
    if max > 0 {
        out.push('…');
    }
    out
}

/// `text` on one line: runs of white space become one space, control and direction-changing characters go.
///
/// A name or title that a peer chose must not be able to forge a second line or turn the reading direction.
pub fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !is_unseen(*c));
    let mut out = String::new();
    for c in shown {
        if c != ' ' || !(out.is_empty() || out.ends_with(' ')) {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_keeps_whole_characters() {
        assert_eq!(clip("née ☂", 5), "née ☂");
        assert_eq!(clip("née ☂ und", 5), "née…");
        assert_eq!(clip("☂☂☂", 1), "…");
        assert_eq!(clip("☂", 0), "");
    }

    #[test]
    fn one_line_drops_what_could_forge_a_line() {
        assert_eq!(one_line("  my\r\n phone\u{202e}\u{0007} "), "my phone");
        assert_eq!(one_line("\n\t"), "");
    }
}
