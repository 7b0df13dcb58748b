//! Who may know whom (ARCHITECTURE.md, "Who may know whom"), checked against the dependency graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{metadata, verdict};

/// Which of our own crates a crate may name in its normal dependencies. A crate that is not in the list may name none.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("skald-relay-common", &[]),
    ("skald-payloads", &[]),
    ("skald-core-api", &[]),
    ("skald-relay", &["skald-relay-common", "skald-relay-push"]),
    ("skald-relay-push", &["skald-relay-common"]),
    ("skald-e2e", &["skald-relay-common"]),
    ("skald-relay-client", &["skald-relay-common", "skald-e2e"]),
    ("skald-host", &["skald-core-api"]),
    ("skald-web", &["skald-core-api", "skald-host"]),
    (
        "plugin-mobile-connector",
        &["skald-core-api", "skald-payloads", "skald-relay-client", "skald-e2e", "skald-relay-common"],
    ),
    ("plugin-local-streams", &["skald-core-api", "skald-payloads"]),
    (
        "skald",
        &["skald-core-api", "skald-host", "skald-web", "plugin-mobile-connector", "plugin-local-streams"],
    ),
    ("skald-phone", &["skald-payloads", "skald-relay-client", "skald-e2e", "skald-relay-common"]),
    ("skald-testkit", &[]),
    ("skald-tests", &["skald-testkit", "skald-relay", "skald-relay-common", "skald-e2e", "skald-payloads"]),
    (
        "skald-examples",
        &["skald-core-api", "skald-host", "skald-relay-client", "skald-relay", "skald-payloads"],
    ),
    ("skald-bench", &["skald-testkit", "skald-relay-common", "skald-e2e", "skald-relay-client"]),
    ("skald-chaos", &["skald-testkit", "skald-relay-common", "skald-relay-client"]),
    ("xtask", &["skald-testkit"]),
];

/// What must not be reached, however many steps away. The relay carries no cipher and no key agreement: that it is
/// blind can be read off its dependencies. (hkdf is not in the list: the graph that cargo gives names it under sqlx's
/// driver for another database, which is not built.)
const NEVER: &[(&str, &[&str])] = &[
    (
        "skald-relay",
        &[
            "skald-e2e",
            "skald-payloads",
            "skald-relay-client",
            "skald-core-api",
            "skald-host",
            "skald-web",
            "aes-gcm",
            "x25519-dalek",
        ],
    ),
    ("skald-relay-client", &["skald-payloads", "skald-core-api", "skald-host", "skald-web"]),
    ("skald-host", &["plugin-mobile-connector", "skald-relay-client", "skald-e2e", "skald-payloads"]),
    ("skald-web", &["plugin-mobile-connector", "skald-relay-client", "skald-e2e", "skald-payloads"]),
    ("skald-relay-common", &["tokio", "sqlx", "axum", "hyper"]),
    ("skald-e2e", &["tokio", "sqlx", "axum", "hyper"]),
    ("skald-payloads", &["tokio", "sqlx", "axum", "hyper"]),
];

/// Crates that take the time and their random bytes as arguments.
const PURE: &[&str] = &["skald-relay-common", "skald-e2e", "skald-payloads"];

/// Crates that bring a clock or randomness, which a pure crate must not name. (A library may have them for uses of its
/// own, so what counts beyond this is the code, see [`IMPURE`].)
const IMPURE_CRATES: &[&str] = &["getrandom", "rand", "rand_core", "chrono", "time", "jiff"];

/// What a pure crate's code must not say outside its tests.
const IMPURE: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "OsRng",
    "SysRng",
    "getrandom",
    "new_v4",
    "SystemRandom",
    "thread_rng",
];

/// The normal dependencies of each crate.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks the workspace at `root`.
pub fn check(root: &Path) -> Result<()> {
    let metadata = metadata(root)?;
    let members = members(&metadata).context("cargo metadata names no members")?;
    let graph = graph(&metadata).context("cargo metadata has no dependency graph")?;
    let mut found = broken_rules(&graph, &members.iter().map(|(name, _)| name.clone()).collect());
    for (name, folder) in &members {
        if PURE.contains(&name.as_str()) {
            found.extend(impure_code(name, &Path::new(folder).join("src"))?);
        }
    }
    verdict(found)
}

