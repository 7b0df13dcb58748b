//! Elicitation forms: the flat schema and the content that answers it.

use serde_json::Value;

use super::types::limits;
use crate::secret::Content;
use crate::{Error, FieldError, json, schema};

/// Most fields one form may have.
const FIELDS: usize = 50;

pub(super) struct Form {
    pub fields: Vec<String>,
    /// Whether a field looks like a secret.
    pub secret: bool,
}

/// Checks that a schema is a flat form: texts, numbers, booleans and choices, nothing nested.
pub(super) fn check_schema(value: &Value) -> Result<Form, String> {
    let Some(object) = value.as_object() else { return Err("`schema` must be a JSON object.".into()) };
    if object.get("type").is_some_and(|t| t != "object") {
        return Err("`schema.type` must be object.".into());
    }
    let Some(properties) = object.get("properties").and_then(Value::as_object) else {
        return Err("`schema.properties` must be an object of fields.".into());
    };
    if properties.is_empty() || properties.len() > FIELDS {
        return Err(format!("`schema.properties` must have 1 to {FIELDS} fields."));
    }
    let mut secret = false;
    for (name, field) in properties {
        if name.is_empty() || name.chars().count() > limits::NAME || name.chars().any(char::is_control) {
            return Err(format!(
                "Each field of `schema` must have a name of 1 to {} characters.",
                limits::NAME
            ));
        }
        let kind = field.get("type").and_then(Value::as_str);
        let choice = ["enum", "oneOf", "anyOf", "const"].iter().any(|k| field.get(k).is_some());
        let flat = match kind {
            Some("string" | "number" | "integer" | "boolean") => true,
            // Several of a list of choices is the one list a form can show.
            Some("array") => field
                .get("items")
                .is_some_and(|i| ["enum", "oneOf", "anyOf"].iter().any(|k| i.get(k).is_some())),
            None => choice,
            Some(_) => false,
        };
        if !flat {
            return Err(format!(
                "`schema.properties.{name}` must be a text, number, boolean or choice: forms are flat."
            ));
        }
        secret |= looks_secret(name)
            || field.get("format").is_some_and(|f| f == "password")
            || field.get("writeOnly").is_some_and(|w| w == true);
    }
    if let Some(required) = object.get("required") {
        let known = |r: &Value| r.as_str().is_some_and(|r| properties.contains_key(r));
        if !required.as_array().is_some_and(|list| list.iter().all(known)) {
            return Err("`schema.required` must be a list of fields in `schema.properties`.".into());
        }
    }
    schema::compile(value).map_err(|cause| format!("`schema` cannot be used: {cause}."))?;
    Ok(Form { fields: properties.keys().cloned().collect(), secret })
}

/// Whether a field's name says that its value must not be shown while it is typed.
pub(super) fn looks_secret(name: &str) -> bool {
    let plain: String = name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let inside = [
        "password",
        "passwort",
        "passphrase",
        "passcode",
        "secret",
        "token",
        "apikey",
        "privatekey",
        "credential",
    ];
    inside.iter().any(|w| plain.contains(w))
        || matches!(plain.as_str(), "pin" | "otp" | "cvv" | "cvc" | "pwd" | "pass")
}

/// Checks the content of an acceptance. What the form does not ask for is dropped, so that a source gets no more than
/// the person was shown.
pub(super) fn check_content(
    field_name: Option<&str>,
    form: Option<&Value>,
    content: Option<Content>,
) -> Result<Content, Error> {
    let Some(mut content) = content.filter(|c| c.expose().is_object()) else {
        return Err(Error::field("content", "`content` must be an object with what was asked for."));
    };
    if json::size(content.expose()) > limits::ITEM_BYTES {
        let text = format!("`content` must not be longer than {} KiB.", limits::ITEM_BYTES / 1024);
        return Err(Error::field("content", text));
    }
    let Some(form) = form else {
        let Some(name) = field_name else { return Ok(content) };
        content.keep_only(&[name.to_owned()]);
        let plain = |v: &Value| v.is_string() || v.is_number() || v.is_boolean();
        if !content.expose().get(name).is_some_and(plain) {
            let text = format!("`content.{name}` must be a text, a number, true or false.");
            return Err(Error::field(format!("content.{name}"), text));
        }
        return Ok(content);
    };
    let fields: Vec<String> = form
        .get("properties")
        .and_then(Value::as_object)
        .map(|p| p.keys().cloned().collect())
        .unwrap_or_default();
    content.keep_only(&fields);
    let validator = schema::compile(form)
        .map_err(|_| Error::field("content", "The form of this question cannot be read: decline it."))?;
    let errors: Vec<FieldError> = schema::errors(&validator, content.expose())
        .into_iter()
        .map(|e| FieldError { field: format!("content.{}", e.field).trim_end_matches('.').to_owned(), ..e })
        .collect();
    if errors.is_empty() { Ok(content) } else { Err(Error::Invalid(errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_and_foreign_schemas_are_refused_by_name() {
        let nested = json!({"type": "object", "properties": {"a": {"type": "object"}}});
        assert!(check_schema(&nested).err().unwrap().contains("properties.a"));
        for bad in [
            json!([]),
            json!({}),
            json!({"properties": {}}),
            json!({"type": "array", "properties": {"a": {"type": "string"}}}),
            json!({"properties": {"a": {"type": "string", "$ref": "x"}}}),
            json!({"properties": {"a": {"type": "string"}}, "required": ["b"]}),
        ] {
            assert!(check_schema(&bad).is_err(), "{bad}");
        }
        let choice =
            json!({"properties": {"a": {"type": "array", "items": {"type": "string", "enum": ["x"]}}}});
        assert_eq!(check_schema(&choice).ok().unwrap().fields, ["a"]);
    }

    #[test]
    fn names_of_secrets_are_known() {
        for name in ["password", "API key", "access_token", "PIN", "client-secret"] {
            assert!(looks_secret(name), "{name}");
        }
        for name in ["username", "spin", "passenger", "email"] {
            assert!(!looks_secret(name), "{name}");
        }
    }
}
