//! Settings from environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{LogFormat, Settings, SettingsError};

const LIMIT_PREFIX: &str = "RELAY_LIMIT_";
const PIPE_PREFIX: &str = "RELAY_PIPE_";
const ACME_PREFIX: &str = "RELAY_ACME_";

/// Lays the environment over `settings`. Variables of other programs are left alone; one that begins like a limit of
/// ours and is none is refused, for it is a spelling mistake.
pub(super) fn apply(
    settings: &mut Settings,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(), SettingsError> {
    let mut vars = BTreeMap::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|n| n.starts_with("RELAY_")).map(str::to_owned) else {
            continue;
        };
        let value = value.into_string().map_err(|_| wrong(&name, "it is not valid UTF-8"))?;
        vars.insert(name, value);
    }
    let mut take = |name: &str| vars.remove(name);

    if let Some(text) = take("RELAY_BIND") {
        settings.listen = parse("RELAY_BIND", &text, "an address with a port, such as 127.0.0.1:8080")?;
    }
    if let Some(text) = take("RELAY_METRICS_BIND") {
        let at = parse("RELAY_METRICS_BIND", &text, "an address with a port, such as 127.0.0.1:9090")?;
        settings.metrics_listen = Some(at);
    }
    if let Some(text) = take("RELAY_DATA") {
        settings.data = filled("RELAY_DATA", text)?.into();
    }
    if let Some(text) = take("RELAY_INSECURE") {
        settings.insecure = match text.as_str() {
            "1" | "true" => true,
            "0" | "false" => false,
            _ => return Err(wrong("RELAY_INSECURE", "it must be true or false")),
        };
    }
    if let Some(text) = take("RELAY_TLS_CERT") {
        settings.tls_cert = Some(filled("RELAY_TLS_CERT", text)?.into());
    }
    if let Some(text) = take("RELAY_TLS_KEY") {
        settings.tls_key = Some(filled("RELAY_TLS_KEY", text)?.into());
    }
    if let Some(text) = take("RELAY_TRUSTED_PROXIES") {
        settings.trusted_proxies = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| parse("RELAY_TRUSTED_PROXIES", part, "a list of networks such as 10.0.0.0/8,::1"))
            .collect::<Result<_, _>>()?;
    }
    if let Some(text) = take("RELAY_LOG_FORMAT") {
        settings.log_format = match text.as_str() {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            _ => return Err(wrong("RELAY_LOG_FORMAT", "it must be text or json")),
        };
    }
    if let Some(text) = take("RELAY_LOG") {
        settings.log = filled("RELAY_LOG", text)?;
    }
    if let Some(text) = take("RELAY_SWEEP_INTERVAL_SECS") {
        settings.sweep_interval_secs =
            parse("RELAY_SWEEP_INTERVAL_SECS", &text, "a whole number of seconds")?;
    }
    let acme = &mut settings.acme;
    if let Some(text) = take("RELAY_ACME_DOMAINS") {
        acme.domains = words(&text);
    }
    if let Some(text) = take("RELAY_ACME_CONTACT") {
        acme.contact = words(&text);
    }
    if let Some(text) = take("RELAY_ACME_DIRECTORY") {
        acme.directory = filled("RELAY_ACME_DIRECTORY", text)?;
    }
    if let Some(text) = take("RELAY_ACME_ROOT_CA") {
        acme.root_ca = Some(filled("RELAY_ACME_ROOT_CA", text)?.into());
    }
    super::push::apply(&mut settings.push, &mut vars)?;
    settings.limits = numbers(&settings.limits, LIMIT_PREFIX, &mut vars)?;
    settings.pipe = numbers(&settings.pipe, PIPE_PREFIX, &mut vars)?;
    let ours = [LIMIT_PREFIX, PIPE_PREFIX, ACME_PREFIX];
    match vars.keys().find(|name| ours.iter().any(|prefix| name.starts_with(prefix))) {
        Some(name) => Err(wrong(name, "there is no such setting")),
        None => Ok(()),
    }
}

/// Reads every number of a group of limits that the environment names.
fn numbers<T: Serialize + DeserializeOwned>(
    group: &T,
    prefix: &str,
    vars: &mut BTreeMap<String, String>,
) -> Result<T, SettingsError> {
    let mut table = toml::Table::try_from(group).map_err(|e| wrong(prefix, e))?;
    let mut named = Vec::new();
    for (key, value) in table.iter_mut() {
        let name = format!("{prefix}{}", key.to_uppercase());
        if let Some(text) = vars.remove(&name) {
            let number: u32 = match key.as_str() {
                // The numbers that may exceed 32 bits.
                "max_bps" | "max_database_bytes" | "outbox_total_bytes" => {
                    let bytes: u64 = parse(&name, &text, "a whole number of bytes")?;
                    *value = i64::try_from(bytes).map_err(|_| wrong(&name, "it is too large"))?.into();
                    continue;
                }
                _ => parse(&name, &text, "a whole number below 4294967296")?,
            };
            *value = i64::from(number).into();
            named.push(name);
        }
    }
    table.try_into().map_err(|e| wrong(&named.join(", "), e))
}

