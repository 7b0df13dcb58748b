//! The section `[push]` from environment variables: `RELAY_PUSH_`, the provider where there is one, and the field's name,
//! all in capitals, such as `RELAY_PUSH_APNS_KEY_ID`.

use std::collections::BTreeMap;

use skald_relay_push::PushSettings;
use toml::{Table, Value};

use super::SettingsError;

const PREFIX: &str = "RELAY_PUSH_";
/// Sections of their own inside `[push]`.
const SECTIONS: [&str; 5] = ["apns", "fcm", "webpush", "ntfy", "gateway"];
/// Fields that are no text.
const NUMBERS: [&str; 1] = ["window_ms"];
const FLAGS: [&str; 1] = ["sandbox"];
const LISTS: [&str; 2] = ["hosts", "private_hosts"];

/// Lays every variable of the section over `settings` and takes it out of `vars`.
pub(super) fn apply(
    settings: &mut PushSettings,
    vars: &mut BTreeMap<String, String>,
) -> Result<(), SettingsError> {
    let names: Vec<String> = vars.keys().filter(|name| name.starts_with(PREFIX)).cloned().collect();
    if names.is_empty() {
        return Ok(());
    }
    let mut table = Table::try_from(&*settings).map_err(|e| wrong(PREFIX, e.to_string()))?;
    for name in &names {
        let Some(text) = vars.remove(name) else { continue };
        let path = name[PREFIX.len()..].to_lowercase();
        let section = SECTIONS
            .iter()
            .find_map(|section| path.strip_prefix(section)?.strip_prefix('_').map(|key| (*section, key)));
        let value = |key| value(name, key, &text);
        match section {
            Some((section, key)) => {
                let entry = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
                if let Value::Table(inside) = entry {
                    inside.insert(key.to_owned(), value(key)?);
                }
            }
            None => {
                table.insert(path.clone(), value(&path)?);
            }
        }
    }
    *settings = table
        .try_into()
        .map_err(|error: toml::de::Error| wrong(&names.join(", "), error.message().replace('\n', " ")))?;
    Ok(())
}

fn value(name: &str, key: &str, text: &str) -> Result<Value, SettingsError> {
    if NUMBERS.contains(&key) {
        let number: u32 = text.trim().parse().map_err(|_| wrong(name, "it must be a whole number"))?;
        return Ok(Value::Integer(number.into()));
    }
    if FLAGS.contains(&key) {
        return match text {
            "1" | "true" => Ok(Value::Boolean(true)),
            "0" | "false" => Ok(Value::Boolean(false)),
            _ => Err(wrong(name, "it must be true or false")),
        };
    }
    if LISTS.contains(&key) {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        return Ok(Value::Array(parts.map(|part| Value::String(part.to_owned())).collect()));
    }
    if text.is_empty() { Err(wrong(name, "it is empty")) } else { Ok(Value::String(text.to_owned())) }
}

fn wrong(name: &str, reason: impl Into<String>) -> SettingsError {
    SettingsError::Environment { name: name.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(vars: &[(&str, &str)]) -> Result<PushSettings, SettingsError> {
        let mut settings = PushSettings::default();
        let mut vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        apply(&mut settings, &mut vars)?;
        assert!(vars.is_empty());
        Ok(settings)
    }

    #[test]
    fn a_provider_is_set_up_by_variables_alone() {
        let settings = load(&[
            ("RELAY_PUSH_WINDOW_MS", "500"),
            ("RELAY_PUSH_APNS_KEY", "/keys/a.p8"),
            ("RELAY_PUSH_APNS_KEY_ID", "1234567890"),
            ("RELAY_PUSH_APNS_TEAM_ID", "TEAM123456"),
            ("RELAY_PUSH_APNS_TOPIC", "org.example.app"),
            ("RELAY_PUSH_APNS_SANDBOX", "true"),
            ("RELAY_PUSH_FCM_SERVICE_ACCOUNT", "/keys/b.json"),
        ])
        .unwrap();
        let apns = settings.apns.unwrap();
        assert_eq!((settings.window_ms, apns.key_id.as_str(), apns.sandbox), (500, "1234567890", true));
        assert_eq!(settings.fcm.unwrap().service_account.to_str(), Some("/keys/b.json"));
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        for (name, value, said) in [
            ("RELAY_PUSH_APNS_KEY", "/keys/a.p8", "key_id"),
            ("RELAY_PUSH_APNS_SANDBOX", "maybe", "RELAY_PUSH_APNS_SANDBOX"),
            ("RELAY_PUSH_FCM_KEY", "x", "RELAY_PUSH_FCM_KEY"),
            ("RELAY_PUSH_WINDOW", "x", "RELAY_PUSH_WINDOW"),
        ] {
            let error = load(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(said), "{name}={value}: {error}");
        }
    }
}
