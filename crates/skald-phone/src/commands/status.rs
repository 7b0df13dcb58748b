//! `status`: where this device stands.

use std::ops::ControlFlow;

use serde_json::json;

use super::{deadline, follow, obstacle};
use crate::cli;
use crate::failure::Outcome;
use crate::out::{self, now_ms};
use crate::pairing::Pairing;
use crate::render::stretch;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::text::one_line;
use crate::wire::{HostState, Link};

pub async fn run(session: &Session, json: bool, args: cli::Status) -> Outcome<()> {
    let Some(pairing) = Pairing::load(session.home())? else {
        return if json {
            out::json(&json!({"paired": false}))
        } else {
            out::line("This device is not paired; begin with `skald-phone pair`.")
        };
    };
    let found = follow(session, deadline(args.wait), args.wait, |view, fresh| {
        let settled = match view.link {
            Link::Connected => fresh > 0 || view.host == HostState::Offline,
            Link::Connecting => view.error.is_some(),
            Link::NotAdmitted | Link::Stopped => true,
        };
        if settled { ControlFlow::Break(Ok(view.clone())) } else { ControlFlow::Continue(()) }
    });
    let view = match found.await? {
        Ok(view) => view,
        Err(last) => last.unwrap_or_default(),
    };
    let code = session.verification_code()?;
    let inbox = view.inbox.as_ref().map(Snapshot::of);
    if json {
        return out::json(&json!({
            "paired": true,
            "name": pairing.name,
            "relay_url": pairing.relay_url,
            "namespace_id": pairing.namespace_id,
            "device_key": session.device_key()?,
            "verification_code": code.digits(),
            "link": view.link,
            "host": view.host,
            "error": view.error,
            "badge": inbox.as_ref().map(|i| i.badge),
            "received_at": view.received_at,
            "pending_answers": view.pending,
        }));
    }
    let mut text = format!(
        "Device:    {}\nKey:       {}\nRelay:     {}\nCode:      {code}\n",
        one_line(&pairing.name),
        session.device_key()?,
        one_line(&pairing.relay_url),
    );
    let online = view.link == Link::Connected && view.host == HostState::Online;
    let link = match (online, view.link) {
        (true, _) => "connected, and the host is there".to_owned(),
        (false, Link::NotAdmitted) => {
            "the host has not admitted this device; compare the code and admit it there".into()
        }
        _ => one_line(&obstacle(Some(&view))),
    };
    text.push_str(&format!("Standing:  {link}\n"));
    if let (Some(inbox), Some(at)) = (inbox, view.received_at) {
        let age = stretch(now_ms().saturating_sub(at).max(0));
        text.push_str(&format!(
            "Inbox:     {} waiting ({age} ago)\n",
            inbox.badge.max(inbox.items.len() as u64)
        ));
    }
    for answer in &view.pending {
        text.push_str(&format!("On its way: {} ({})\n", one_line(&answer.title), answer.what));
    }
    out::text_of(&text)
}
