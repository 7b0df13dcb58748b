//! A command line as it could be typed again: what is shown for approval must be what runs, to the byte.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Quotes a whole command line for a POSIX shell. Bytes that a screen would not show as they are (control characters,
/// text direction marks, broken UTF-8) appear as escapes within `$'…'`, so that nothing can hide.
pub fn command_line<S: AsRef<OsStr>>(words: &[S]) -> String {
    words.iter().map(|w| word(w.as_ref().as_bytes())).collect::<Vec<_>>().join(" ")
}

fn word(bytes: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(b);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(hidden) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => escaped(bytes),
    }
}

/// Characters that draw nothing, or draw other characters elsewhere.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
        || (c.is_whitespace() && c != ' ')
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::from("$'");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' => out.push_str(r"\'"),
                '\\' => out.push_str(r"\\"),
                '\n' => out.push_str(r"\n"),
                '\t' => out.push_str(r"\t"),
                '\r' => out.push_str(r"\r"),
                c if hidden(c) => {
                    // As bytes: `\u` depends on the shell's locale, and a following digit could belong to it.
                    let mut buffer = [0; 4];
                    for b in c.encode_utf8(&mut buffer).bytes() {
                        out.push_str(&format!("\\{b:03o}"));
                    }
                }
                c => out.push(c),
            }
        }
        for b in chunk.invalid() {
            out.push_str(&format!("\\{b:03o}"));
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        assert_eq!(
            command_line(&["ls", "-la", "/tmp/a b", "it's", "", "$HOME", "a=b"]),
            r"ls -la '/tmp/a b' 'it'\''s' '' '$HOME' a=b"
        );
    }

    #[test]
    fn nothing_can_hide_in_a_word() {
        assert_eq!(command_line(&["a\u{202e}b"]), r"$'a\342\200\256b'");
        assert_eq!(command_line(&["x\u{1b}[2K\ny\\'z"]), r"$'x\033[2K\ny\\\'z'");
        assert_eq!(command_line(&[OsStr::from_bytes(b"\xffa")]), r"$'\377a'");
    }

    #[test]
    fn a_shell_reads_back_exactly_what_was_quoted() {
        let words: Vec<Vec<u8>> = vec![
            b"plain".to_vec(),
            b"two words".to_vec(),
            b"it's \"quoted\" \\ $x `y` !z".to_vec(),
            b"\x01\x02\n\t\r\x7f\xff\xfe7".to_vec(),
            "ünï \u{200b}8\u{202e}".as_bytes().to_vec(),
            b"".to_vec(),
            b"~".to_vec(),
            b"#".to_vec(),
        ];
        let line = command_line(&words.iter().map(|w| OsStr::from_bytes(w)).collect::<Vec<_>>());
        let output =
            match std::process::Command::new("bash").arg("-c").arg(format!("printf '%s\\0' {line}")).output()
            {
                Ok(output) => output,
                // A machine without bash has no one to ask.
                Err(_) => return,
            };
        let mut expected = Vec::new();
        for w in &words {
            expected.extend_from_slice(w);
            expected.push(0);
        }
        assert_eq!(output.stdout, expected);
    }
}
