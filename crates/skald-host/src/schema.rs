//! JSON schemas, with errors in plain sentences that never repeat a value.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;

use crate::FieldError;

/// Compiles a schema, formats checked. References are refused: a schema comes from outside and must stand alone.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    if has_reference(schema) {
        return Err("references ($ref) are not supported".into());
    }
    jsonschema::options()
        .should_validate_formats(true)
        .build(schema)
        .map_err(|e| format!("it is not a valid JSON schema at {}", place(e.schema_path().as_str())))
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, v)| {
            (v.is_string() && matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef"))
                || has_reference(v)
        }),
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { "its top".into() } else { pointer.trim_start_matches('/').replace('/', ".") }
}

/// Every field that does not fit.
pub(crate) fn errors(validator: &Validator, value: &Value) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = Vec::new();
    for e in validator.iter_errors(value) {
        for found in sentence(&e) {
            // One sentence per field is enough to act on.
            if !errors.iter().any(|known| known.field == found.field) {
                errors.push(found);
            }
        }
    }
    errors
}

fn sentence(e: &ValidationError<'_>) -> Vec<FieldError> {
    let at = e
        .instance_path()
        .as_str()
        .trim_start_matches('/')
        .replace('/', ".")
        .replace("~1", "/")
        .replace("~0", "~");
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let must = match e.kind() {
        Kind::Required { property } => {
            let field = below(property.as_str().unwrap_or_default());
            return vec![FieldError::new(field.clone(), format!("`{field}` is missing."))];
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            return unexpected.iter().map(|name| unknown(&below(name))).collect();
        }
        Kind::Type { kind } => format!("must be {}", types(kind)),
        Kind::Enum { options } => format!("must be one of {}", list(options)),
        Kind::Constant { expected_value } => format!("must be {expected_value}"),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit: 1 } => "must not be empty".into(),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::MinItems { limit } => format!("must have at least {limit} entries"),
        Kind::MaxItems { limit } => format!("must have at most {limit} entries"),
        Kind::UniqueItems => "must not have an entry twice".into(),
        Kind::Pattern { pattern } => format!("must match {pattern}"),
        Kind::Format { format } => format!("must be a valid {format}"),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => {
            "must be one of the values that are offered".into()
        }
        other => format!("does not fit ({})", other.keyword()),
    };
    let subject = if at.is_empty() { "The whole".to_owned() } else { format!("`{at}`") };
    vec![FieldError::new(at, format!("{subject} {must}."))]
}

/// A field nobody knows.
pub(crate) fn unknown(field: &str) -> FieldError {
    FieldError::new(field, format!("`{field}` is not known here: leave it out."))
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => named(*one).into(),
        TypeKind::Multiple(set) => set.iter().map(named).collect::<Vec<_>>().join(" or "),
    }
}

fn named(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "empty",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::String => "a text",
        JsonType::Array => "a list",
        JsonType::Object => "an object",
    }
}

fn list(options: &Value) -> String {
    let words = options.as_array().map(Vec::as_slice).unwrap_or_default();
    words
        .iter()
        .map(|w| w.as_str().map_or_else(|| w.to_string(), str::to_owned))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_field_gets_one_sentence_without_its_value() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["a"], "properties": {
            "a": {"type": "string"}, "n": {"type": "integer", "minimum": 1}, "c": {"enum": ["x", "y"]}, "m": {"format": "email"}}});
        let v = compile(&schema).unwrap();
        let told = errors(&v, &json!({"n": 0, "c": "geheim", "m": "geheim", "extra": "geheim"}));
        let fields: Vec<&str> = told.iter().map(|e| e.field.as_str()).collect();
        for field in ["a", "n", "c", "m", "extra"] {
            assert!(fields.contains(&field), "{field} in {told:?}");
        }
        assert!(!format!("{told:?}").contains("geheim"));
        assert!(errors(&v, &json!({"a": "x", "n": 3})).is_empty());
    }

    #[test]
    fn a_schema_with_references_is_refused() {
        assert!(compile(&json!({"$ref": "https://example.com/s.json"})).is_err());
        assert!(compile(&json!({"properties": {"$ref": {"type": "string"}}})).is_ok());
        assert!(compile(&json!({"type": "nonsense"})).unwrap_err().contains("not a valid JSON schema"));
    }
}
