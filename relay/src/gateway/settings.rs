//! What the operator of a gateway sets.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use skald_relay_push::PushSettings;
use skald_relay_push::gateway::{RelayAccess, TokenLimits};

use crate::settings::{self, Acme, LogFormat, Network, Settings, SettingsError};

/// Everything that the operator of a gateway may set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewaySettings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The folder of certificates that the gateway gets by itself; it keeps nothing else.
    pub data: PathBuf,
    /// Allow plain HTTP, which is possible on a loopback address alone.
    pub insecure: bool,
    /// PEM file with the certificate chain.
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key.
    pub tls_key: Option<PathBuf>,
    /// Certificates that the gateway gets by itself.
    pub acme: Acme,
    /// Networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: Vec<Network>,
    /// Where metrics are served.
    pub metrics_listen: Option<SocketAddr>,
    /// How logs are written.
    pub log_format: LogFormat,
    /// What is logged.
    pub log: String,
    /// Requests a minute from one address that come without a valid key.
    pub strangers_per_ip_per_minute: u32,
    /// Apple's and Google's keys.
    pub push: PushSettings,
    /// What one device's token may.
    pub tokens: TokenLimits,
    /// Who may use the gateway.
    pub relays: Vec<RelayAccess>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        let relay = Settings::default();
        Self {
            listen: relay.listen,
            data: "skald-gateway-data".into(),
            insecure: false,
            tls_cert: None,
            tls_key: None,
            acme: relay.acme,
            trusted_proxies: Vec::new(),
            metrics_listen: None,
            log_format: relay.log_format,
            log: relay.log,
            strangers_per_ip_per_minute: 30,
            push: PushSettings::default(),
            tokens: TokenLimits::default(),
            relays: Vec::new(),
        }
    }
}

impl GatewaySettings {
    /// Reads the file.
    pub fn load(file: &Path) -> Result<Self, SettingsError> {
        settings::from_file(file)
    }

    /// Checks what no single value shows.
    pub fn validate(&self) -> Result<(), SettingsError> {
        self.as_relay().validate()?;
        let push = &self.push;
        for (name, set) in [
            ("push.webpush", push.webpush.is_some()),
            ("push.ntfy", push.ntfy.is_some()),
            ("push.gateway", push.gateway.is_some()),
        ] {
            if set {
                return Err(SettingsError::value(
                    name,
                    "has no place in a gateway: relays reach these services by themselves",
                ));
            }
        }
        if self.relays.is_empty() {
            return Err(SettingsError::value(
                "relays",
                "is empty: make a key with skald-relay gateway key, and add what it prints",
            ));
        }
        let mut names = HashSet::new();
        for relay in &self.relays {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            let name = &relay.name;
            if name.is_empty() || name.len() > 64 || name == "-" || !name.bytes().all(plain) {
                return Err(SettingsError::value(
                    "relays",
                    format!("has the name {name:?}: use 1 to 64 letters, digits, dots and dashes"),
                ));
            }
            if !names.insert(name) {
                return Err(SettingsError::value("relays", format!("has the name {name:?} twice")));
            }
            if relay.per_minute == 0 || relay.burst == 0 {
                return Err(SettingsError::value(
                    "relays",
                    format!("allows {name:?} nothing: per_minute and burst must be at least 1"),
                ));
            }
        }
        for (name, value) in [
            ("tokens.per_minute", self.tokens.per_minute),
            ("tokens.burst", self.tokens.burst),
            ("tokens.remembered", self.tokens.remembered),
            ("strangers_per_ip_per_minute", self.strangers_per_ip_per_minute),
        ] {
            if value == 0 {
                return Err(SettingsError::value(name, "must be at least 1"));
            }
        }
        Ok(())
    }

    /// The part that a relay has as well: where it listens and how it is secured.
    pub(crate) fn as_relay(&self) -> Settings {
        Settings {
            listen: self.listen,
            data: self.data.clone(),
            insecure: self.insecure,
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            acme: self.acme.clone(),
            trusted_proxies: self.trusted_proxies.clone(),
            metrics_listen: self.metrics_listen,
            log_format: self.log_format,
            log: self.log.clone(),
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let settings: Result<GatewaySettings, _> = toml::from_str(text);
        match settings {
            Ok(settings) => settings.validate().map_or_else(|error| error.to_string(), |()| String::new()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_makes_no_gateway_is_refused_by_name() {
        let hash = "0".repeat(64);
        let relay = format!("[[relays]]\nname = \"home\"\nkey_sha256 = \"{hash}\"\n");
        assert_eq!(refusal(&relay), "");
        for (text, says) in [
            (String::new(), "gateway key"),
            (format!("{relay}{relay}"), "twice"),
            (relay.replace("home", "a b"), "letters"),
            (relay.replace("home", "-"), "letters"),
            (relay.replace(&hash, "abc"), "64 hexadecimal"),
            (format!("{relay}burst = 0\n"), "at least 1"),
            (format!("{relay}key = \"x\"\n"), "unknown field"),
            (format!("{relay}[tokens]\nburst = 0\n"), "tokens.burst"),
            (format!("{relay}[push.ntfy]\n"), "push.ntfy"),
            (format!("insecure = true\nlisten = \"0.0.0.0:1\"\n{relay}"), "insecure"),
        ] {
            let refusal = refusal(&text);
            assert!(refusal.contains(says), "{text}: {refusal}");
        }
    }
}