fn broken_rules(graph: &Graph, members: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let none = BTreeSet::new();
    for member in members {
        let allowed =
            MAY_KNOW.iter().find(|(name, _)| name == member).map_or(&[][..], |(_, allowed)| allowed);
        for known in graph.get(member).unwrap_or(&none) {
            if members.contains(known) && !allowed.contains(&known.as_str()) {
                found.push(format!(
                    "{member} must not know {known}: see \"Who may know whom\" in ARCHITECTURE.md"
                ));
            }
            if PURE.contains(&member.as_str()) && IMPURE_CRATES.contains(&known.as_str()) {
                found.push(format!(
                    "{member} must not depend on {known}: it takes time and randomness as arguments"
                ));
            }
        }
    }
    for (from, forbidden) in NEVER {
        for to in *forbidden {
            if let Some(path) = path(graph, from, to) {
                found.push(format!("{from} must never reach {to}, but does: {}", path.join(" → ")));
            }
        }
    }
    found
}

/// The shortest way from one crate to another.
fn path(graph: &Graph, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let next = way.last().and_then(|last| graph.get(last)).into_iter().flatten();
            for step in next {
                let way = [way.as_slice(), std::slice::from_ref(step)].concat();
                if step == to {
                    return Some(way);
                }
                if seen.insert(step.clone()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

fn members(metadata: &serde_json::Value) -> Option<Vec<(String, String)>> {
    let ids: BTreeSet<_> =
        metadata["workspace_members"].as_array()?.iter().filter_map(|id| id.as_str()).collect();
    let ours = metadata["packages"]
        .as_array()?
        .iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| ids.contains(id)));
    let folder =
        |manifest: &str| Path::new(manifest).parent().map(|folder| folder.to_string_lossy().into_owned());
    ours.map(|package| {
        Some((package["name"].as_str()?.to_owned(), folder(package["manifest_path"].as_str()?)?))
    })
    .collect()
}

fn graph(metadata: &serde_json::Value) -> Option<Graph> {
    let packages = metadata["packages"].as_array()?;
    let names: BTreeMap<_, _> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let mut graph = Graph::new();
    for node in metadata["resolve"]["nodes"].as_array()? {
        let known = graph.entry((*names.get(node["id"].as_str()?)?).to_owned()).or_default();
        for dependency in node["deps"].as_array()? {
            // Build and test dependencies are not in what is shipped. A null kind is a normal dependency.
            let normal = dependency["dep_kinds"].as_array()?.iter().any(|kind| kind["kind"].is_null());
            if let (true, Some(name)) = (normal, dependency["pkg"].as_str().and_then(|id| names.get(id))) {
                known.insert((*name).to_owned());
            }
        }
    }
    Some(graph)
}

fn impure_code(member: &str, source: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![source.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("{} cannot be listed", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !super::tidy::is_test_file(&path)
            {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("{} cannot be read", path.display()))?;
                for word in impure_words(&text) {
                    found.push(format!(
                        "{member}: {} says {word}; it takes that as an argument",
                        path.display()
                    ));
                }
            }
        }
    }
    Ok(found)
}

fn impure_words(text: &str) -> Vec<&'static str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    IMPURE.iter().copied().filter(|word| code.iter().any(|line| line.contains(word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph_of(edges: &[(&str, &str)]) -> (Graph, BTreeSet<String>) {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        let members = MAY_KNOW.iter().map(|(name, _)| (*name).to_owned()).collect();
        (graph, members)
    }

    #[test]
    fn what_is_allowed_is_quiet() {
        let (graph, members) = graph_of(&[
            ("skald-relay", "skald-relay-common"),
            ("skald-e2e", "skald-relay-common"),
            ("skald-relay-client", "skald-e2e"),
            ("skald-relay-client", "tokio"),
            ("skald-relay-common", "prost"),
        ]);
        assert_eq!(broken_rules(&graph, &members), Vec::<String>::new());
    }

    #[test]
    fn a_relay_that_reaches_a_cipher_by_a_detour_is_found() {
        let (graph, members) =
            graph_of(&[("skald-relay", "skald-relay-common"), ("skald-relay-common", "x"), ("x", "aes-gcm")]);
        let found = broken_rules(&graph, &members);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with("skald-relay → skald-relay-common → x → aes-gcm"), "{found:?}");
    }

    #[test]
    fn a_forbidden_neighbour_and_a_clock_in_a_pure_crate_are_found() {
        let (graph, members) = graph_of(&[
            ("skald-web", "plugin-mobile-connector"),
            ("skald-payloads", "rand"),
            ("skald-host", "skald-testkit"),
        ]);
        let found = broken_rules(&graph, &members).join("\n");
        for expected in [
            "skald-web must not know plugin",
            "skald-payloads must not depend on rand",
            "skald-host must not",
        ] {
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn only_the_code_counts_not_its_tests_or_comments() {
        let text =
            "// Instant::now would not do here.\nfn f() {}\n#[cfg(test)]\nmod tests { Instant::now(); }";
        assert_eq!(impure_words(text), Vec::<&str>::new());
        assert_eq!(impure_words("fn f() { let id = Uuid::new_v4(); }"), ["new_v4"]);
    }
}
