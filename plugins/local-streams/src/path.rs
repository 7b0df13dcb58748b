//! Paths as devices write them: `FOLDER/PATH`, checked once, here.

/// What partial uploads are called, in the folder of the file they become. Such names are nobody's to list or fetch.
pub(crate) const PARTIAL: &str = ".skald-upload-";

const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;
const MAX_DEPTH: usize = 64;

/// A path that can be one: no part of it leads upwards or elsewhere by its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WirePath {
    /// The offered folder's name.
    pub folder: String,
    /// What follows, from the folder on. Empty: the folder itself.
    pub parts: Vec<String>,
}

impl WirePath {
    /// Reads a path. What is odd is refused and never put right: two ends that repair differently disagree about what
    /// was allowed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_PATH {
            return None;
        }
        let mut names = text.split('/').map(|name| is_name(name).then(|| name.to_owned()));
        let folder = names.next()??;
        let parts = names.collect::<Option<Vec<_>>>()?;
        (parts.len() <= MAX_DEPTH).then_some(Self { folder, parts })
    }
}

/// Whether a name can be that of one file or folder.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && !matches!(name, "." | "..")
        && !name.contains(['/', '\0'])
        && !is_partial(name.as_bytes())
}

/// Whether a name is that of a partial upload, on file systems that ignore case as well.
pub(crate) fn is_partial(name: &[u8]) -> bool {
    name.get(..PARTIAL.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARTIAL.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_plain_paths_are_read() {
        let read = WirePath::parse("photos/2024/a b ü.jpg").unwrap();
        assert_eq!((read.folder.as_str(), read.parts.len()), ("photos", 2));
        assert!(WirePath::parse("photos").unwrap().parts.is_empty());
        assert!(WirePath::parse("photos/...").is_some());
        let long = format!("photos/{}", "x".repeat(256));
        let deep = format!("photos{}", "/d".repeat(65));
        let huge = format!("photos{}", "/ddddddd".repeat(600));
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "photos/",
            "photos//a",
            "photos/./a",
            "photos/../a",
            "..",
            "../a",
            ".",
            "photos/a/..",
            "photos/a\0b",
            "photos/.skald-upload-0",
            "photos/.SKALD-Upload-0/a",
            &long,
            &deep,
            &huge,
        ] {
            assert_eq!(WirePath::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_part_of_a_path_that_is_read_can_lead_elsewhere(text in "[a./\\\\\0~ü]{0,40}") {
            if let Some(path) = WirePath::parse(&text) {
                let mut names = vec![path.folder];
                names.extend(path.parts);
                prop_assert_eq!(names.join("/"), text);
                for name in names {
                    prop_assert!(!name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']));
                }
            }
        }
    }
}
