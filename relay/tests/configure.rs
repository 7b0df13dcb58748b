//! `docs/operations/configure.md` says what the settings' own source says: names, types, defaults and meaning.
//!
//! `UPDATE_DOCS=1 cargo test -p skald-relay --test configure` writes the page anew.

use std::fmt::Write as _;

use skald_relay::Settings;

/// A section of the file, where its fields are declared, and how its environment variables begin where the text does
/// not name them one by one.
struct Section {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    structure: &'static str,
    prefix: Option<&'static str>,
}

const PUSH: &str = include_str!("../push/src/settings.rs");
const LIMITS: &str = include_str!("../../crates/skald-relay-common/src/limits.rs");

const SECTIONS: &[Section] = &[
    Section {
        name: "",
        about: "At the top of the file.",
        source: include_str!("../src/settings.rs"),
        structure: "Settings",
        prefix: None,
    },
    Section {
        name: "acme",
        about: "Certificates that the relay gets by itself; see [TLS](tls.md).",
        source: include_str!("../src/settings/acme.rs"),
        structure: "Acme",
        prefix: None,
    },
    Section {
        name: "limits",
        about: "Limits of the control socket, its queues and namespaces.",
        source: LIMITS,
        structure: "Limits",
        prefix: Some("RELAY_LIMIT_"),
    },
    Section {
        name: "pipe",
        about: "Limits of pipes.",
        source: LIMITS,
        structure: "PipeLimits",
        prefix: Some("RELAY_PIPE_"),
    },
    Section {
        name: "push",
        about: "Waking devices that are away. A provider is used if its section below is there.",
        source: PUSH,
        structure: "PushSettings",
        prefix: Some("RELAY_PUSH_"),
    },
    Section {
        name: "push.apns",
        about: "Apple's service.",
        source: PUSH,
        structure: "ApnsSettings",
        prefix: Some("RELAY_PUSH_APNS_"),
    },
    Section {
        name: "push.fcm",
        about: "Google's service.",
        source: PUSH,
        structure: "FcmSettings",
        prefix: Some("RELAY_PUSH_FCM_"),
    },
    Section {
        name: "push.webpush",
        about: "Browsers' services, and UnifiedPush.",
        source: include_str!("../push/src/webpush/settings.rs"),
        structure: "WebPushSettings",
        prefix: Some("RELAY_PUSH_WEBPUSH_"),
    },
    Section {
        name: "push.ntfy",
        about: "Plain ntfy.",
        source: include_str!("../push/src/ntfy.rs"),
        structure: "NtfySettings",
        prefix: Some("RELAY_PUSH_NTFY_"),
    },
    Section {
        name: "push.gateway",
        about: "A gateway that has Apple's and Google's keys, for whichever of the two has no section here.",
        source: include_str!("../push/src/gateway/client.rs"),
        structure: "GatewaySettings",
        prefix: Some("RELAY_PUSH_GATEWAY_"),
    },
];

/// A setting as its source declares it.
#[derive(Debug)]
struct Field {
    name: String,
    kind: String,
    text: String,
}

