//! The plugin's settings: one typed struct, the schema its form is drawn from, and plain words for what is wrong.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::access::Allowed;
use crate::lines::{Folder, Port, folder, port};
use crate::surroundings::Surroundings;

const MIB: u64 = 1024 * 1024;
/// 1 TiB.
const MOST_MIB: u32 = 1024 * 1024;
const MOST_STREAMS: u32 = 64;
const MOST_CONNECTIONS: u32 = 256;
const MOST_LINES: usize = 64;

/// The settings as they are stored. What is left out has its default; unknown names are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether files are offered.
    pub file_enabled: bool,
    /// The folders, one a line.
    pub file_folders: Vec<String>,
    /// The devices that may use them; empty: every admitted one.
    pub file_devices: Vec<String>,
    /// Largest file that may be put, in MiB.
    pub file_max_mib: u32,
    /// What may be put into one folder on one day, in MiB.
    pub file_daily_mib: u32,
    /// Streams at once.
    pub file_streams: u32,
    /// Whether the log is offered.
    pub log_enabled: bool,
    /// The devices that may read it; empty: every admitted one.
    pub log_devices: Vec<String>,
    /// Streams at once.
    pub log_streams: u32,
    /// Whether ports are offered.
    pub tcp_enabled: bool,
    /// The ports, one a line.
    pub tcp_ports: Vec<String>,
    /// The devices that may use them; empty: every admitted one.
    pub tcp_devices: Vec<String>,
    /// Whether a port may be on another computer.
    pub tcp_beyond_loopback: bool,
    /// Connections at once.
    pub tcp_connections: u32,
    /// Seconds that a port has to take a connection.
    pub tcp_connect_secs: u32,
    /// Seconds after which a silent connection is closed.
    pub tcp_idle_secs: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            file_enabled: false,
            file_folders: Vec::new(),
            file_devices: Vec::new(),
            file_max_mib: 4096,
            file_daily_mib: 16_384,
            file_streams: 8,
            log_enabled: false,
            log_devices: Vec::new(),
            log_streams: 4,
            tcp_enabled: false,
            tcp_ports: Vec::new(),
            tcp_devices: Vec::new(),
            tcp_beyond_loopback: false,
            tcp_connections: 64,
            tcp_connect_secs: 10,
            tcp_idle_secs: 600,
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

/// Settings that hold. What is `None` is not offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Checked {
    pub files: Option<Files>,
    pub log: Option<Log>,
    pub ports: Option<Ports>,
}

/// Files are offered so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    pub folders: Vec<Folder>,
    pub devices: Allowed,
    pub streams: usize,
}

/// The log is offered so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    pub devices: Allowed,
    pub streams: usize,
}

/// Ports are offered so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ports {
    pub ports: Vec<Port>,
    pub devices: Allowed,
    pub beyond_loopback: bool,
    pub connections: usize,
    pub connect: Duration,
    pub idle: Duration,
}

impl Settings {
    /// Reads stored settings. An unreadable value is an error, never a default.
    pub fn read(config: &Value) -> Result<Self, String> {
        let config = match config {
            Value::Null => json!({}),
            Value::Object(_) => config.clone(),
            _ => return Err("The settings of local streams must be an object of names and values.".into()),
        };
        serde_json::from_value(config)
            .map_err(|e| format!("The settings of local streams cannot be read: {e}."))
    }

    /// Checks every setting and tells all faults at once. `found`: whether folders must be there now, as they must when
    /// somebody writes them down; a disk that is missing at a start is a matter of its folder alone.
    pub(crate) fn check(&self, around: &Surroundings, found: bool) -> Result<Checked, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut fault = |field, message: String| faults.push(Fault { field, message });
        let mut range = |field, value: u32, most: u32| {
            if !(1..=most).contains(&value) {
                fault(field, format!("Write a number from 1 to {most}."));
            }
        };
        range("file_max_mib", self.file_max_mib, MOST_MIB);
        range("file_daily_mib", self.file_daily_mib, MOST_MIB);
        range("file_streams", self.file_streams, MOST_STREAMS);
        range("log_streams", self.log_streams, MOST_STREAMS);
        range("tcp_connections", self.tcp_connections, MOST_CONNECTIONS);
        range("tcp_connect_secs", self.tcp_connect_secs, 120);
        range("tcp_idle_secs", self.tcp_idle_secs, 86_400);

