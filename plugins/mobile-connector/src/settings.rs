//! The plugin's settings: one typed struct, the schema its form is drawn from, and plain words for what is wrong.

use std::path::{Path, PathBuf};

use http::Uri;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The path of the relay's control socket (relay-protocol §2).
const SOCKET_PATH: &str = "/v1/ws";
/// Longest pairing window that a relay grants (relay-protocol §9.1).
pub const MAX_PAIRING_TTL: u32 = 600;
/// Longest delay that still makes sense: an hour.
const MAX_NOTIFY_DELAY: u32 = 3_600;

/// The settings as they are stored. What is left out has its default; unknown names are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where the relay is; empty: idle.
    pub relay_url: String,
    /// How long a pairing window stays open, in seconds.
    pub pairing_ttl: u32,
    /// Whether a person must admit a device that paired.
    pub require_device_confirmation: bool,
    /// How long a new question waits before phones are told, in seconds.
    pub notify_delay_secs: u32,
    /// PEM file of a private certificate authority; empty: none.
    pub relay_ca: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            relay_url: String::new(),
            pairing_ttl: 300,
            require_device_confirmation: true,
            notify_delay_secs: 20,
            relay_ca: String::new(),
        }
    }
}

/// What is wrong with one setting, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Fault {
    /// The setting.
    pub field: &'static str,
    /// One plain sentence.
    pub message: String,
}

/// Settings that hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The relay's control socket; `None`: idle.
    pub relay_url: Option<String>,
    /// Seconds.
    pub pairing_ttl: u32,
    /// Whether a person must admit a device that paired.
    pub require_device_confirmation: bool,
    /// Milliseconds.
    pub notify_delay_ms: i64,
    /// PEM file of a private certificate authority.
    pub relay_ca: Option<PathBuf>,
}

impl Settings {
    /// Reads stored settings. An unreadable value is an error, never a default (spec faults 20).
    pub fn read(config: &Value) -> Result<Self, String> {
        let config = match config {
            Value::Null => json!({}),
            Value::Object(_) => config.clone(),
            _ => {
                return Err(
                    "The settings of the mobile connector must be an object of names and values.".into()
                );
            }
        };
        serde_json::from_value(config)
            .map_err(|e| format!("The settings of the mobile connector cannot be read: {e}."))
    }

    /// Checks every setting and tells all faults at once.
    pub fn check(&self) -> Result<Checked, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut fault = |field, message: String| faults.push(Fault { field, message });
        let relay_url = match self.relay_url.trim() {
            "" => None,
            url => socket_url(url).map_err(|message| fault("relay_url", message)).ok(),
        };
        if !(1..=MAX_PAIRING_TTL).contains(&self.pairing_ttl) {
            fault("pairing_ttl", format!("Write a number of seconds from 1 to {MAX_PAIRING_TTL}."));
        }
        if self.notify_delay_secs > MAX_NOTIFY_DELAY {
            fault("notify_delay_secs", format!("Write a number of seconds from 0 to {MAX_NOTIFY_DELAY}."));
        }
        let relay_ca = match self.relay_ca.trim() {
            "" => None,
            path => {
                if let Err(message) = check_authority(Path::new(path)) {
                    fault("relay_ca", message);
                }
                Some(PathBuf::from(path))
            }
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Checked {
            relay_url,
            pairing_ttl: self.pairing_ttl,
            require_device_confirmation: self.require_device_confirmation,
            notify_delay_ms: i64::from(self.notify_delay_secs) * 1_000,
            relay_ca,
        })
    }

    /// The JSON schema the settings page is drawn from.
    pub fn schema() -> Value {
        let defaults = Self::default();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "relay_url": {
                    "type": "string", "title": "Relay address", "default": defaults.relay_url, "maxLength": 2048,
                    "description": "Where the relay is, for example wss://relay.example/v1/ws. Leave it empty to keep the connector idle."
                },
                "pairing_ttl": {
                    "type": "integer", "title": "Pairing time", "default": defaults.pairing_ttl,
                    "minimum": 1, "maximum": MAX_PAIRING_TTL,
                    "description": "How many seconds a pairing code can be scanned."
                },
                "require_device_confirmation": {
                    "type": "boolean", "title": "Confirm new devices", "default": defaults.require_device_confirmation,
                    "description": "A device that scanned the code waits until you compare its six digits and admit it."
                },
                "notify_delay_secs": {
                    "type": "integer", "title": "Delay before phones are told", "default": defaults.notify_delay_secs,
                    "minimum": 0, "maximum": MAX_NOTIFY_DELAY,
                    "description": "How many seconds a new question waits for an answer here before it goes to your phones. 0 sends it at once."
                },
                "relay_ca": {
                    "type": "string", "title": "Relay's certificate authority", "default": defaults.relay_ca, "maxLength": 4096,
                    "description": "Path of a PEM file, for a relay whose certificate comes from a private authority. Usually empty."
                }
            }
        })
    }
}

