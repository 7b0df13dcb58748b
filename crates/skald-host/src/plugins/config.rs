//! Plugin settings: checked against the schema, stored as given, completed with the schema's defaults.

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::{Error, FieldError, schema};

/// What is stored about a plugin.
#[derive(Clone, PartialEq)]
pub(super) struct Stored {
    pub enabled: bool,
    /// `None` where the stored text cannot be read. It is shown as a fault and never replaced by defaults.
    pub config: Option<Value>,
}

impl Default for Stored {
    fn default() -> Self {
        Self { enabled: false, config: Some(Value::Object(Map::new())) }
    }
}

/// A plugin's settings schema, compiled.
pub(super) struct Schema {
    validator: Validator,
    properties: Map<String, Value>,
}

impl Schema {
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        let validator = schema::compile(schema).map_err(|e| format!("its settings schema: {e}."))?;
        let properties = match schema.get("properties") {
            Some(Value::Object(map)) => map.clone(),
            None => Map::new(),
            Some(_) => return Err("its settings schema: `properties` must be an object.".into()),
        };
        let this = Self { validator, properties };
        // Defaults that break their own schema would stop every start with a riddle for the owner. Only required
        // settings without a default may be missing.
        let broken = schema::errors(&this.validator, &this.complete(&Value::Object(Map::new())))
            .into_iter()
            .find(|e| this.properties.get(&e.field).is_some_and(|p| p.get("default").is_some()));
        match broken {
            Some(e) => Err(format!("its settings schema: the default does not hold: {}", e.message)),
            None => Ok(this),
        }
    }

    /// The settings with defaults where nothing is written.
    pub(super) fn complete(&self, config: &Value) -> Value {
        let Value::Object(given) = config else { return config.clone() };
        let mut all = given.clone();
        for (name, property) in &self.properties {
            if let (false, Some(default)) = (all.contains_key(name), property.get("default")) {
                all.insert(name.clone(), default.clone());
            }
        }
        Value::Object(all)
    }

    /// The completed settings, or a sentence for each field that does not hold.
    pub(super) fn check(&self, config: &Value) -> Result<Value, Error> {
        let Value::Object(given) = config else {
            return Err(Error::field("config", "`config` must be an object of settings."));
        };
        let all = self.complete(config);
        let mut errors: Vec<FieldError> =
            given.keys().filter(|k| !self.properties.contains_key(*k)).map(|k| schema::unknown(k)).collect();
        for e in schema::errors(&self.validator, &all) {
            if !errors.iter().any(|known| known.field == e.field) {
                errors.push(e);
            }
        }
        if errors.is_empty() { Ok(all) } else { Err(Error::Invalid(errors)) }
    }
}
