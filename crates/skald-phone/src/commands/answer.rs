//! `approve`, `reject`, `answer`, and what all answers have in common: find the item, keep the answer, wait until the
//! host's Inbox proves that it counted.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{GRACE, Waiting, deadline, follow, not_admitted, obstacle};
use crate::cli;
use crate::desk::{self, Verdict, title};
use crate::draft::Draft;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::secret;
use crate::session::Session;
use crate::snapshot::{Item, Kind, Named, Snapshot};
use crate::truth::{self, Truth};
use crate::wire::{HostState, Link, Reply, Request, View};

pub async fn approve(session: &Session, json: bool, args: cli::Approve) -> Outcome<()> {
    let draft =
        Draft::Approval { approved: true, reason: None, bypass_secs: args.bypass.map(cli::Bypass::secs) };
    simple(session, json, &args.id, draft, args.wait.wait).await
}

pub async fn reject(session: &Session, json: bool, args: cli::Reject) -> Outcome<()> {
    let draft = Draft::Approval { approved: false, reason: args.reason, bypass_secs: None };
    simple(session, json, &args.id, draft, args.wait.wait).await
}

pub async fn answer(session: &Session, json: bool, args: cli::Answer) -> Outcome<()> {
    let text = if args.text == "-" { secret::from_stdin("Answer", false)?.to_string() } else { args.text };
    if text.trim().is_empty() {
        return Err(Failure::usage("The answer is empty; nothing was sent."));
    }
    simple(session, json, &args.id, Draft::Clarification { answer: text }, args.wait.wait).await
}

async fn simple(session: &Session, json: bool, id: &str, draft: Draft, wait: Duration) -> Outcome<()> {
    let until = deadline(wait);
    let item = find(session, id, draft.kind(), until, wait).await?;
    deliver(session, json, &item, draft, until, wait).await
}

/// Finds the item a person names: in a fresh snapshot, or, while the host cannot be asked, in the last one.
pub async fn find(session: &Session, id: &str, kind: Kind, until: Instant, wait: Duration) -> Outcome<Item> {
    let mut waiting = Waiting::default();
    // A relay that is down is given a part of the time; an item that is known can be answered without it.
    let patience = Instant::now() + wait / 4;
    let found = follow(session, until, GRACE, |view, fresh| {
        let cannot_ask = match view.link {
            Link::Connected => view.host == HostState::Offline,
            Link::NotAdmitted => false,
            _ => view.error.is_some() || Instant::now() > patience,
        };
        // What the first snapshot lacks may have been asked between the snapshot's making and this command.
        if fresh > 0 && (fresh > 1 || pick(view, id, kind, false) != Err(desk::gone())) {
            return ControlFlow::Break(pick(view, id, kind, true));
        }
        if cannot_ask && let Ok(item) = pick(view, id, kind, false) {
            return ControlFlow::Break(Ok(item));
        }
        waiting.tell(view, wait);
        ControlFlow::Continue(())
    });
    match found.await? {
        Ok(item) => Ok(item),
        Err(last) => {
            if last.as_ref().is_some_and(|view| view.link == Link::NotAdmitted) {
                return Err(not_admitted());
            }
            // Time is over. What is known already can still be answered; the outbox carries it to the next run.
            if let Some(Ok(item)) = last.as_ref().map(|view| pick(view, id, kind, false)) {
                return Ok(item);
            }
            Err(Failure::unreachable(format!(
                "{}, and this item is not known here yet; nothing was kept.",
                obstacle(last.as_ref())
            )))
        }
    }
}

fn pick(view: &View, id: &str, kind: Kind, fresh: bool) -> Outcome<Item> {
    let inbox = view.inbox.as_ref().map(Snapshot::of).unwrap_or_default();
    let item = match inbox.named(id) {
        Named::One(item) => item,
        Named::Several(n) => {
            return Err(Failure::usage(format!(
                "{n} items begin with these characters; give more of the id."
            )));
        }
        Named::Nothing if fresh => {
            return Err(Failure::refused(
                "Nothing in the inbox has this id: it was answered elsewhere, withdrawn, has lapsed or never was.",
            ));
        }
        Named::Nothing => return Err(desk::gone()),
    };
    if item.kind != kind {
        return Err(desk::wrong_kind(item));
    }
    if item.kind == Kind::Approval && item.contradicts_itself() {
        return Err(Failure::refused(
            "This request did not arrive as the host says it sent it; decide it on the host's page instead.",
        ));
    }
    if view.changed.contains(&item.id) {
        return Err(desk::changed());
    }
    Ok(item.clone())
}