/// The control socket's address from what a person wrote: the path may be left out.
fn socket_url(text: &str) -> Result<String, String> {
    const EXAMPLE: &str = "Write it as wss://relay.example/v1/ws";
    let uri: Uri = text.parse().map_err(|_| format!("This is no address. {EXAMPLE}."))?;
    let Some(authority) = uri.authority() else {
        return Err(format!("The address has no host. {EXAMPLE}."));
    };
    let host = authority.host();
    match uri.scheme_str() {
        Some("wss") => {}
        Some("ws") if is_loopback(host) => {}
        Some("ws") => {
            return Err("ws:// sends in the clear and is allowed on this computer's own address alone; write wss:// instead.".into());
        }
        Some(other) => return Err(format!("An address beginning with {other}:// is no relay's. {EXAMPLE}.")),
        None => return Err(format!("The address lacks its beginning. {EXAMPLE}.")),
    }
    if host.is_empty() || host == "[]" {
        return Err(format!("The address has no host. {EXAMPLE}."));
    }
    if authority.as_str().contains('@') {
        return Err("A relay asks for no user name or password; write the address without them.".into());
    }
    if authority.as_str()[host.len()..].starts_with(':') && authority.port_u16().is_none_or(|p| p == 0) {
        return Err("The port must be a number from 1 to 65535.".into());
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!("The address must end with its path, without ? or #. {EXAMPLE}."));
    }
    let path = uri.path().trim_end_matches('/');
    let path = if path.ends_with(SOCKET_PATH) { path.to_owned() } else { format!("{path}{SOCKET_PATH}") };
    Ok(format!("{}://{}{path}", uri.scheme_str().unwrap_or("wss"), authority.as_str()))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn check_authority(path: &Path) -> Result<(), String> {
    let text = std::fs::read(path).map_err(|e| {
        format!(
            "The certificate file {} cannot be read ({}); correct the path or its permissions.",
            path.display(),
            plain(&e)
        )
    })?;
    let marker = b"-----BEGIN CERTIFICATE-----";
    if !text.windows(marker.len()).any(|w| w == marker) {
        return Err(format!(
            "The file {} holds no certificate in PEM form; choose the authority's .pem or .crt file.",
            path.display()
        ));
    }
    Ok(())
}

