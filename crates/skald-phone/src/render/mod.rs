//! How the Inbox looks in a terminal. Pure: the time and the style come in, text goes out.

mod item;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::mask::Mask;
use crate::snapshot::{Kind, Snapshot};
use crate::text::{Style, one_line};

/// What stands beside an item of ours in the outbox.
pub struct Pending<'a> {
    /// The item.
    pub request_id: &'a str,
    /// What was answered, for people; never a value.
    pub what: &'a str,
}

/// The whole Inbox.
pub fn inbox(inbox: &Snapshot, pending: &[Pending<'_>], now: i64, style: Style) -> String {
    let mut out = String::new();
    let waiting = inbox.badge.max(inbox.items.len() as u64);
    let head = match waiting {
        0 => "Nothing waits for you.".to_owned(),
        1 => "1 item waits for you.".to_owned(),
        n => format!("{n} items wait for you."),
    };
    let _ = writeln!(out, "{}", style.bold(&head));
    for one in &inbox.items {
        let _ = writeln!(out);
        out.push_str(&item::one(one, now, style));
        for answer in pending.iter().filter(|p| p.request_id == one.id) {
            let line = format!("  Your answer ({}) is kept and not confirmed yet.", one_line(answer.what));
            let _ = writeln!(out, "{}", style.paint("33", &line));
        }
    }
    let missing = waiting - inbox.items.len() as u64;
    if missing > 0 {
        let text = if missing == 1 { "1 more item is".into() } else { format!("{missing} more items are") };
        let _ =
            writeln!(out, "\n{text} too large to be sent here: see the host's page (`skald-phone proxy`).");
    }
    out
}

/// The whole Inbox for machines, secrets masked.
pub fn inbox_json(inbox: &Snapshot, pending: &[Pending<'_>]) -> Value {
    let mut out = inbox.to_value();
    if let Some(list) = out.get_mut("approvals").and_then(Value::as_array_mut) {
        for approval in list {
            *approval = Mask::approval(approval);
        }
    }
    out["pending_answers"] =
        pending.iter().map(|p| json!({"request_id": p.request_id, "answer": p.what})).collect();
    out
}

/// What to type next for an item.
pub fn hint(kind: Kind, short: &str) -> String {
    match kind {
        Kind::Approval => format!("skald-phone approve {short} · skald-phone reject {short}"),
        Kind::Clarification => format!("skald-phone answer {short} TEXT"),
        Kind::Elicitation => format!("skald-phone elicit {short}"),
    }
}

/// A stretch of time for people: the two largest units.
pub fn stretch(ms: i64) -> String {
    let secs = ms.unsigned_abs() / 1000;
    match secs {
        0..60 => format!("{secs} s"),
        60..3600 if secs.is_multiple_of(60) || secs >= 600 => format!("{} min", secs / 60),
        60..3600 => format!("{} min {} s", secs / 60, secs % 60),
        3600..86_400 => format!("{} h {} min", secs / 3600, secs % 3600 / 60),
        _ => format!("{} d {} h", secs / 86_400, secs % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_750_000_600_000;

    fn show(update: &Value) -> String {
        inbox(&Snapshot::of(update), &[], NOW, Style::PLAIN)
    }

    fn everything() -> Value {
        json!({"badge": 5,
        "approvals": [{
            "request_id": "0b9f5c1e-5a5e-4a35-9c52-6d1c1f2a7b10", "tool_name": "execute_cmd",
            "agent_label": "Claude Code", "summary": "Run a command: née ☂", "detail": "In two\nlines",
            "created_at": NOW - 120_000, "expires_at": NOW + 545_000,
            "arguments": {"command": "rm -rf build\necho done", "cwd": "/srv", "env": {"TOKEN": "s3cr3t-value"}, "dry": false},
            "blocks": {"v": 1, "summary": "Run", "blocks": [
                {"type": "key_value", "key": "cwd", "value": "/srv", "value_type": "path"},
                {"type": "block", "label": "Command", "value": "rm -rf build\necho done", "value_type": "command"},
                {"type": "block", "label": "Change", "value": "@@ -1 +1 @@\n-old\n+new", "value_type": "diff"},
                {"type": "field", "label": "Token", "value": "s3cr3t-value", "value_type": "secret"},
                {"type": "sparkline", "points": [1, 2]}]},
            "novel": {"x": 1}
        }],
        "clarifications": [{
            "request_id": "c-1", "question": "Which branch?", "agent_label": "Skald", "created_at": NOW - 5_000,
            "context": "There are two.", "suggested_answers": ["main", "next"]
        }],
        "elicitations": [
            {"request_id": "e-1", "server_name": "db", "message": "Password?", "field_name": "password",
             "sensitive": true, "is_confirmation": false, "created_at": NOW - 1_000, "expires_at": NOW - 1},
            {"request_id": "e-2", "server_name": "forms", "message": "Two things", "field_name": null,
             "sensitive": false, "is_confirmation": false, "created_at": NOW,
             "schema": {"type": "object", "required": ["user"], "properties": {
                "user": {"type": "string", "title": "User name"},
                "level": {"type": "integer", "enum": [1, 2], "description": "How much"}}}}
        ]})
    }

    #[test]
    fn the_three_kinds_are_shown_whole() {
        assert_eq!(show(&everything()), include_str!("../../tests/snapshots/inbox.txt"));
    }

    #[test]
    fn fault_25_a_long_command_is_shown_to_its_end() {
        let long = format!("echo {} && rm -rf /important", "x".repeat(20_000));
        let text = show(&json!({"approvals": [{"request_id": "a", "tool_name": "t", "summary": "s",
            "arguments": {"command": long}}]}));
        assert!(text.contains(&long));
    }

    #[test]
    fn fault_22_every_field_of_a_form_is_shown_and_secrets_are_masked() {
        let text = show(&everything());
        assert!(text.contains("User name") && text.contains("level"));
        assert!(!text.contains("s3cr3t-value"));
        assert!(!inbox_json(&Snapshot::of(&everything()), &[]).to_string().contains("s3cr3t-value"));
    }

    #[test]
    fn hostile_text_cannot_act_on_the_terminal() {
        let text = show(
            &json!({"approvals": [{"request_id": "a\u{1b}[2J", "tool_name": "t\u{202e}", "summary": "s\r\u{1b}]0;x\u{7}",
            "detail": "\u{1b}[1A", "agent_label": "\u{9b}2K", "arguments": {"k\u{1b}": "v\u{8}\u{8}"},
            "blocks": {"v": 1, "blocks": [{"type": "block", "label": "\u{1b}c", "value": "\u{1b}[8m", "value_type": "code"}]}}],
            "clarifications": [{"request_id": "c", "question": "\u{1b}[31m", "suggested_answers": ["\u{7}"]}],
            "elicitations": [{"request_id": "e", "message": "\u{1b}", "server_name": "\u{1b}", "field_name": "\u{1b}",
                "schema": {"properties": {"\u{1b}": {"title": "\u{1b}", "description": "\u{1b}"}}}}]}),
        );
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert!(!text.contains('\u{202e}'));
    }

    #[test]
    fn an_empty_inbox_and_items_that_were_too_large_are_said() {
        assert_eq!(show(&json!({"badge": 0})), "Nothing waits for you.\n");
        assert!(show(&json!({"badge": 2, "approvals": []})).contains("2 more items are too large"));
    }

    #[test]
    fn an_answer_on_its_way_stands_beside_its_item() {
        let text = inbox(
            &Snapshot::of(&everything()),
            &[Pending { request_id: "c-1", what: "answered" }],
            NOW,
            Style::PLAIN,
        );
        assert!(text.contains("Your answer (answered) is kept and not confirmed yet."));
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
        let snapshot = Snapshot::of(&everything());
        assert!(!inbox(&snapshot, &[], NOW, Style::PLAIN).contains('\x1b'));
        let coloured = inbox(&snapshot, &[], NOW, Style { colour: true });
        assert!(coloured.contains("\x1b[32m+new") && coloured.contains("\x1b[31m-old"));
    }

    #[test]
    fn stretches_read_well() {
        let shown = [900, 61_000, 120_000, 545_000, 1_200_000, 7_500_000, 90_000_000].map(stretch);
        assert_eq!(shown, ["0 s", "1 min 1 s", "2 min", "9 min 5 s", "20 min", "2 h 5 min", "1 d 1 h"]);
    }
}