        let (max, daily) = (u64::from(self.file_max_mib) * MIB, u64::from(self.file_daily_mib) * MIB);
        let mut folders: Vec<Folder> = Vec::new();
        for line in written(&self.file_folders) {
            let read = folder(line, max, daily).and_then(|folder| {
                if folders.iter().any(|f| f.name.eq_ignore_ascii_case(&folder.name)) {
                    return Err(format!("Two folders are called {}; give one another name.", folder.name));
                }
                placed(&folder.path, around, found)?;
                Ok(folder)
            });
            match read {
                Ok(folder) => folders.push(folder),
                Err(message) => fault("file_folders", message),
            }
        }
        let mut ports: Vec<Port> = Vec::new();
        for line in written(&self.tcp_ports) {
            let read = port(line, self.tcp_beyond_loopback).and_then(|port| {
                if ports.iter().any(|p| p.name.eq_ignore_ascii_case(&port.name)) {
                    return Err(format!("Two ports are called {}; give one another name.", port.name));
                }
                around.refuse_own(&port.host, port.port)?;
                Ok(port)
            });
            match read {
                Ok(port) => ports.push(port),
                Err(message) => fault("tcp_ports", message),
            }
        }
        for (field, lines) in [("file_folders", &self.file_folders), ("tcp_ports", &self.tcp_ports)] {
            if lines.len() > MOST_LINES {
                fault(field, format!("Write at most {MOST_LINES} lines."));
            }
        }
        let mut devices = |field, lines: &Vec<String>| {
            Allowed::read(&written(lines).map(str::to_owned).collect::<Vec<_>>())
                .map_err(|message| fault(field, message))
                .unwrap_or_default()
        };
        let checked = Checked {
            files: Some(Files {
                folders,
                devices: devices("file_devices", &self.file_devices),
                streams: self.file_streams as usize,
            })
            .filter(|_| self.file_enabled),
            log: Some(Log {
                devices: devices("log_devices", &self.log_devices),
                streams: self.log_streams as usize,
            })
            .filter(|_| self.log_enabled),
            ports: Some(Ports {
                ports,
                devices: devices("tcp_devices", &self.tcp_devices),
                beyond_loopback: self.tcp_beyond_loopback,
                connections: self.tcp_connections as usize,
                connect: Duration::from_secs(self.tcp_connect_secs.into()),
                idle: Duration::from_secs(self.tcp_idle_secs.into()),
            })
            .filter(|_| self.tcp_enabled),
        };
        if faults.is_empty() { Ok(checked) } else { Err(faults) }
    }

    /// The JSON schema the settings page is drawn from.
    pub fn schema() -> Value {
        let d = Self::default();
        let number = |title: &str, default: u32, most: u32, text: &str| json!({"type": "integer", "title": title, "default": default, "minimum": 1, "maximum": most, "description": text});
        let switch = |title: &str, text: &str| json!({"type": "boolean", "title": title, "default": false, "description": text});
        let lines = |title: &str, text: &str| {
            json!({"type": "array", "items": {"type": "string", "maxLength": 4096}, "maxItems": MOST_LINES,
                "default": [], "title": title, "description": text})
        };
        let devices = "One device a line: its key from the Devices page (at least 16 digits), then anything that helps you to know it by. Empty: every admitted device.";
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "file_enabled": switch("Offer files", "Devices may list and fetch files in the folders below, and put files where you allow it."),
                "file_folders": lines("Folders", "One folder a line: a name, then ro (read) or rw (read and put files there), then the path. For example: photos ro /srv/pictures. Before the path may stand max=2G (largest file) and daily=10G (in all, a day)."),
                "file_devices": lines("Devices that may use files", devices),
                "file_max_mib": number("Largest file", d.file_max_mib, MOST_MIB, "The largest file that devices may put, in MiB, where the folder's line does not say."),
                "file_daily_mib": number("Files a day", d.file_daily_mib, MOST_MIB, "How much devices may put into one folder on one day, in MiB, where the folder's line does not say."),
                "file_streams": number("File streams", d.file_streams, MOST_STREAMS, "How many may fetch and put files at once."),
                "log_enabled": switch("Offer the log", "Devices may read and follow what Skald logs here."),
                "log_devices": lines("Devices that may read the log", devices),
                "log_streams": number("Log streams", d.log_streams, MOST_STREAMS, "How many may follow the log at once."),
                "tcp_enabled": switch("Offer ports", "Devices may reach the ports below, for example a development server. A device says the name and never an address."),
                "tcp_ports": lines("Ports", "One port a line: a name, then the port of this computer. For example: dev 5173, or dev 127.0.0.1:5173. Skald's own port cannot be offered."),
                "tcp_devices": lines("Devices that may use ports", devices),
                "tcp_beyond_loopback": switch("Ports of other computers", "Let the lines above name other computers as well. What listens there then hears your devices through this computer."),
                "tcp_connections": number("Connections", d.tcp_connections, MOST_CONNECTIONS, "How many connections to ports at once."),
                "tcp_connect_secs": number("Connecting", d.tcp_connect_secs, 120, "How many seconds a port has to take a connection."),
                "tcp_idle_secs": number("Silence", d.tcp_idle_secs, 86_400, "After how many seconds a connection on which nothing moves is closed.")
            }
        })
    }
}

