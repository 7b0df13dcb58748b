//! What a prompt asks for, and how a person's text becomes its content.

use serde_json::{Map, Value};

use crate::failure::{Failure, Outcome};
use crate::snapshot::Item;

/// One field of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name in the content.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// `string`, `number`, `integer` or `boolean`.
    pub kind: String,
    /// Whether it must be there.
    pub required: bool,
    /// Whether it must not show.
    pub secret: bool,
    /// The values that may be chosen.
    pub choices: Vec<Value>,
}

/// What a prompt asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// Yes or no.
    Confirmation,
    /// To open an address and say that it was done.
    Url(String),
    /// One value.
    One(Field),
    /// An object.
    Several(Vec<Field>),
}

impl Form {
    /// Reads it from an elicitation.
    pub fn of(item: &Item) -> Self {
        if item.text("mode") == Some("url") {
            return Self::Url(item.text("url").unwrap_or_default().to_owned());
        }
        if item.flag("is_confirmation") {
            return Self::Confirmation;
        }
        let sensitive = item.flag("sensitive");
        let mut fields = fields(item.raw.get("schema"), sensitive);
        if let Some(name) = item.text("field_name") {
            let known = fields.iter().position(|f| f.name == name).map(|at| fields.swap_remove(at));
            return Self::One(known.unwrap_or_else(|| Field {
                name: name.to_owned(),
                title: None,
                description: None,
                kind: "string".into(),
                required: true,
                secret: sensitive,
                choices: Vec::new(),
            }));
        }
        match fields.len() {
            0 => Self::Confirmation,
            1 => Self::One(fields.remove(0)),
            _ => Self::Several(fields),
        }
    }

    /// Turns a person's text into content. `None` is an acceptance without content.
    pub fn content(&self, text: &str) -> Outcome<Option<Map<String, Value>>> {
        match self {
            Self::Confirmation | Self::Url(_) => match text.trim().to_lowercase().as_str() {
                "yes" | "y" | "true" | "ok" | "1" => Ok(None),
                _ => {
                    Err(Failure::usage("This prompt only takes yes: use --value yes, --decline or --cancel."))
                }
            },
            Self::One(field) => Ok(Some(Map::from_iter([(field.name.clone(), field.value(text)?)]))),
            Self::Several(fields) => several(fields, text).map(Some),
        }
    }
}

fn several(fields: &[Field], text: &str) -> Outcome<Map<String, Value>> {
    // The parser's own message would quote the value, which may be a secret.
    let Ok(Value::Object(given)) = serde_json::from_str::<Value>(text) else {
        let names: Vec<_> = fields.iter().map(|f| f.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "This prompt has several fields: give a JSON object with {}.",
            crate::text::one_line(&names.join(", "))
        )));
    };
    for (name, value) in &given {
        match fields.iter().find(|f| f.name == *name) {
            Some(field) => field.check(value)?,
            None => {
                return Err(Failure::usage(format!(
                    "This prompt has no field {}.",
                    crate::text::one_line(name)
                )));
            }
        }
    }
    if let Some(missing) = fields.iter().find(|f| f.required && !given.contains_key(&f.name)) {
        return Err(Failure::usage(format!(
            "The field {} is missing.",
            crate::text::one_line(&missing.name)
        )));
    }
    Ok(given)
}

fn fields(schema: Option<&Value>, sensitive: bool) -> Vec<Field> {
    let Some(schema) = schema else { return Vec::new() };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let read = |(name, p): (&String, &Value)| {
        let text = |key: &str| p.get(key).and_then(Value::as_str).map(str::to_owned);
        let format = text("format");
        Field {
            name: name.clone(),
            title: text("title"),
            description: text("description"),
            kind: text("type").unwrap_or_else(|| "string".into()),
            required: required.contains(&name.as_str()),
            secret: sensitive
                || format.as_deref() == Some("password")
                || p.get("writeOnly").and_then(Value::as_bool) == Some(true),
            choices: choices(p),
        }
    };
    properties.iter().map(read).collect()
}

/// `enum`, or the constants of a `oneOf`.
fn choices(property: &Value) -> Vec<Value> {
    if let Some(list) = property.get("enum").and_then(Value::as_array) {
        return list.clone();
    }
    let one_of = property.get("oneOf").and_then(Value::as_array);
    one_of.into_iter().flatten().filter_map(|o| o.get("const")).cloned().collect()
}

