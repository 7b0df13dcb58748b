//! Display blocks: a tool call described for people (spec payloads, `blocks`).
//!
//! Blocks are read leniently, for they only say how to show something: what this version does not know becomes plain
//! text, and nothing is ever cut off.

use serde_json::{Map, Value, json};

/// What a value is, so that a device can show it well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueType {
    /// A short string.
    String,
    /// Running text. Unknown types are shown as this.
    Text,
    /// Markdown.
    Markdown,
    /// Source code: monospace, whole.
    Code,
    /// A diff: in colours.
    Diff,
    /// A command line: monospace, whole.
    Command,
    /// A mail address.
    Email,
    /// An address on the web.
    Url,
    /// A path of a file.
    Path,
    /// JSON.
    Json,
    /// A number.
    Number,
    /// Yes or no.
    Boolean,
    /// A point in time.
    DateTime,
    /// Masked.
    Secret,
}

impl ValueType {
    const NAMES: [(&'static str, Self); 14] = [
        ("string", Self::String),
        ("text", Self::Text),
        ("markdown", Self::Markdown),
        ("code", Self::Code),
        ("diff", Self::Diff),
        ("command", Self::Command),
        ("email", Self::Email),
        ("url", Self::Url),
        ("path", Self::Path),
        ("json", Self::Json),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
        ("datetime", Self::DateTime),
        ("secret", Self::Secret),
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, t)| *t == self).map_or("text", |(name, _)| name)
    }

    /// The type of that name; an unknown one is shown as plain text.
    pub fn from_wire(name: &str) -> Self {
        Self::NAMES.iter().find(|(n, _)| *n == name).map_or(Self::Text, |(_, t)| *t)
    }
}

/// How a block is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockShape {
    /// A row of a table: key and value.
    KeyValue,
    /// A labelled value in one line.
    Field,
    /// A labelled value with room of its own.
    Block,
    /// A shape this version does not know: plain text.
    Unknown,
}

/// One block.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// How it is laid out.
    pub shape: BlockShape,
    /// Key or label, perhaps empty.
    pub label: String,
    /// What it shows: text, or a JSON value to be shown as text.
    pub value: Value,
    /// What the value is.
    pub value_type: ValueType,
}

impl Block {
    /// A block with a text as its value.
    pub fn new(
        shape: BlockShape,
        label: impl Into<String>,
        value: impl Into<String>,
        value_type: ValueType,
    ) -> Self {
        Self { shape, label: label.into(), value: Value::String(value.into()), value_type }
    }

    /// The value as text, whole.
    pub fn text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }

    fn read(value: &Value) -> Self {
        let Value::Object(members) = value else {
            return Self {
                shape: BlockShape::Unknown,
                label: String::new(),
                value: value.clone(),
                value_type: ValueType::Text,
            };
        };
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let shape = match text("type") {
            Some("key_value") => BlockShape::KeyValue,
            Some("field") => BlockShape::Field,
            Some("block") => BlockShape::Block,
            _ => BlockShape::Unknown,
        };
        Self {
            shape,
            label: text("key").or_else(|| text("label")).unwrap_or_default().to_owned(),
            // A block without a value of a known name is shown whole rather than dropped: what a person decides about
            // must not vanish because a newer source described it in a new way.
            value: members.get("value").cloned().unwrap_or_else(|| without_type(members)),
            value_type: text("value_type").map_or(ValueType::Text, ValueType::from_wire),
        }
    }

    fn to_value(&self) -> Value {
        let (kind, label) = match self.shape {
            BlockShape::KeyValue => ("key_value", "key"),
            BlockShape::Field | BlockShape::Unknown => ("field", "label"),
            BlockShape::Block => ("block", "label"),
        };
        json!({"type": kind, label: self.label, "value": self.value, "value_type": self.value_type.as_str()})
    }
}

fn without_type(members: &Map<String, Value>) -> Value {
    Value::Object(members.iter().filter(|(k, _)| *k != "type").map(|(k, v)| (k.clone(), v.clone())).collect())
}

/// A tool call described for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks {
    /// One line, perhaps empty.
    pub summary: String,
    /// The blocks, in the order to show them.
    pub blocks: Vec<Block>,
}

impl Blocks {
    /// Reads an approval's `blocks`. `None` where it is not version 1 or no list of blocks: the raw arguments are
    /// shown instead.
    pub fn read(value: &Value) -> Option<Self> {
        if value.get("v")?.as_u64() != Some(1) {
            return None;
        }
        let blocks = value.get("blocks")?.as_array()?.iter().map(Block::read).collect();
        Some(Self {
            summary: value.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned(),
            blocks,
        })
    }

    /// The JSON to put into an approval.
    pub fn to_value(&self) -> Value {
        json!({"v": 1, "summary": self.summary, "blocks": self.blocks.iter().map(Block::to_value).collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_type_has_one_name() {
        for (name, value_type) in ValueType::NAMES {
            assert_eq!(value_type.as_str(), name);
            assert_eq!(ValueType::from_wire(name), value_type);
        }
        assert_eq!(ValueType::from_wire("hologram"), ValueType::Text);
    }

    #[test]
    fn blocks_survive_a_round_trip() {
        let blocks = Blocks {
            summary: "Run a command".into(),
            blocks: vec![
                Block::new(BlockShape::KeyValue, "cwd", "/srv", ValueType::Path),
                Block::new(BlockShape::Block, "command", "rm -rf build", ValueType::Command),
                Block::new(BlockShape::Field, "token", "x", ValueType::Secret),
            ],
        };
        assert_eq!(Blocks::read(&blocks.to_value()), Some(blocks));
    }

    #[test]
    fn unknown_shapes_become_plain_text_and_lose_nothing() {
        let read = Blocks::read(&json!({"v": 1, "blocks": [
            {"type": "chart", "points": [1, 2]}, {"type": "field", "label": "n", "value": 3, "value_type": "number"}, "loose", 7
        ]}))
        .unwrap();
        assert_eq!(read.blocks[0].shape, BlockShape::Unknown);
        assert_eq!(read.blocks[0].text(), r#"{"points":[1,2]}"#);
        assert_eq!(read.blocks[1].text(), "3");
        assert_eq!(read.blocks[2].text(), "loose");
        assert_eq!(read.blocks[3].text(), "7");
    }

    #[test]
    fn fault_25_a_long_command_is_never_cut() {
        let command = "x".repeat(100_000);
        let blocks = json!({"v": 1, "summary": "", "blocks": [
            {"type": "block", "label": "command", "value": command, "value_type": "command"}]});
        assert_eq!(Blocks::read(&blocks).unwrap().blocks[0].text(), command);
    }

    #[test]
    fn other_versions_are_not_blocks() {
        for value in
            [json!(null), json!({"blocks": []}), json!({"v": 2, "blocks": []}), json!({"v": 1}), json!([1])]
        {
            assert_eq!(Blocks::read(&value), None);
        }
    }
}
