//! One item, whole.

use std::fmt::Write as _;

use serde_json::Value;
use skald_payloads::{BlockShape, Blocks, ValueType};

use super::{hint, stretch};
use crate::form::Form;
use crate::mask::{DOTS, Mask};
use crate::snapshot::{Item, Kind};
use crate::text::{Style, indented, one_line};

const IN: &str = "  ";
const DEEP: &str = "    ";

/// Renders one item with its id and what to type next.
pub fn one(item: &Item, now: i64, style: Style) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} {}",
        style.paint("1;36", &capital(item.kind.word())),
        style.bold(&one_line(&item.id))
    );
    let _ = writeln!(out, "{IN}{}", style.dim(&about(item, now)));
    match item.kind {
        Kind::Approval => approval(&mut out, item, style),
        Kind::Clarification => clarification(&mut out, item, style),
        Kind::Elicitation => elicitation(&mut out, item, style),
    }
    if item.kind == Kind::Approval && item.contradicts_itself() {
        let warning =
            "Careful: this is not what the host says it sent. Do not approve it; look at the host's page.";
        let _ = writeln!(out, "{IN}{}", style.paint("1;31", warning));
    }
    let _ = writeln!(out, "{IN}{}", style.dim(&hint(item.kind, &short(&item.id))));
    out
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Enough of an id to type; the whole id where it is not of the usual form.
fn short(id: &str) -> String {
    let usual = id.len() == 36 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if usual { id[..8].to_owned() } else { one_line(id) }
}

/// Who asks, since when, until when.
fn about(item: &Item, now: i64) -> String {
    let names: &[&str] = match item.kind {
        Kind::Approval => &["tool_name", "agent_label", "session"],
        Kind::Clarification => &["agent_label"],
        Kind::Elicitation => &["server_name"],
    };
    let mut parts: Vec<String> =
        names.iter().filter_map(|n| item.text(n)).filter(|t| !t.is_empty()).map(one_line).collect();
    if let Some(created) = item.time("created_at") {
        parts.push(format!("asked {} ago", stretch(now.saturating_sub(created).max(0))));
    }
    if let Some(expires) = item.time("expires_at") {
        let left = expires.saturating_sub(now);
        parts.push(if left > 0 { format!("lapses in {}", stretch(left)) } else { "lapsed".into() });
    }
    parts.join(" · ")
}

const KNOWN_APPROVAL: [&str; 11] = [
    "request_id",
    "tool_name",
    "agent_label",
    "session",
    "summary",
    "created_at",
    "detail",
    "arguments",
    "blocks",
    "expires_at",
    "digest",
];

fn approval(out: &mut String, item: &Item, style: Style) {
    let mask = Mask::of_blocks(item.raw.get("blocks"));
    if let Some(summary) = item.text("summary") {
        out.push_str(&indented(&mask.text(summary), IN, |l| style.bold(l)));
    }
    if let Some(detail) = item.text("detail") {
        out.push_str(&indented(&mask.text(detail), IN, str::to_owned));
    }
    let mut shown = Vec::new();
    match item.raw.get("blocks") {
        None | Some(Value::Null) => {}
        Some(raw) => match Blocks::read(raw) {
            Some(blocks) => {
                for block in &blocks.blocks {
                    one_block(out, block, &mask, style);
                    shown.push(block.text());
                }
            }
            // Blocks of a later version are shown as they are rather than not at all.
            None => labelled(out, "blocks", &mask.value(raw), style),
        },
    }
    match item.raw.get("arguments") {
        None | Some(Value::Null) => {}
        Some(Value::Object(arguments)) => {
            let _ = writeln!(out, "{IN}{}", style.dim("The call's arguments:"));
            for (key, value) in arguments {
                let repeats =
                    value.as_str().is_some_and(|v| v.contains('\n') && shown.iter().any(|s| s == v));
                if repeats {
                    let _ =
                        writeln!(out, "{DEEP}{}: {}", one_line(key), style.dim("(exactly as shown above)"));
                } else {
                    nested(out, key, &mask.value(value), style);
                }
            }
        }
        Some(other) => labelled(out, "The call's arguments", &mask.value(other), style),
    }
    // Whatever else is signed with the item is shown with it.
    if let Value::Object(members) = &item.raw {
        for (name, value) in members.iter().filter(|(n, _)| !KNOWN_APPROVAL.contains(&n.as_str())) {
            labelled(out, name, &mask.value(value), style);
        }
    }
}

