//! What sources send, checked and brought into the shape people are shown.

use serde::Serialize;
use sha2::{Digest, Sha256};
use skald_core_api::{Actor, Approval, Clarification, Elicitation, RequestId};
use uuid::Uuid;

use super::form;
use super::types::{ItemKind, NewApproval, NewClarification, NewElicitation, limits};
use crate::{Error, FieldError, json};

/// An item that waits for its number and its times.
pub(super) struct Built {
    pub item: Item,
    pub expires_in: Option<u64>,
    pub idempotency_key: Option<String>,
    /// SHA-256 of what was asked, to tell the same question from another under the same key.
    pub asked: [u8; 32],
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Item {
    Approval(Approval),
    Clarification(Clarification),
    Elicitation(Elicitation),
}

impl Item {
    pub(super) fn kind(&self) -> ItemKind {
        match self {
            Self::Approval(_) => ItemKind::Approval,
            Self::Clarification(_) => ItemKind::Clarification,
            Self::Elicitation(_) => ItemKind::Elicitation,
        }
    }

    pub(super) fn request_id(&self) -> RequestId {
        match self {
            Self::Approval(a) => a.request_id,
            Self::Clarification(c) => c.request_id,
            Self::Elicitation(e) => e.request_id,
        }
    }

    pub(super) fn stamp(&mut self, now: i64, expires: i64) {
        let (created_at, expires_at) = match self {
            Self::Approval(a) => (&mut a.created_at, &mut a.expires_at),
            Self::Clarification(c) => (&mut c.created_at, &mut c.expires_at),
            Self::Elicitation(e) => (&mut e.created_at, &mut e.expires_at),
        };
        *created_at = now;
        *expires_at = Some(expires);
    }
}

/// Collects what does not hold.
#[derive(Default)]
pub(super) struct Check(pub Vec<FieldError>);

impl Check {
    pub(super) fn wrong(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(FieldError::new(field, message));
    }

    /// A name: one line that shows as it is. Controls and direction marks could make it look like another.
    fn name(&mut self, field: &str, value: &str) {
        let hidden =
            |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if value.trim().is_empty() || value.chars().count() > limits::NAME || value.chars().any(hidden) {
            self.wrong(field, format!("`{field}` must be one line of 1 to {} characters.", limits::NAME));
        }
    }

    fn optional_name(&mut self, field: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.name(field, value);
        }
    }

    fn text(&mut self, field: &str, value: &str, max: usize) {
        if value.trim().is_empty() {
            self.wrong(field, format!("`{field}` must not be empty."));
        } else if value.chars().count() > max {
            self.wrong(field, format!("`{field}` must not be longer than {max} characters."));
        }
    }

    fn at_most(&mut self, field: &str, value: Option<&str>, max: usize) {
        if value.is_some_and(|v| v.chars().count() > max) {
            self.wrong(field, format!("`{field}` must not be longer than {max} characters."));
        }
    }

    fn common(&mut self, expires_in: Option<u64>, key: Option<&str>) {
        if expires_in.is_some_and(|s| !(1..=limits::EXPIRES_IN).contains(&s)) {
            let text = format!("`expires_in` must be from 1 to {} seconds.", limits::EXPIRES_IN);
            self.wrong("expires_in", text);
        }
        self.optional_name("idempotency_key", key);
    }

    fn done(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Invalid(self.0)) }
    }
}

fn bounded(asked: &impl Serialize) -> Result<[u8; 32], Error> {
    if json::size(asked) > limits::ITEM_BYTES {
        let text = format!("The whole must not be longer than {} KiB.", limits::ITEM_BYTES / 1024);
        return Err(Error::field("", text));
    }
    let bytes = serde_json::to_vec(asked).map_err(|_| Error::field("", "The body cannot be read."))?;
    Ok(Sha256::digest(bytes).into())
}

fn label(given: Option<String>, source: &Actor) -> String {
    given.map(|l| l.trim().to_owned()).unwrap_or_else(|| match source {
        Actor::Token { name } | Actor::Device { name, .. } | Actor::Rule { name } => name.clone(),
        Actor::Owner => "You".into(),
        Actor::Timeout => "Skald".into(),
    })
}

fn fresh() -> RequestId {
    RequestId(Uuid::new_v4())
}

pub(super) fn approval(source: &Actor, new: NewApproval) -> Result<Built, Error> {
    let asked = bounded(&new)?;
    let mut check = Check::default();
    check.name("tool_name", &new.tool_name);
    check.text("summary", &new.summary, limits::LONG_TEXT);
    check.at_most("detail", new.detail.as_deref(), limits::LONG_TEXT);
    check.optional_name("agent_label", new.agent_label.as_deref());
    check.optional_name("session", new.session.as_deref());
    if let Some(blocks) = &new.blocks {
        check_blocks(&mut check, blocks);
    }
    check.common(new.expires_in, new.idempotency_key.as_deref());
    check.done()?;
    let (summary, detail) = one_line(&new.summary, new.detail);
    let item = Approval {
        request_id: fresh(),
        tool_name: new.tool_name,
        agent_label: label(new.agent_label, source),
        summary,
        created_at: 0,
        detail,
        arguments: new.arguments,
        blocks: new.blocks,
        session: new.session,
        expires_at: None,
    };
    let item = Item::Approval(item);
    Ok(Built { item, expires_in: new.expires_in, idempotency_key: new.idempotency_key, asked })
}

