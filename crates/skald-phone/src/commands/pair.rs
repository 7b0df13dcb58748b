//! `pair`: from a QR code to an admitted device.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::json;
use skald_e2e::QrPayload;
use skald_relay_client::device;
use tokio::time::{Instant, sleep};

use super::{deadline, follow};
use crate::cli;
use crate::explain;
use crate::failure::{Failure, Outcome};
use crate::holder;
use crate::home::HomeLock;
use crate::out;
use crate::pairing::Pairing;
use crate::picture;
use crate::secret;
use crate::session::Session;
use crate::wire::{HostState, Link};

/// Names longer than this help nobody.
const MAX_NAME: usize = 60;
/// A command that is just ending gives the home free within this.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

pub async fn run(session: &Session, json: bool, args: cli::Pair) -> Outcome<()> {
    let qr = code(&args).await?;
    let name = name(args.name)?;
    let home = session.home();
    home.create()?;
    let lock = lock(session).await?;
    let pairing = Pairing::new(&qr, name);
    let before = Pairing::load(home)?;
    if before.as_ref().is_some_and(|b| b.agent_ed25519_pub != pairing.agent_ed25519_pub) {
        return Err(Failure::usage(
            "This device is paired with another host; run `skald-phone logout` first, or use another --home.",
        ));
    }
    let authority = session.ca().map(holder::read_authority).transpose()?;
    let options = holder::options(home, holder::authority(home, session.ca()));
    // Written first: whatever happens to this process from here on, the home knows whom it belongs to.
    pairing.store(home)?;
    if before.is_some() {
        holder::introduce_again(home)?;
    }
    let paired = match device::pair(&options, &qr).await {
        Ok(paired) => paired,
        Err(error) => {
            match &before {
                Some(before) => before.store(home)?,
                None => drop(Pairing::remove(home)),
            }
            return Err(explain::pairing(&error));
        }
    };
    // Only now: a pairing that fails must not cost a device the authority that it works with.
    if let Some(pem) = authority {
        holder::keep_authority(home, &pem)?;
    }
    drop(lock);
    let code = paired.verification_code;
    if json {
        out::json(&json!({"event": "paired", "verification_code": code.digits()}))?;
    } else {
        out::line(&format!("Verification code: {code}"))?;
        out::line("Compare it with the code that Skald shows, and admit this device there.")?;
    }
    admitted(session, json, args.wait).await
}

async fn code(args: &cli::Pair) -> Outcome<QrPayload> {
    let text = match (&args.qr, &args.payload) {
        (Some(path), _) => {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || {
                // A damaged code of ours is found as well, so that its own error is told.
                picture::read(&path, |text| {
                    !matches!(QrPayload::parse(text), Err(skald_e2e::QrError::NotOurs))
                })
            });
            read.await.map_err(|_| Failure::usage("The picture cannot be read."))??
        }
        (None, Some(payload)) if payload == "-" => secret::from_stdin("Pairing code", true)?.to_string(),
        (None, Some(payload)) => payload.clone(),
        (None, None) => {
            return Err(Failure::usage("Give --qr with a picture, or --payload with the code's text."));
        }
    };
    QrPayload::parse(&text).map_err(|e| Failure::usage(explain::sentence(&e.to_string())))
}

fn name(given: Option<String>) -> Outcome<String> {
    if let Some(name) = given {
        let clean = skald_payloads::one_line(&name);
        if clean.is_empty() || clean.chars().count() > MAX_NAME {
            return Err(Failure::usage(format!("The name must have between 1 and {MAX_NAME} characters.")));
        }
        return Ok(clean);
    }
    let uname = rustix::system::uname();
    let host = skald_payloads::one_line(&uname.nodename().to_string_lossy());
    Ok(if host.is_empty() { "terminal".into() } else { skald_payloads::clip(&host, MAX_NAME) })
}

async fn lock(session: &Session) -> Outcome<HomeLock> {
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        if let Some(lock) = session.home().try_lock()? {
            return Ok(lock);
        }
        if Instant::now() >= until {
            return Err(Failure::refused(format!(
                "Another skald-phone uses {}; stop it before you pair.",
                session.home().dir().display()
            )));
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the host lets this device in and has heard what it is.
async fn admitted(session: &Session, json: bool, wait: Duration) -> Outcome<()> {
    let mut told = false;
    let mut trouble = None;
    let waiting = follow(session, deadline(wait), wait, |view, fresh| {
        match view.link {
            Link::NotAdmitted if !told => {
                told = true;
                if !json {
                    out::aside("Waiting to be admitted …");
                }
            }
            Link::Connecting if view.error.is_some() && view.error != trouble => {
                trouble.clone_from(&view.error);
                out::aside(&explain::sentence(view.error.as_deref().unwrap_or_default()));
            }
            // The snapshot answers a request that followed the hello, so the host has that too.
            Link::Connected if fresh > 0 || view.host == HostState::Offline => {
                return ControlFlow::Break(Ok(()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    match waiting.await? {
        Ok(()) => {}
        Err(Some(view)) if view.link == Link::Connected => {}
        Err(_) => {
            return Err(Failure::unreachable(
                "The host has not admitted this device yet; the pairing is kept, so admit it there and use `skald-phone inbox`.",
            ));
        }
    }
    if json { out::json(&json!({"event": "admitted"})) } else { out::line("Admitted.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_clean_line() {
        assert_eq!(name(Some(" my\nphone\u{202e} ".into())).as_deref(), Ok("my phone"));
        assert_eq!(name(Some("\n".into())).expect_err("empty").code.exit(), 2);
        assert_eq!(name(Some("x".repeat(61))).expect_err("long").code.exit(), 2);
        assert!(name(None).is_ok_and(|n| !n.is_empty()));
    }
}