/// The documented fields of one structure.
fn fields(source: &str, structure: &str) -> Vec<Field> {
    let start = format!("pub struct {structure} {{");
    let mut lines = source.lines().skip_while(|line| *line != start).skip(1);
    let (mut found, mut text) = (Vec::new(), String::new());
    for line in lines.by_ref().take_while(|line| *line != "}") {
        let line = line.trim();
        if let Some(more) = line.strip_prefix("///") {
            text = format!("{text}{more}").trim().to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("pub ").and_then(|field| field.split_once(": "))
        {
            let kind = kind.trim_end_matches(',').to_owned();
            found.push(Field { name: name.to_owned(), kind, text: std::mem::take(&mut text) });
        }
    }
    assert!(!found.is_empty(), "{structure} has moved");
    found
}

/// The doc comment without its last sentence, and the variable that this one names.
fn environment(field: &Field, prefix: Option<&str>) -> (String, String) {
    match (field.text.split_once("Environment: "), prefix) {
        (Some((text, variable)), _) => (text.trim().to_owned(), variable.trim_end_matches('.').to_owned()),
        // No text could hold a table.
        (None, Some(_)) if field.kind.starts_with("HashMap<") => (field.text.clone(), "none".to_owned()),
        (None, Some(prefix)) => (field.text.clone(), format!("`{prefix}{}`", field.name.to_uppercase())),
        (None, None) => (field.text.clone(), "none".to_owned()),
    }
}

fn page() -> String {
    let defaults = toml::Table::try_from(Settings::default()).unwrap();
    let mut tables = String::new();
    let mut example = String::new();
    for section in SECTIONS {
        // A provider's section is not there by default; its fields are then required, or their type says what they are.
        let values = match section.name {
            "" => Some(&defaults),
            name => defaults.get(name).map(|table| table.as_table().unwrap()),
        };
        let heading =
            if section.name.is_empty() { "Top level".to_owned() } else { format!("`[{}]`", section.name) };
        write!(tables, "## {heading}\n\n{}\n\n", section.about).unwrap();
        tables.push_str("| setting | default | environment variable | |\n|---|---|---|---|\n");
        if !section.name.is_empty() {
            let mark = if values.is_some() { "" } else { "# " };
            write!(example, "\n{mark}[{}]\n", section.name).unwrap();
        }
        for field in fields(section.source, section.structure) {
            let plain =
                ["PathBuf", "SocketAddr", "String", "PageUrl"].iter().any(|kind| field.kind.contains(kind));
            let default = match values.map(|values| values.get(&field.name)) {
                Some(Some(toml::Value::Table(_))) => continue,
                Some(Some(value)) => value.to_string(),
                // Sections of their own.
                Some(None) if !plain => continue,
                None if field.kind.starts_with("Vec<") => "[]".to_owned(),
                None if field.kind.starts_with("HashMap<") => "{}".to_owned(),
                None if field.kind == "bool" => "false".to_owned(),
                None if !field.kind.starts_with("Option<") => "required".to_owned(),
                _ => "none".to_owned(),
            };
            let (text, variable) = environment(&field, section.prefix);
            let word = ["required", "none"].contains(&default.as_str());
            let shown = if word { default.clone() } else { format!("`{default}`") };
            writeln!(tables, "| `{}` | {shown} | {variable} | {text} |", field.name).unwrap();
            let value = if word { "…" } else { &default };
            writeln!(example, "# {text}\n# {} = {value}", field.name).unwrap();
        }
        tables.push('\n');
    }
    format!(
        "# Configure\n\n\
         <!-- Made from the settings' source by relay/tests/configure.rs. Change it there. -->\n\n\
         Settings come from a TOML file (`--config`), then from the environment, then from flags; what comes later \
         wins. A name that is not known, and a value that cannot be read, stop the start with their name. \
         `skald-relay check --config relay.toml` looks at everything without starting.\n\n\
         Every number of seconds, bytes or messages must be at least 1, except where 0 is said to mean something. \
         See also the other [operations pages](README.md).\n\n\
         {tables}## The whole file, with its defaults\n\n```toml\n{example}```\n"
    )
}

#[test]
fn the_page_about_settings_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations/configure.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written == page, "docs/operations/configure.md is out of date: run this test with UPDATE_DOCS=1");
}

#[test]
fn what_the_page_shows_as_a_whole_file_is_one() {
    let page = page();
    let block = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    // With the defaults no longer commented out; text and what has no default stay comments.
    let lines = block.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting) if setting.contains(" = ") && !setting.ends_with('…') && !setting.ends_with('.') => {
            setting
        }
        _ => line,
    });
    // What belongs to a provider stays a comment, as its section is.
    let lines = lines.scan(true, |ours, line| {
        *ours = line.starts_with('[') || *ours && !line.starts_with("# [");
        Some(if *ours { line } else { "" })
    });
    let settings: Settings = toml::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(settings, Settings::default());
}