pub(super) fn clarification(source: &Actor, new: NewClarification) -> Result<Built, Error> {
    let asked = bounded(&new)?;
    let suggested = new.suggested_answers.unwrap_or_default();
    let mut check = Check::default();
    check.text("question", &new.question, limits::TEXT);
    check.at_most("context", new.context.as_deref(), limits::LONG_TEXT);
    check.optional_name("agent_label", new.agent_label.as_deref());
    if suggested.len() > limits::SUGGESTIONS {
        let text = format!("`suggested_answers` must not have more than {} entries.", limits::SUGGESTIONS);
        check.wrong("suggested_answers", text);
    }
    for (i, answer) in suggested.iter().enumerate().take(limits::SUGGESTIONS) {
        check.text(&format!("suggested_answers.{i}"), answer, limits::TEXT);
    }
    check.common(new.expires_in, new.idempotency_key.as_deref());
    check.done()?;
    let item = Clarification {
        request_id: fresh(),
        question: new.question,
        agent_label: label(new.agent_label, source),
        created_at: 0,
        context: new.context,
        suggested_answers: suggested,
        expires_at: None,
    };
    let item = Item::Clarification(item);
    Ok(Built { item, expires_in: new.expires_in, idempotency_key: new.idempotency_key, asked })
}

pub(super) fn elicitation(new: NewElicitation) -> Result<Built, Error> {
    let asked = bounded(&new)?;
    let is_confirmation = new.is_confirmation.unwrap_or(false);
    let mut check = Check::default();
    check.name("server_name", &new.server_name);
    check.text("message", &new.message, limits::TEXT);
    check.optional_name("field_name", new.field_name.as_deref());
    let mut field_name = new.field_name;
    let mut secret = field_name.as_deref().is_some_and(form::looks_secret);
    match (&new.schema, is_confirmation) {
        (_, true) if field_name.is_some() => {
            check.wrong("field_name", "A confirmation asks for no field: leave `field_name` out.");
        }
        (Some(_), true) => check.wrong("schema", "A confirmation asks for no field: leave `schema` out."),
        (None, true) => {}
        (None, false) if field_name.is_none() => {
            check.wrong(
                "field_name",
                "Name what is asked for: `field_name`, a `schema`, or `is_confirmation`.",
            );
        }
        (None, false) => {}
        (Some(schema), false) => match form::check_schema(schema) {
            Err(message) => check.wrong("schema", message),
            Ok(form) => {
                secret |= form.secret;
                match (&field_name, form.fields.as_slice()) {
                    // A device that knows only `field_name` can then answer, too.
                    (None, [only]) => field_name = Some(only.clone()),
                    (Some(named), [only]) if named == only => {}
                    (None, _) => {}
                    (Some(_), [_]) => {
                        check.wrong("field_name", "`field_name` must be the field in `schema`, or left out.");
                    }
                    (Some(_), _) => {
                        check.wrong("field_name", "`schema` has several fields: leave `field_name` out.");
                    }
                }
            }
        },
    }
    check.common(new.expires_in, new.idempotency_key.as_deref());
    check.done()?;
    let item = Elicitation {
        request_id: fresh(),
        server_name: new.server_name,
        message: new.message,
        field_name,
        sensitive: new.sensitive.unwrap_or(secret && !is_confirmation),
        is_confirmation,
        created_at: 0,
        schema: new.schema,
        expires_at: None,
    };
    let item = Item::Elicitation(item);
    Ok(Built { item, expires_in: new.expires_in, idempotency_key: new.idempotency_key, asked })
}

/// A summary that does not fit one line stands whole in the detail, where nothing is cut.
fn one_line(summary: &str, detail: Option<String>) -> (String, Option<String>) {
    let whole = summary.trim();
    if whole.chars().count() <= limits::SUMMARY_LINE && !whole.chars().any(char::is_control) {
        return (whole.to_owned(), detail);
    }
    let first = whole.lines().next().unwrap_or_default();
    let visible = first.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line: String = visible.take(limits::SUMMARY_LINE - 1).collect();
    let detail = match detail {
        Some(d) if d.contains(whole) => d,
        Some(d) if !d.trim().is_empty() => format!("{whole}\n\n{d}"),
        _ => whole.to_owned(),
    };
    (format!("{}…", line.trim_end()), Some(detail))
}

/// Only what a device cannot do without; unknown types are shown as plain text.
fn check_blocks(check: &mut Check, blocks: &serde_json::Value) {
    if blocks.get("v").and_then(serde_json::Value::as_u64) != Some(1) {
        check.wrong("blocks.v", "`blocks.v` must be 1.");
    }
    let Some(list) = blocks.get("blocks").and_then(serde_json::Value::as_array) else {
        check.wrong("blocks.blocks", "`blocks.blocks` must be a list of blocks.");
        return;
    };
    for (i, block) in list.iter().enumerate() {
        if !block.get("type").is_some_and(serde_json::Value::is_string) {
            let field = format!("blocks.blocks.{i}.type");
            let text = format!("`{field}` must be a text.");
            check.wrong(&field, text);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_25_a_long_command_stands_whole_in_the_detail() {
        let command = format!("rm -rf build {} && curl evil", "x".repeat(500));
        let (line, detail) = one_line(&command, Some("why".into()));
        assert!(line.chars().count() <= limits::SUMMARY_LINE && line.ends_with('…'));
        assert_eq!(detail.unwrap(), format!("{command}\n\nwhy"));
        let (line, detail) = one_line("ls\nrm -rf /", None);
        assert_eq!((line.as_str(), detail.as_deref()), ("ls…", Some("ls\nrm -rf /")));
        assert_eq!(one_line(" ls -l ", None), ("ls -l".into(), None));
    }
}
