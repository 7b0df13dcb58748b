//! The relay's settings: one typed struct, from a TOML file, the environment and the command line, in that order.
//!
//! A name that is not known and a value that cannot be read stop the start and are named, for a relay that silently
//! ran on a default would surprise its operator later.

mod acme;
mod environment;
mod network;
mod push;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use skald_relay_common::limits::{Limits, PipeLimits};
use skald_relay_push::PushSettings;

pub use acme::Acme;
pub use network::{Network, NetworkError};

/// Everything that an operator may set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where to listen. Environment: `RELAY_BIND`.
    pub listen: SocketAddr,
    /// Where metrics are served, over plain HTTP; nowhere by default. Environment: `RELAY_METRICS_BIND`.
    pub metrics_listen: Option<SocketAddr>,
    /// The folder of the database; made with mode 0700. Environment: `RELAY_DATA`.
    pub data: PathBuf,
    /// Allow plain WebSocket, which is possible on a loopback address alone. Environment: `RELAY_INSECURE`.
    pub insecure: bool,
    /// PEM file with the certificate chain. Environment: `RELAY_TLS_CERT`.
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key. Environment: `RELAY_TLS_KEY`.
    pub tls_key: Option<PathBuf>,
    /// Networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed, such as `["10.0.0.0/8", "::1"]`.
    /// Environment: `RELAY_TRUSTED_PROXIES`, separated by commas.
    pub trusted_proxies: Vec<Network>,
    /// How logs are written. Environment: `RELAY_LOG_FORMAT`.
    pub log_format: LogFormat,
    /// What is logged: a level, or a filter such as `skald_relay=debug`. Environment: `RELAY_LOG`.
    pub log: String,
    /// How often expired messages, windows and namespaces are swept. Environment: `RELAY_SWEEP_INTERVAL_SECS`.
    pub sweep_interval_secs: u32,
    /// Certificates that the relay gets by itself.
    pub acme: Acme,
    /// Push providers. Environment: `RELAY_PUSH_`, the provider and the field's name in capitals, such as
    /// `RELAY_PUSH_APNS_KEY_ID`.
    pub push: PushSettings,
    /// Limits of the control socket. Environment: `RELAY_LIMIT_` and the field's name in capitals.
    pub limits: Limits,
    /// Limits of pipes. Environment: `RELAY_PIPE_` and the field's name in capitals.
    pub pipe: PipeLimits,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line per event.
    Text,
    /// One JSON object per event.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            metrics_listen: None,
            data: PathBuf::from("skald-relay-data"),
            insecure: false,
            tls_cert: None,
            tls_key: None,
            trusted_proxies: Vec::new(),
            log_format: LogFormat::Text,
            log: "info".to_owned(),
            sweep_interval_secs: 60,
            acme: Acme::default(),
            push: PushSettings::default(),
            limits: Limits::default(),
            pipe: PipeLimits::default(),
        }
    }
}

/// Why the settings do not allow a start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be opened.
    #[error("cannot read the settings file {path}: {cause}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// The file holds something that is no setting, or a value of the wrong kind.
    #[error("the settings file {path} is wrong at line {line}: {}", .cause.message().replace('\n', " "))]
    Toml {
        /// Which file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What.
        cause: Box<toml::de::Error>,
    },
    /// An environment variable holds something that cannot be read.
    #[error("the environment variable {name} cannot be read: {reason}")]
    Environment {
        /// Which variable.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A value that can be read and makes no sense.
    #[error("{name} {reason}")]
    Value {
        /// Which setting.
        name: String,
        /// What it should be.
        reason: String,
    },
}

impl SettingsError {
    pub(crate) fn value(name: &str, reason: impl Into<String>) -> Self {
        Self::Value { name: name.to_owned(), reason: reason.into() }
    }
}