fn one_block(out: &mut String, block: &skald_payloads::Block, mask: &Mask, style: Style) {
    let label = one_line(&mask.text(&block.label));
    if block.value_type == ValueType::Secret {
        let _ = writeln!(out, "{IN}{label}: {DOTS}");
        return;
    }
    let text = match &block.value {
        Value::String(text) => mask.text(text),
        Value::Null => String::new(),
        other => pretty(&mask.value(other)),
    };
    let roomy = block.shape == BlockShape::Block
        || text.contains('\n')
        || matches!(block.value_type, ValueType::Command | ValueType::Code | ValueType::Diff);
    let paint = |line: &str| match block.value_type {
        ValueType::Diff => diff_line(line, style),
        ValueType::Command | ValueType::Code => style.paint("33", line),
        ValueType::Url | ValueType::Email => style.paint("4", line),
        _ => line.to_owned(),
    };
    if roomy {
        if !label.is_empty() {
            let _ = writeln!(out, "{IN}{label}:");
        }
        out.push_str(&indented(&text, DEEP, paint));
    } else {
        let sep = if label.is_empty() { "" } else { ": " };
        let _ = writeln!(out, "{IN}{label}{sep}{}", paint(&one_line(&text)));
    }
}

fn diff_line(line: &str, style: Style) -> String {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => style.bold(line),
        [b'+', ..] => style.paint("32", line),
        [b'-', ..] => style.paint("31", line),
        [b'@', b'@', ..] => style.paint("36", line),
        _ => line.to_owned(),
    }
}

fn labelled(out: &mut String, label: &str, value: &Value, style: Style) {
    let _ = writeln!(out, "{IN}{}:", style.dim(&one_line(label)));
    out.push_str(&indented(&plain(value), DEEP, str::to_owned));
}

fn nested(out: &mut String, key: &str, value: &Value, style: Style) {
    let key = one_line(key);
    let text = plain(value);
    if text.contains('\n') {
        let _ = writeln!(out, "{DEEP}{key}:");
        out.push_str(&indented(&text, "      ", |l| style.paint("33", l)));
    } else {
        let _ = writeln!(out, "{DEEP}{key}: {}", one_line(&text));
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => pretty(other),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn clarification(out: &mut String, item: &Item, style: Style) {
    out.push_str(&indented(item.text("question").unwrap_or_default(), IN, |l| style.bold(l)));
    if let Some(context) = item.text("context") {
        out.push_str(&indented(context, IN, str::to_owned));
    }
    let suggested = item.raw.get("suggested_answers").and_then(Value::as_array);
    for answer in suggested.into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "{DEEP}· {}", one_line(answer));
    }
}

fn elicitation(out: &mut String, item: &Item, style: Style) {
    out.push_str(&indented(item.text("message").unwrap_or_default(), IN, |l| style.bold(l)));
    match Form::of(item) {
        Form::Confirmation => {
            let _ = writeln!(out, "{IN}Yes or no: --value yes, or --decline.");
        }
        Form::Url(url) => {
            let _ = writeln!(
                out,
                "{IN}Open this address, then --value yes: {}",
                style.paint("4", &one_line(&url))
            );
        }
        Form::One(field) => {
            let secret = if field.secret { " (a secret: it is not shown as you type)" } else { "" };
            let _ = writeln!(out, "{IN}Asks for {}{secret}", one_line(&field.describe()));
        }
        Form::Several(fields) => {
            let _ = writeln!(out, "{IN}Asks for a JSON object with:");
            for field in fields {
                let _ = writeln!(out, "{DEEP}· {}", one_line(&field.describe()));
            }
        }
    }
}
