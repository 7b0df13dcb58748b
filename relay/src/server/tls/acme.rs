//! Certificates from an authority that speaks ACME (RFC 8555), proved over TLS on the relay's own port (RFC 8737).
//!
//! A kept certificate serves at once. Without one the relay runs all the same: it answers the authority, and refuses
//! other TLS handshakes until it has one.

pub(crate) mod challenge;
mod http;
mod kept;
mod order;
mod schedule;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::challenge::Challenges;
use self::http::Http;
use self::kept::Kept;
use self::schedule::Schedule;
use super::certificate::Facts;
use super::{Current, TlsError};
use crate::settings::Acme;

/// The longest sleep, so that a machine that was suspended notices in time.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Keeps the certificate fresh.
pub(crate) struct Renewer {
    settings: Acme,
    kept: Kept,
    http: Http,
    current: Arc<Current>,
    challenges: Arc<Challenges>,
    schedule: Schedule,
}

impl Renewer {
    /// Reads what is kept, and puts a kept certificate in use.
    pub(super) fn open(
        settings: &Acme,
        data: &Path,
        current: Arc<Current>,
        challenges: Arc<Challenges>,
    ) -> Result<Self, TlsError> {
        let kept = Kept::open(data, &settings.directory)?;
        match kept.certificate()? {
            Some(certificate) => current.set(certificate),
            None => tracing::info!(
                domains = settings.domains.join(","),
                "there is no certificate yet: TLS connections are refused until the authority has given one"
            ),
        }
        // What cannot be read of the account is said at the start, not at the first renewal.
        kept.account()?;
        let http = Http::new(settings.root_ca.as_deref())?;
        Ok(Self {
            settings: settings.clone(),
            kept,
            http,
            current,
            challenges,
            schedule: Schedule::default(),
        })
    }

    /// Renews until stopped. When told, it tries at once instead of waiting.
    pub(super) async fn run(mut self, reload: Arc<Notify>, stop: CancellationToken) {
        loop {
            let luck = luck();
            loop {
                let wait = self.schedule.wait(now(), self.usable().as_ref(), luck);
                if wait.is_zero() {
                    break;
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = reload.notified() => {
                        if self.usable().is_none() {
                            break;
                        }
                    }
                    () = tokio::time::sleep(wait.min(LONGEST_SLEEP)) => {}
                }
            }
            let obtained = tokio::select! {
                () = stop.cancelled() => return,
                obtained = Box::pin(order::obtain(&self.settings, &self.kept, &self.http, &self.challenges)) => obtained,
            };
            let asked = self.http.take_retry_after();
            match obtained {
                Ok(certificate) => {
                    self.schedule.succeeded();
                    let days = certificate.facts.days_left(now());
                    tracing::info!(
                        domains = self.settings.domains.join(","),
                        days,
                        "a new certificate is in use"
                    );
                    self.current.set(certificate);
                }
                Err(error) => {
                    self.schedule.failed(now(), asked);
                    let days = self.current.facts().map(|facts| facts.days_left(now()));
                    tracing::error!(
                        %error,
                        days_left = days,
                        "no certificate could be obtained; it is tried again within the hour"
                    );
                }
            }
        }
    }

    /// The certificate in use, unless it lacks a name that it should have by now.
    fn usable(&self) -> Option<Facts> {
        self.current.facts().filter(|facts| self.settings.domains.iter().all(|domain| facts.covers(domain)))
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A number between 0 and 1. Without randomness nothing is spread, and nothing else suffers.
fn luck() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

/// What the kept certificate says, for who looks without running.
pub(crate) fn kept(settings: &Acme, data: &Path) -> Result<Option<Facts>, TlsError> {
    let kept = Kept::at(data, &settings.directory);
    kept.account()?;
    Http::new(settings.root_ca.as_deref())?;
    Ok(kept.certificate()?.map(|certificate| certificate.facts))
}