/// Hands the answer to the holder, which keeps it before it sends it, and waits for what becomes of it.
pub async fn deliver(
    session: &Session,
    json: bool,
    item: &Item,
    draft: Draft,
    until: Instant,
    wait: Duration,
) -> Outcome<()> {
    let what = draft.what();
    let digest = item.digest().map(|d| d.to_string());
    let mut kept = false;
    let mut last: Option<View> = None;
    let mut waiting = Waiting::default();
    // A holder may end at any moment; the answer is offered to its successor, which knows it again from the disk.
    let mut tries = 0_u32;
    let mut refused_at = None;
    let verdict = 'holders: loop {
        if tries > 0 {
            if kept && Instant::now() >= until {
                break None;
            }
            if tries > 100 {
                return Err(Failure::refused(
                    "The process that uses this home does not answer; stop it and try again.",
                ));
            }
            session.pause().await;
        }
        tries += 1;
        let mut conversation = session.converse().await?;
        let request =
            Request::Answer { request_id: item.id.clone(), digest: digest.clone(), draft: draft.clone() };
        if conversation.say(&request).await.is_err() {
            continue;
        }
        let token = match conversation.answer().await {
            Ok(Some(Reply::Kept { token })) => token,
            Ok(_) => continue,
            // It was kept, and is over since: the item is gone.
            Err(failure) if kept && failure == desk::gone() => break Some(Verdict::Done),
            Err(failure) => return Err(failure),
        };
        kept = true;
        if conversation.say(&Request::Watch).await.is_err() {
            continue;
        }
        loop {
            let patience = refused_at.map_or(until, |at: Instant| until.min(at + GRACE));
            match timeout_at(patience, conversation.answer()).await {
                Err(_) => break 'holders None,
                Ok(reply) => match reply? {
                    Some(Reply::View(view)) => {
                        if let Some(over) = view.concluded.iter().find(|c| c.token == token) {
                            break 'holders Some(over.verdict);
                        }
                        refused_at = match view.link {
                            Link::NotAdmitted => refused_at.or_else(|| Some(Instant::now())),
                            Link::Connected => None,
                            _ => refused_at,
                        };
                        waiting.tell(&view, wait);
                        last = Some(*view);
                    }
                    Some(_) => {}
                    None => continue 'holders,
                },
            }
        }
    };
    let Some(verdict) = verdict else {
        return Err(Failure::unreachable(format!(
            "{}; your answer ({what}) is kept and is sent again at the next run.",
            match &last {
                Some(view) if view.link == Link::Connected && view.host != HostState::Offline =>
                    "Your host has not confirmed the answer in time".to_owned(),
                other => obstacle(other.as_ref()),
            }
        )));
    };
    let truth = match verdict {
        Verdict::Changed => None,
        Verdict::Done | Verdict::Elsewhere | Verdict::Lapsed | Verdict::Refused => {
            truth::of(session, &item.id).await
        }
    };
    match truth {
        Some(Truth::Other(how)) => {
            Err(Failure::refused(format!("Your answer ({what}) did not count: {how} before it arrived.")))
        }
        Some(Truth::Ours) => conclude(json, item, what, Verdict::Done),
        None => conclude(json, item, what, verdict),
    }
}

fn conclude(json: bool, item: &Item, what: &str, verdict: Verdict) -> Outcome<()> {
    match verdict {
        Verdict::Done if json => {
            out::json(&json!({"request_id": item.id, "answer": what, "result": "accepted"}))
        }
        Verdict::Done => {
            let mut word = what.to_owned();
            word[..1].make_ascii_uppercase();
            out::line(&format!("{word}: {}", title(item)))
        }
        Verdict::Elsewhere => Err(Failure::refused("This was ended elsewhere before your answer arrived.")),
        Verdict::Lapsed => Err(Failure::refused(
            "This lapsed at about the time of your answer, so your answer may not have counted; see the history on the host's page.",
        )),
        Verdict::Changed => Err(Failure::refused(
            "The request changed while your answer was on its way, so it did not count; look at it again and decide anew.",
        )),
        Verdict::Refused => Err(Failure::usage(
            "The host did not take this answer, because it does not fit what is asked; look at the item again and answer anew.",
        )),
    }
}
