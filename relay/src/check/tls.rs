//! How the relay is reached over TLS.

use std::path::Path;

use super::{Findings, sentence};
use crate::server::tls::acme;
use crate::server::tls::certificate::{Certificate, Facts};
use crate::settings::Settings;

const ABOUT: &str = "tls";
/// From when on somebody should look why a certificate is not renewed.
const SOON_DAYS: i64 = 14;

pub(super) fn check(settings: &Settings, now: i64, findings: &mut Findings) {
    if let (Some(certificate), Some(key)) = (&settings.tls_cert, &settings.tls_key) {
        files(certificate, key, now, findings);
    } else if settings.acme.is_on() {
        kept(settings, now, findings);
    } else if settings.insecure {
        let text = "Plain WebSocket is allowed on loopback: good for experiments and nothing else.";
        findings.warning(ABOUT, text);
    } else if settings.trusted_proxies.is_empty() {
        let text = "There is neither a certificate nor a trusted proxy, so every connection would be refused: set \
                    tls_cert and tls_key, acme.domains, or trusted_proxies.";
        findings.problem(ABOUT, text);
    } else {
        let proxies: Vec<_> = settings.trusted_proxies.iter().map(ToString::to_string).collect();
        let text = format!(
            "TLS ends at a proxy in {}, which must set X-Forwarded-Proto and X-Forwarded-For.",
            proxies.join(", ")
        );
        findings.fine(ABOUT, text);
        if proxies.iter().any(|network| network.ends_with("/0")) {
            let text = "Everybody is trusted as a proxy, so anybody can claim to have come over TLS from anywhere: \
                        name your proxy's own address in trusted_proxies.";
            findings.problem(ABOUT, text);
        }
    }
}

fn files(certificate: &Path, key: &Path, now: i64, findings: &mut Findings) {
    match read(certificate, key) {
        Ok(read) => dates(&read.facts, now, findings),
        Err(error) => findings.problem(ABOUT, error),
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if std::fs::metadata(key).is_ok_and(|about| about.permissions().mode() & 0o004 != 0) {
            let text = format!(
                "Everybody on this machine can read the private key {}: make it 600 with chmod.",
                key.display()
            );
            findings.warning(ABOUT, text);
        }
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Certificate, String> {
    let bytes = |path: &Path| {
        std::fs::read(path).map_err(|error| {
            format!(
                "The file {} cannot be read ({error}): put it there, or change the settings.",
                path.display()
            )
        })
    };
    let (chain, private) = (bytes(certificate)?, bytes(key)?);
    Certificate::from_pem((certificate, &chain), (key, &private)).map_err(|error| sentence(&error))
}

fn kept(settings: &Settings, now: i64, findings: &mut Findings) {
    match acme::kept(&settings.acme, &settings.data) {
        Ok(Some(facts)) => {
            dates(&facts, now, findings);
            let missing: Vec<_> =
                settings.acme.domains.iter().filter(|domain| !facts.covers(domain)).cloned().collect();
            if !missing.is_empty() {
                let text = format!(
                    "The kept certificate lacks {}: the relay asks for another when it runs.",
                    missing.join(", ")
                );
                findings.warning(ABOUT, text);
            }
        }
        Ok(None) => {
            let text = format!(
                "No certificate was obtained yet: when the relay runs it asks {}, and port 443 of {} must reach it.",
                settings.acme.directory,
                settings.acme.domains.join(", ")
            );
            findings.warning(ABOUT, text);
        }
        Err(error) => findings.problem(ABOUT, sentence(&error)),
    }
}

fn dates(facts: &Facts, now: i64, findings: &mut Findings) {
    let (left, names) = (facts.days_left(now), facts.names.join(", "));
    if now < facts.not_before {
        let text = "The certificate is not valid yet: check this machine's clock.";
        findings.problem(ABOUT, text);
    } else if left < 0 {
        findings
            .problem(ABOUT, format!("The certificate for {names} has ended {} days ago: renew it.", -left));
    } else if left < SOON_DAYS {
        findings.warning(
            ABOUT,
            format!("The certificate for {names} ends in {left} days: find out why it is not renewed."),
        );
    } else {
        findings.fine(ABOUT, format!("The certificate is for {names} and ends in {left} days."));
    }
    if facts.names.is_empty() {
        let text = "The certificate names no host, and no client accepts such a one: ask for one with your host's name.";
        findings.problem(ABOUT, text);
    }
}