fn plain(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file",
        std::io::ErrorKind::PermissionDenied => "permission was denied",
        std::io::ErrorKind::IsADirectory => "it is a folder",
        _ => "the disk reported an error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(config: Value) -> Vec<(&'static str, String)> {
        let faults = Settings::read(&config).unwrap().check().unwrap_err();
        faults.into_iter().map(|f| (f.field, f.message)).collect()
    }

    #[test]
    fn nothing_configured_is_idle_with_the_defaults() {
        for config in [json!(null), json!({}), json!({"relay_url": "  "})] {
            let checked = Settings::read(&config).unwrap().check().unwrap();
            assert_eq!(
                checked,
                Checked {
                    relay_url: None,
                    pairing_ttl: 300,
                    require_device_confirmation: true,
                    notify_delay_ms: 20_000,
                    relay_ca: None
                }
            );
        }
    }

    #[test]
    fn addresses_are_completed_and_checked() {
        for (text, url) in [
            ("wss://relay.example", "wss://relay.example/v1/ws"),
            ("wss://relay.example/", "wss://relay.example/v1/ws"),
            ("wss://relay.example:8443/v1/ws/", "wss://relay.example:8443/v1/ws"),
            ("wss://relay.example/base", "wss://relay.example/base/v1/ws"),
            ("ws://127.0.0.1:8080", "ws://127.0.0.1:8080/v1/ws"),
            ("ws://localhost:8080/v1/ws", "ws://localhost:8080/v1/ws"),
            ("ws://[::1]:8080", "ws://[::1]:8080/v1/ws"),
        ] {
            assert_eq!(socket_url(text).as_deref(), Ok(url), "{text}");
        }
        for text in [
            "relay.example",
            "relay",
            "https://relay.example",
            "ws://relay.example",
            "ws://192.168.0.2:8080",
            "ws://127.0.0.1.example",
            "wss://",
            "wss:///v1/ws",
            "wss://me:secret@relay.example",
            "wss://relay.example/v1/ws?a=b",
            "wss://relay.example/v1/ws#a",
            "wss://relay.example:0",
            "wss://relay.example:99999",
            "wss://relay example",
            "wss://rélay\u{0}",
        ] {
            let message = socket_url(text).unwrap_err();
            assert!(message.ends_with('.') && !message.contains("secret"), "{text}: {message}");
        }
    }

    #[test]
    fn every_fault_is_told_with_its_setting() {
        let told = faults(
            json!({"relay_url": "http://a", "pairing_ttl": 601, "notify_delay_secs": 4000, "relay_ca": "/nonexistent/ca.pem"}),
        );
        let fields: Vec<_> = told.iter().map(|(field, _)| *field).collect();
        assert_eq!(fields, ["relay_url", "pairing_ttl", "notify_delay_secs", "relay_ca"]);
        assert!(told[3].1.contains("there is no such file"));
        assert_eq!(faults(json!({"pairing_ttl": 0}))[0].0, "pairing_ttl");
    }

    #[test]
    fn fault_20_a_value_that_cannot_be_read_is_an_error_not_a_default() {
        for config in [
            json!({"pairing_ttl": "300"}),
            json!({"pairing_ttl": -1}),
            json!({"pairing_ttl": 1.5}),
            json!({"require_device_confirmation": "yes"}),
            json!({"relay_url": null}),
            json!({"relay": "wss://a"}),
            json!([]),
            json!("wss://a"),
        ] {
            assert!(Settings::read(&config).is_err(), "{config}");
        }
    }

    #[test]
    fn a_certificate_file_must_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, "not a certificate").unwrap();
        let config = json!({"relay_ca": file.to_str().unwrap()});
        assert!(faults(config.clone())[0].1.contains("no certificate in PEM form"));
        assert_eq!(faults(json!({"relay_ca": dir.path().to_str().unwrap()}))[0].0, "relay_ca");
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----\n").unwrap();
        assert_eq!(Settings::read(&config).unwrap().check().unwrap().relay_ca, Some(file));
    }

    #[test]
    fn the_schema_describes_every_setting_with_its_default() {
        let schema = Settings::schema();
        let defaults = serde_json::to_value(Settings::default()).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(properties.len(), defaults.as_object().unwrap().len());
        for (name, default) in defaults.as_object().unwrap() {
            let property = &properties[name];
            assert_eq!(&property["default"], default, "{name}");
            assert!(property["title"].is_string() && property["description"].is_string(), "{name}");
        }
        assert_eq!(schema["additionalProperties"], json!(false));
    }
}