fn parse<T: std::str::FromStr>(name: &str, text: &str, expected: &str) -> Result<T, SettingsError> {
    text.trim().parse().map_err(|_| wrong(name, format!("it must be {expected}")))
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn filled(name: &str, text: String) -> Result<String, SettingsError> {
    if text.is_empty() { Err(wrong(name, "it is empty")) } else { Ok(text) }
}

fn wrong(name: &str, reason: impl ToString) -> SettingsError {
    SettingsError::Environment { name: name.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(vars: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        apply(&mut settings, vars.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))))?;
        Ok(settings)
    }

    #[test]
    fn every_documented_variable_is_read() {
        let s = load(&[
            ("RELAY_BIND", "127.0.0.1:9"),
            ("RELAY_METRICS_BIND", "127.0.0.1:10"),
            ("RELAY_DATA", "elsewhere"),
            ("RELAY_PIPE_PENDING_TTL_SECS", "1"),
            ("RELAY_PIPE_IDLE_TIMEOUT_SECS", "2"),
            ("RELAY_PIPE_MAX_PER_NS", "3"),
            ("RELAY_PIPE_MAX_FRAME_BYTES", "4"),
            ("RELAY_PIPE_MAX_BPS", "5000000000"),
            ("RELAY_LIMIT_CHALLENGE_TIMEOUT_SECS", "6"),
            ("RELAY_LIMIT_IDLE_TIMEOUT_SECS", "7"),
            ("RELAY_LIMIT_PING_INTERVAL_SECS", "8"),
            ("RELAY_LIMIT_CONNECTIONS_PER_IP_PER_MINUTE", "9"),
            ("RELAY_LIMIT_MESSAGES_PER_MINUTE", "10"),
            ("RELAY_LIMIT_QUEUE_PER_CLIENT", "11"),
            ("RELAY_LIMIT_MAX_DATABASE_BYTES", "6000000000"),
            ("RELAY_TRUSTED_PROXIES", "10.0.0.0/8, ::1"),
            ("RELAY_ACME_DOMAINS", "a.example, b.example"),
            ("RELAY_ACME_CONTACT", "mailto:me@a.example"),
            ("RELAY_ACME_DIRECTORY", "https://ca.example/directory"),
            ("RELAY_ACME_ROOT_CA", "ca.pem"),
            ("UNRELATED", "x"),
            ("RELAY_SERVICE_HOST", "another program's"),
        ])
        .unwrap();
        assert_eq!((s.listen.port(), s.data.to_str()), (9, Some("elsewhere")));
        assert_eq!(s.metrics_listen.map(|at| at.port()), Some(10));
        let p = &s.pipe;
        let pipe = (p.pending_ttl_secs, p.idle_timeout_secs, p.max_per_ns, p.max_frame_bytes, p.max_bps);
        assert_eq!(pipe, (1, 2, 3, 4, 5_000_000_000));
        let l = &s.limits;
        assert_eq!((l.challenge_timeout_secs, l.idle_timeout_secs, l.ping_interval_secs), (6, 7, 8));
        assert_eq!((l.connections_per_ip_per_minute, l.messages_per_minute, l.queue_per_client), (9, 10, 11));
        assert_eq!(l.max_database_bytes, 6_000_000_000);
        assert_eq!(s.trusted_proxies.len(), 2);
        assert_eq!((s.acme.domains.len(), s.acme.contact.len()), (2, 1));
        assert_eq!(s.acme.directory, "https://ca.example/directory");
        assert!(s.acme.root_ca.is_some() && s.acme.is_on());
    }

    #[test]
    fn fault_20_a_value_that_cannot_be_read_stops_the_start_with_its_name() {
        for (name, value) in [
            ("RELAY_LIMIT_QUEUE_PER_CLIENT", "many"),
            ("RELAY_LIMIT_QUEUE_PER_CLIENT", ""),
            ("RELAY_LIMIT_QUEUE_PER_CLIENT", "-1"),
            ("RELAY_LIMIT_QUEUE_PER_CLIENT", "99999999999"),
            ("RELAY_PIPE_MAX_BPS", "1.5"),
            ("RELAY_PIPE_IDLE_TIMEOUT_SECS", "2m"),
            ("RELAY_LIMIT_NO_SUCH_THING", "1"),
            ("RELAY_BIND", "localhost"),
            ("RELAY_INSECURE", "yes please"),
            ("RELAY_TRUSTED_PROXIES", "10.0.0.0/99"),
            ("RELAY_LOG_FORMAT", "xml"),
            ("RELAY_ACME_DOMAIN", "a.example"),
            ("RELAY_ACME_ROOT_CA", ""),
        ] {
            let error = load(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name), "{name}={value}: {error}");
        }
    }
}
