//! `logout`: the host forgets this device, then this device forgets itself.

use serde_json::json;
use tokio::time::timeout;

use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::holder;
use crate::out;
use crate::session::Session;
use crate::wire::{Reply, Request};

pub async fn run(session: &Session, json: bool, args: cli::Logout) -> Outcome<()> {
    let done = ask(session, &args).await;
    // Keys that cannot be used any more cannot say goodbye either; they can still be deleted.
    if args.force && done.is_err() && session.home().exists() {
        session.close().await;
        match session.home().try_lock()? {
            Some(_lock) => holder::erase(session.home())?,
            None => return done,
        }
    } else {
        done?;
    }
    if json {
        out::json(&json!({"logged_out": true}))
    } else {
        out::line("Logged out; this device's keys are deleted.")
    }
}

async fn ask(session: &Session, args: &cli::Logout) -> Outcome<()> {
    let request = Request::Logout {
        force: args.force,
        wait_ms: u64::try_from(args.wait.wait.as_millis()).unwrap_or(u64::MAX),
    };
    // The holder keeps its own deadline; this one is for a holder that hangs.
    let patience = args.wait.wait + std::time::Duration::from_secs(20);
    let asked = async {
        loop {
            let mut conversation = session.converse().await?;
            if conversation.say(&request).await.is_ok()
                && let Some(Reply::Done) = conversation.answer().await?
            {
                return Ok(());
            }
            session.pause().await;
        }
    };
    timeout(patience, asked).await.map_err(|_| {
        Failure::refused("The process that uses this home does not answer; stop it and try again.")
    })?
}
