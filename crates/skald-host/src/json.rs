//! JSON bodies into types, with errors that name the field.

use serde::de::DeserializeOwned;

use crate::Error;

/// Reads a JSON body. Errors name the field and what was expected there; they never repeat a value.
pub fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::field("", "Send a JSON object as the body."));
    }
    // A list in the fields' order would pass for an object with serde, but nobody means that.
    let start = body.iter().find(|b| !b.is_ascii_whitespace());
    if start.is_some_and(|b| matches!(b, b'[' | b'"' | b'0'..=b'9' | b'-' | b't' | b'f' | b'n')) {
        return Err(Error::field("", "The body must be a JSON object."));
    }
    let mut de = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut de).map_err(|e| {
        let path = match e.path().to_string() {
            p if p == "." => String::new(),
            p => p,
        };
        describe(path, e.inner(), body)
    })?;
    de.end().map_err(|_| Error::field("", "Send one JSON object and nothing after it."))?;
    Ok(value)
}

/// How long a value is as JSON, without a copy of it in memory.
pub(crate) fn size(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
            self.0 += buf.len();
            Ok(buf.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written is too long for every bound.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

fn describe(path: String, e: &serde_json::Error, body: &[u8]) -> Error {
    if !matches!(e.classify(), serde_json::error::Category::Data) {
        let text = e.to_string();
        if text.starts_with("recursion limit") {
            return Error::field("", "The body is nested too deeply: 127 levels are the most.");
        }
        // Where a word of a list is expected, serde calls everything else a fault of syntax.
        let sound = serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
        if sound && !path.is_empty() && text.starts_with("expected value") {
            return Error::field(path.clone(), format!("`{path}` must be a text."));
        }
        let place = format!("line {}, column {}", e.line(), e.column());
        return Error::field("", format!("The body is not JSON: look at {place}."));
    }
    let text = e.to_string();
    let quoted = |s: &str| s.split('`').nth(1).map(str::to_owned);
    if text.starts_with("missing field") {
        let field = join(&path, &quoted(&text).unwrap_or_default());
        return Error::field(field.clone(), format!("`{field}` is missing."));
    }
    if text.starts_with("unknown field") {
        let name = quoted(&text).unwrap_or_default();
        // The path ends in the unknown key already.
        let field = if path.rsplit('.').next() == Some(name.as_str()) { path } else { join(&path, &name) };
        return Error::field(field.clone(), format!("`{field}` is not known here: leave it out."));
    }
    // serde repeats short values ("invalid type: string \"…\", expected u64"); what was expected is all that is told.
    let expected = text
        .rsplit_once("expected ")
        .map(|(_, rest)| rest.split(" at line").next().unwrap_or(rest))
        .map_or_else(|| "another value".to_owned(), plain_type);
    match path.as_str() {
        "" => Error::field("", format!("The body must be {expected}.")),
        p => Error::field(p, format!("`{p}` must be {expected}.")),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn plain_type(expected: &str) -> String {
    match expected {
        "a string" | "a borrowed string" => "a text".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        "u64" | "u32" | "i64" | "u16" | "i32" => "a whole number that is not negative".into(),
        e if e.starts_with("struct ") || e.starts_with("a map") || e.starts_with("internally") => {
            "a JSON object".into()
        }
        e => e.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[allow(dead_code)]
        name: String,
        #[allow(dead_code)]
        secs: Option<u64>,
        #[allow(dead_code)]
        word: Option<Word>,
        #[allow(dead_code)]
        tree: Option<serde_json::Value>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Yes,
    }

    fn told(body: &str) -> (String, String) {
        match from_json::<Body>(body.as_bytes()) {
            Err(Error::Invalid(mut e)) => {
                let e = e.remove(0);
                (e.field, e.message)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_json_is_never_said_to_be_none() {
        for value in ["1", "true", "[]", "-0.5"] {
            let (field, message) = told(&format!(r#"{{"name":"a","word":{value}}}"#));
            assert_eq!((field.as_str(), message.as_str()), ("word", "`word` must be a text."), "{value}");
        }
        let deep = format!(r#"{{"name":"a","tree":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
        assert!(told(&deep).1.contains("nested too deeply"));
        for broken in [r#"{"name":"a","word":1"#, r#"{"name":"a","word":1}}"#, r#"{"name":"a","word":nul}"#] {
            assert!(!told(broken).1.contains("must be a text"), "{broken}");
        }
        let _ = Word::Yes;
    }

    #[test]
    fn errors_name_the_field_and_never_repeat_the_value() {
        assert_eq!(told("{}"), ("name".into(), "`name` is missing.".into()));
        assert_eq!(told(r#"{"name":"a","nme":1}"#).0, "nme");
        let (field, message) = told(r#"{"name":"a","secs":"hunter2"}"#);
        assert_eq!((field.as_str(), message.contains("hunter2")), ("secs", false));
        assert_eq!(message, "`secs` must be a whole number that is not negative.");
        assert!(told("{").1.contains("not JSON"));
        assert!(told("").1.contains("JSON object"));
        assert!(told(r#"{"name":"a"} x"#).1.contains("nothing after"));
        assert_eq!(told("[1,2,3]").1, "The body must be a JSON object.");
    }
}