fn written(lines: &[String]) -> impl Iterator<Item = &str> {
    lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty())
}

/// Refuses a folder that is none, and one that would hand out Skald's keys.
fn placed(path: &Path, around: &Surroundings, found: bool) -> Result<(), String> {
    let shown = path.display();
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(_) if !found => return Ok(()),
        Err(e) => {
            return Err(match e.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    format!("The folder {shown} may not be looked at by Skald; change its permissions.")
                }
                _ => format!("There is no folder {shown}; correct the path."),
            });
        }
    };
    if !real.is_dir() {
        return Err(format!("{shown} is not a folder; name the folder that it lies in."));
    }
    let data = around.data.canonicalize().unwrap_or_else(|_| around.data.clone());
    if data.starts_with(&real) || real.starts_with(&data) {
        return Err(format!(
            "{shown} holds Skald's own data, with its keys, or lies within it; name another folder."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(data: &Path) -> Surroundings {
        Surroundings { data: data.into(), listen: Some("127.0.0.1:8787".parse().unwrap()) }
    }

    fn faults(config: Value, data: &Path) -> Vec<(&'static str, String)> {
        let faults = Settings::read(&config).unwrap().check(&around(data), true).unwrap_err();
        faults.into_iter().map(|f| (f.field, f.message)).collect()
    }

    #[test]
    fn nothing_is_offered_unless_it_is_enabled() {
        let dir = tempfile::tempdir().unwrap();
        for config in [json!(null), json!({}), json!({"file_folders": ["a ro /"], "tcp_ports": ["dev 1"]})] {
            let settings = Settings::read(&config).unwrap();
            if let Ok(checked) = settings.check(&around(&dir.path().join("data")), false) {
                assert_eq!(checked, Checked::default());
            }
        }
        let on = json!({"log_enabled": true});
        let checked = Settings::read(&on).unwrap().check(&around(dir.path()), true).unwrap();
        assert!(checked.log.is_some() && checked.files.is_none() && checked.ports.is_none());
    }

    #[test]
    fn a_folder_that_holds_the_keys_cannot_be_offered() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir_all(data.join("relay")).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        for path in ["/".into(), dir.path().to_path_buf(), data.clone(), data.join("relay"), link] {
            let told = faults(json!({"file_folders": [format!("a ro {}", path.display())]}), &data);
            assert!(told[0].1.contains("own data"), "{path:?}: {told:?}");
        }
        let fine = dir.path().join("fine");
        std::fs::create_dir(&fine).unwrap();
        let config = json!({"file_enabled": true, "file_folders": [format!("a rw {}", fine.display())]});
        let checked = Settings::read(&config).unwrap().check(&around(&data), true).unwrap();
        assert!(checked.files.unwrap().folders[0].write);
    }

    #[test]
    fn every_fault_is_told_with_its_setting() {
        let dir = tempfile::tempdir().unwrap();
        let told = faults(
            json!({"file_folders": ["photos ro /nonexistent"], "file_streams": 0, "tcp_ports": ["dev 8787"],
                "log_devices": ["Anna's phone"]}),
            dir.path(),
        );
        let fields: Vec<_> = told.iter().map(|(field, _)| *field).collect();
        assert_eq!(fields, ["file_streams", "file_folders", "tcp_ports", "log_devices"]);
        assert!(told[2].1.contains("Skald's own"), "{told:?}");
        let twice = faults(json!({"tcp_ports": ["dev 1", "DEV 2"]}), dir.path());
        assert!(twice[0].1.contains("Two ports"));
    }

    #[test]
    fn a_value_that_cannot_be_read_is_an_error_not_a_default() {
        for config in
            [json!({"file_enabled": "yes"}), json!({"files": true}), json!([]), json!({"tcp_ports": "dev 1"})]
        {
            assert!(Settings::read(&config).is_err(), "{config}");
        }
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
    }
}
