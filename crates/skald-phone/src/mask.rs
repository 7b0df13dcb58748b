//! Hides the values of `secret` blocks wherever an item repeats them.

use serde_json::Value;

/// What stands in a secret's place. Its length says nothing about the secret's.
pub const DOTS: &str = "••••••••";

/// Shorter secrets are hidden only where they are the whole of a text: hiding every "7" would spoil what is shown.
const SUBSTRING_FROM: usize = 4;

/// The secrets of one item.
#[derive(Default)]
pub struct Mask {
    values: Vec<String>,
}

impl Mask {
    /// Collects the values of secret blocks from an approval's `blocks`.
    pub fn of_blocks(blocks: Option<&Value>) -> Self {
        let mut mask = Self::default();
        if let Some(list) = blocks.and_then(|b| b.get("blocks")).and_then(Value::as_array) {
            for block in list.iter().filter(|b| is_secret(b)) {
                mask.add(block.get("value"));
            }
        }
        // The longest first, so that a secret that contains another is hidden whole.
        mask.values.sort_by_key(|v| std::cmp::Reverse(v.len()));
        mask
    }

    fn add(&mut self, value: Option<&Value>) {
        match value {
            Some(Value::String(text)) if !text.is_empty() => self.values.push(text.clone()),
            Some(Value::Array(list)) => list.iter().for_each(|v| self.add(Some(v))),
            Some(Value::Object(map)) => map.values().for_each(|v| self.add(Some(v))),
            Some(Value::Number(n)) => self.values.push(n.to_string()),
            _ => {}
        }
    }

    /// `text` with every secret hidden.
    pub fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for value in &self.values {
            if out == *value {
                return DOTS.into();
            }
            if value.chars().count() >= SUBSTRING_FROM {
                out = out.replace(value.as_str(), DOTS);
            }
        }
        out
    }

    /// `value` with every secret hidden, keys included.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Number(n) => {
                let text = n.to_string();
                if self.values.contains(&text) { Value::String(DOTS.into()) } else { value.clone() }
            }
            Value::Array(list) => Value::Array(list.iter().map(|v| self.value(v)).collect()),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(k, v)| (self.text(k), self.value(v))).collect())
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    /// A whole approval for machines: secret blocks and every repetition of their values hidden.
    pub fn approval(approval: &Value) -> Value {
        let mask = Self::of_blocks(approval.get("blocks"));
        let mut out = mask.value(approval);
        if let Some(list) = out.pointer_mut("/blocks/blocks").and_then(Value::as_array_mut) {
            for block in list.iter_mut().filter(|b| is_secret(b)) {
                if let Some(value) = block.get_mut("value") {
                    *value = Value::String(DOTS.into());
                }
            }
        }
        // Names and identities are no secrets, whatever a block claims.
        for key in ["request_id", "tool_name", "created_at", "expires_at", "digest"] {
            if let (Some(plain), Some(slot)) = (approval.get(key), out.get_mut(key)) {
                *slot = plain.clone();
            }
        }
        out
    }
}

/// Whether a block is marked as a secret.
pub fn is_secret(block: &Value) -> bool {
    block.get("value_type").and_then(Value::as_str) == Some("secret")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_is_hidden_wherever_the_item_repeats_it() {
        let item = json!({
            "request_id": "r", "tool_name": "http", "agent_label": "a", "created_at": 1,
            "summary": "Send hunter2secret to x", "detail": "uses hunter2secret",
            "arguments": {"headers": ["Bearer hunter2secret"], "pin": 12, "other": 4711},
            "blocks": {"v": 1, "blocks": [
                {"type": "field", "label": "Token", "value": "hunter2secret", "value_type": "secret"},
                {"type": "field", "label": "Pin", "value": 12, "value_type": "secret"},
                {"type": "field", "label": "Url", "value": "https://x", "value_type": "url"}]}
        });
        let shown = Mask::approval(&item).to_string();
        assert!(!shown.contains("hunter2secret"), "{shown}");
        assert!(!shown.contains(":12"), "{shown}");
        assert!(shown.contains("4711") && shown.contains("https://x") && shown.contains("\"created_at\":1"));
    }

    #[test]
    fn nothing_is_hidden_without_a_secret_block() {
        let item = json!({"request_id": "r", "arguments": {"a": "b"}, "blocks": {"v": 1, "blocks": []}});
        assert_eq!(Mask::approval(&item), item);
        assert_eq!(Mask::of_blocks(None).text("as is"), "as is");
    }
}
