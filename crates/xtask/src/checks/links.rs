//! Links in the documents: what a relative link names must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The dangling links of one document, each in a sentence.
pub fn dangling(root: &Path, document: &str, text: &str) -> Vec<String> {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for target in targets(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').map_or((target.as_str(), None), |(f, a)| (f, Some(a)));
        let path = if file.is_empty() { root.join(document) } else { root.join(folder).join(file) };
        if !path.exists() {
            found.push(format!("{document} links to {target}, which does not exist"));
            continue;
        }
        let Some(anchor) = anchor else { continue };
        if path.extension().is_some_and(|ending| ending == "md") {
            let linked = fs::read_to_string(&path).unwrap_or_default();
            if !anchors(&linked).contains(anchor) {
                found.push(format!("{document} links to {target}, which has no such heading"));
            }
        }
    }
    found
}

/// What the links and pictures of a Markdown text point at. Code is left out.
fn targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            if !target.is_empty() {
                targets.push(target.trim_matches(['<', '>']).to_owned());
            }
        }
        // Pictures for two colour schemes are written in HTML.
        for attribute in ["src=\"", "srcset=\"", "href=\""] {
            for part in line.split(attribute).skip(1) {
                targets.extend(part.split('"').next().filter(|t| !t.is_empty()).map(str::to_owned));
            }
        }
    }
    targets
}

/// The names under which a text's headings are linked to.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')))
        .map(|heading| {
            let kept = heading.trim().to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use skald_testkit::Scratch;

    #[test]
    fn only_links_that_lead_nowhere_are_told() {
        let scratch = Scratch::new().unwrap();
        fs::create_dir(scratch.join("docs")).unwrap();
        fs::write(scratch.join("README.md"), "# Who may know whom\n## The relay's limits\n").unwrap();
        let text = "[a](../README.md) [b](../README.md#who-may-know-whom) [c](https://example.org/x)\n\
                    `[not](a-link.md)` [d](gone.md) [e](../README.md#nowhere) [f](../README.md#the-relays-limits)\n\
                    ```\n[not](either.md)\n```\n<img src=\"images/lost.png\">\n";
        let found = dangling(scratch.path(), "docs/a.md", text);
        let expected = ["gone.md", "../README.md#nowhere", "images/lost.png"];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for target in expected {
            assert!(found.iter().any(|told| told.contains(target)), "{target}: {found:?}");
        }
    }
}