impl Field {
    /// For people: title, name, type, choices.
    pub fn describe(&self) -> String {
        let mut out = match &self.title {
            Some(title) => format!("{title} ({}", self.name),
            None => format!("{} (", self.name),
        };
        if self.title.is_some() {
            out.push_str(", ");
        }
        out.push_str(&self.kind);
        if !self.required {
            out.push_str(", optional");
        }
        out.push(')');
        if !self.choices.is_empty() {
            let list: Vec<String> = self
                .choices
                .iter()
                .map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned))
                .collect();
            out.push_str(": one of ");
            out.push_str(&list.join(", "));
        }
        if let Some(description) = &self.description {
            out.push_str(" - ");
            out.push_str(description);
        }
        out
    }

    /// The text as a value of this field's type. Errors name the field and never the value.
    fn value(&self, text: &str) -> Outcome<Value> {
        let value = match self.kind.as_str() {
            "integer" => text.trim().parse::<i64>().ok().map(Value::from),
            "number" => text
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|n| n.is_finite())
                .map(|n| text.trim().parse::<i64>().map_or_else(|_| Value::from(n), Value::from)),
            "boolean" => match text.trim().to_lowercase().as_str() {
                "true" | "yes" => Some(Value::Bool(true)),
                "false" | "no" => Some(Value::Bool(false)),
                _ => None,
            },
            "array" | "object" => serde_json::from_str(text).ok(),
            _ => Some(Value::from(text)),
        };
        let value = value.ok_or_else(|| self.wrong_type())?;
        self.check(&value)?;
        Ok(value)
    }

    fn wrong_type(&self) -> Failure {
        Failure::usage(format!(
            "The field {} takes a value of type {}.",
            crate::text::one_line(&self.name),
            crate::text::one_line(&self.kind)
        ))
    }

    fn check(&self, value: &Value) -> Outcome<()> {
        let fits = match self.kind.as_str() {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        };
        if !fits {
            return Err(self.wrong_type());
        }
        if !self.choices.is_empty() && !value.is_array() && !self.choices.contains(value) {
            return Err(Failure::usage(format!(
                "The field {} takes one of the listed choices only.",
                crate::text::one_line(&self.name)
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Kind;
    use serde_json::json;

    fn form(raw: Value) -> Form {
        Form::of(&Item { kind: Kind::Elicitation, id: "e".into(), raw })
    }

    fn content(form: &Form, text: &str) -> Value {
        form.content(text).expect("content").map_or(Value::Null, Value::Object)
    }

    #[test]
    fn one_field_is_filled_by_its_name() {
        let plain = form(json!({"field_name": "password", "sensitive": true, "is_confirmation": false}));
        assert_eq!(content(&plain, " s p "), json!({"password": " s p "}));
        let typed = form(json!({"field_name": "n", "schema": {"properties": {"n": {"type": "integer"}}}}));
        assert_eq!(content(&typed, "42"), json!({"n": 42}));
        assert!(typed.content("hunter2").is_err_and(|e| !e.sentence.contains("hunter2")));
    }

    #[test]
    fn a_confirmation_has_no_content() {
        let ask = form(json!({"field_name": null, "is_confirmation": true}));
        assert_eq!(content(&ask, "yes"), Value::Null);
        assert!(ask.content("perhaps").is_err());
        assert!(matches!(form(json!({"mode": "url", "url": "https://x"})), Form::Url(u) if u == "https://x"));
    }

    #[test]
    fn fault_22_a_form_with_several_fields_takes_an_object_and_checks_each() {
        let ask = form(json!({"field_name": null, "schema": {"required": ["user"], "properties": {
            "user": {"type": "string"}, "age": {"type": "integer"}, "on": {"type": "boolean"},
            "pick": {"type": "string", "enum": ["a", "b"]}, "pin": {"type": "string", "format": "password"}}}}));
        let Form::Several(fields) = &ask else { panic!() };
        assert_eq!(fields.iter().filter(|f| f.secret).map(|f| f.name.as_str()).collect::<Vec<_>>(), ["pin"]);
        assert_eq!(
            content(&ask, r#"{"user":"u","age":3,"pick":"b"}"#),
            json!({"user": "u", "age": 3, "pick": "b"})
        );
        for bad in [
            "topsecret",
            "[]",
            r#"{"age":3}"#,
            r#"{"user":1}"#,
            r#"{"user":"u","age":"topsecret"}"#,
            r#"{"user":"u","pick":"topsecret"}"#,
            r#"{"user":"u","extra":1}"#,
        ] {
            let failure = ask.content(bad).expect_err(bad);
            assert_eq!(failure.code.exit(), 2);
            assert!(!failure.sentence.contains("topsecret") && failure.sentence.ends_with('.'), "{failure}");
        }
    }
}