impl Settings {
    /// Reads the file, where one is named, and then the environment over it.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut settings = match file {
            Some(path) => Self::from_file(path)?,
            None => Self::default(),
        };
        environment::apply(&mut settings, environment)?;
        Ok(settings)
    }

    fn from_file(path: &Path) -> Result<Self, SettingsError> {
        from_file(path)
    }

    /// Checks what no single value shows. Called by [`crate::Relay::start`].
    pub fn validate(&self) -> Result<(), SettingsError> {
        if self.insecure && !self.listen.ip().is_loopback() {
            return Err(SettingsError::value(
                "insecure",
                format!(
                    "allows plain WebSocket only on a loopback address, and {} is none: set tls_cert and tls_key or \
                     acme.domains, or listen behind a proxy named in trusted_proxies",
                    self.listen
                ),
            ));
        }
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => return Err(SettingsError::value("tls_key", "is missing beside tls_cert")),
            (None, Some(_)) => return Err(SettingsError::value("tls_cert", "is missing beside tls_key")),
            (Some(_), Some(_)) if self.insecure => {
                return Err(SettingsError::value("insecure", "cannot be set together with a certificate"));
            }
            _ => {}
        }
        self.acme.validate()?;
        if self.acme.is_on() && (self.insecure || self.tls_cert.is_some()) {
            return Err(SettingsError::value(
                "acme.domains",
                "cannot be set together with insecure or tls_cert: a certificate has one source",
            ));
        }
        if !self.insecure && self.push.gateway.as_ref().is_some_and(|gateway| gateway.is_plain()) {
            return Err(SettingsError::value(
                "push.gateway.url",
                "must begin with https://: plain http is for a gateway on this machine, and with insecure alone",
            ));
        }
        if self.sweep_interval_secs == 0 {
            return Err(SettingsError::value("sweep_interval_secs", "must be at least 1"));
        }
        positive("limits", &self.limits, &["max_database_bytes"])?;
        positive("pipe", &self.pipe, &["max_bps"])?;
        let limits = &self.limits;
        if limits.pairing_ttl_secs > limits.pairing_ttl_max_secs {
            return Err(SettingsError::value(
                "limits.pairing_ttl_secs",
                "must not exceed limits.pairing_ttl_max_secs",
            ));
        }
        if limits.max_live_frame_bytes < limits.max_frame_bytes {
            return Err(SettingsError::value(
                "limits.max_live_frame_bytes",
                "must not be below limits.max_frame_bytes",
            ));
        }
        if limits.max_frame_bytes < 1024 {
            return Err(SettingsError::value("limits.max_frame_bytes", "must be at least 1024"));
        }
        Ok(())
    }

    /// Whether metrics would be served where strangers may reach them.
    pub fn metrics_are_exposed(&self) -> bool {
        let private = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
        };
        self.metrics_listen.is_some_and(|address| !private(address.ip()))
    }

    /// Whether this relay serves TLS itself.
    pub fn serves_tls(&self) -> bool {
        self.tls_cert.is_some() || self.acme.is_on()
    }
}

/// Reads a file of settings, the relay's or a gateway's.
pub(crate) fn from_file<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, SettingsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| SettingsError::File { path: path.to_owned(), cause })?;
    toml::from_str(&text).map_err(|cause: toml::de::Error| {
        let before = text.get(..cause.span().map_or(0, |span| span.start)).unwrap_or(&text);
        let line = before.matches('\n').count() + 1;
        SettingsError::Toml { path: path.to_owned(), line, cause: Box::new(cause) }
    })
}

/// Every number of a group of limits, but the named exceptions, must be at least 1.
fn positive<T: Serialize>(group: &str, limits: &T, except: &[&str]) -> Result<(), SettingsError> {
    let table = toml::Table::try_from(limits).map_err(|e| SettingsError::value(group, e.to_string()))?;
    for (key, value) in &table {
        if value.as_integer() == Some(0) && !except.contains(&key.as_str()) {
            return Err(SettingsError::value(&format!("{group}.{key}"), "must be at least 1"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_survive_toml() {
        let settings = Settings::default();
        settings.validate().unwrap();
        let text = toml::to_string(&settings).unwrap();
        assert_eq!(toml::from_str::<Settings>(&text).unwrap(), settings);
    }

    #[test]
    fn an_unknown_key_in_the_file_is_refused_by_name() {
        let error = toml::from_str::<Settings>("[limits]\nmax_frames = 3").unwrap_err();
        assert!(error.to_string().contains("max_frames"), "{error}");
    }

    #[test]
    fn insecure_is_for_loopback_alone() {
        let open = Settings { insecure: true, listen: "0.0.0.0:1".parse().unwrap(), ..Settings::default() };
        assert!(open.validate().unwrap_err().to_string().starts_with("insecure "));
        let home = Settings { insecure: true, listen: "[::1]:1".parse().unwrap(), ..Settings::default() };
        home.validate().unwrap();
    }

    #[test]
    fn a_zero_limit_is_refused_by_name_but_no_bandwidth_cap_is_fine() {
        let mut settings = Settings::default();
        settings.pipe.max_bps = 0;
        settings.validate().unwrap();
        settings.pipe.max_per_ns = 0;
        assert_eq!(settings.validate().unwrap_err().to_string(), "pipe.max_per_ns must be at least 1");
    }
}
