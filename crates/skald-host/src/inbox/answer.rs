//! Answering: the first answer wins, in one transaction, whatever surface it came from.

use std::sync::Arc;
use std::time::Duration;

use skald_core_api::{
    Actor, Answer, AnswerOutcome, Approval, Decision, DecisionProof, Elicitation, ElicitationAction, Outcome,
    RequestId,
};

use super::rows::{self, End, Row};
use super::types::{ItemKind, ItemState, limits};
use super::{Inner, form};
use crate::audit::{self, About};
use crate::rules::{self, Call};
use crate::{Content, Error};

/// Takes the content out of an answer, so that whatever happens to it next, it is overwritten in the end.
pub(super) fn split(mut answer: Answer) -> (Answer, Option<Content>) {
    let content = match &mut answer {
        Answer::Elicitation { content, .. } => content.take().map(Content::new),
        _ => None,
    };
    (answer, content)
}

fn kind(answer: &Answer) -> ItemKind {
    match answer {
        Answer::Approval { .. } => ItemKind::Approval,
        Answer::Clarification { .. } => ItemKind::Clarification,
        Answer::Elicitation { .. } => ItemKind::Elicitation,
    }
}

fn outcome(answer: &Answer) -> Outcome {
    match answer {
        Answer::Approval { decision, reason, .. } => {
            let reason = reason.as_deref().map(str::trim).filter(|r| !r.is_empty()).map(str::to_owned);
            Outcome::Approval { decision: *decision, reason }
        }
        Answer::Clarification { answer } => Outcome::Clarification { answer: answer.clone() },
        Answer::Elicitation { action, .. } => Outcome::Elicitation { action: *action },
    }
}

fn action(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Approval { decision: Decision::Approved, .. } => "approved",
        Outcome::Approval { decision: Decision::Rejected, .. } => "rejected",
        Outcome::Clarification { .. } => "answered",
        Outcome::Elicitation { action: ElicitationAction::Accept } => "accept",
        Outcome::Elicitation { action: ElicitationAction::Decline } => "decline",
        Outcome::Elicitation { action: ElicitationAction::Cancel } => "cancel",
    }
}

fn proof(answer: &Answer) -> Option<&DecisionProof> {
    match answer {
        Answer::Approval { proof, .. } => proof.as_ref(),
        _ => None,
    }
}

/// What can be said of an answer without its item.
fn check(answer: &Answer) -> Result<(), Error> {
    let too_long = |field: &str, max| {
        Err(Error::field(field, format!("`{field}` must not be longer than {max} characters.")))
    };
    match answer {
        Answer::Approval { reason: Some(reason), .. } if reason.chars().count() > limits::TEXT => {
            too_long("reason", limits::TEXT)
        }
        Answer::Approval { decision: Decision::Rejected, bypass_secs: Some(_), .. } => {
            Err(Error::field("bypass_secs", "`bypass_secs` goes with approved only: leave it out."))
        }
        Answer::Approval { bypass_secs: Some(secs), .. } if *secs > limits::BYPASS => {
            let text = format!("`bypass_secs` must be 0 (for the session) or at most {}.", limits::BYPASS);
            Err(Error::field("bypass_secs", text))
        }
        Answer::Approval { proof: Some(proof), .. } => {
            let hex =
                |s: &str, len| s.len() == len && s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if hex(&proof.digest, 64) && hex(&proof.sig, 128) {
                return Ok(());
            }
            Err(Error::field("digest", "`digest` and `sig` must be lowercase hex of 32 and 64 bytes."))
        }
        Answer::Clarification { answer } if answer.trim().is_empty() => {
            Err(Error::field("answer", "`answer` must not be empty."))
        }
        Answer::Clarification { answer } if answer.chars().count() > limits::LONG_TEXT => {
            too_long("answer", limits::LONG_TEXT)
        }
        _ => Ok(()),
    }
}

fn expects(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Approval => "This is an approval: answer with `decision` approved or rejected.",
        ItemKind::Clarification => "This is a question: answer with `answer`.",
        ItemKind::Elicitation => "This asks for input: answer with `action` accept, decline or cancel.",
    }
}

/// Fits an answer's content to its item; `None` where no content goes with the answer.
fn fit(row: &Row, answer: &Answer, content: Option<Content>) -> Result<Option<Content>, Error> {
    let Answer::Elicitation { action: ElicitationAction::Accept, .. } = answer else { return Ok(None) };
    let item: Elicitation = rows::parse(&row.body)?;
    if item.is_confirmation {
        // Yes is the whole answer; what else came along was not asked for.
        return Ok(None);
    }
    form::check_content(item.field_name.as_deref(), item.schema.as_ref(), content).map(Some)
}

pub(super) async fn answer(
    inbox: Arc<Inner>,
    id: RequestId,
    answer: Answer,
    content: Option<Content>,
    by: Actor,
) -> Result<AnswerOutcome, Error> {
    check(&answer)?;
    let outcome = outcome(&answer);
    let mut tx = inbox.store.write().await?;
    let now = inbox.clock.now_ms();
    let Some(mut row) = rows::find(&mut tx, id).await? else { return Ok(AnswerOutcome::Unknown) };
    if row.kind != kind(&answer) {
        return Err(Error::field("", expects(row.kind)));
    }
    // The deadline counts, not whether the clockwork came round to it: an answer after it is not acted upon.
    let lapsed = row.state == ItemState::Pending && row.expires_at <= now;
    if lapsed {
        let end = End {
            state: ItemState::Expired,
            by: &Actor::Timeout,
            outcome: None,
            had_content: false,
            at: now,
        };
        rows::end(&mut tx, id, end).await?;
        audit::record(&mut tx, now, &Actor::Timeout, "expired", of(id)).await?;
        row.state = ItemState::Expired;
        row.ended_by = Some(Actor::Timeout);
    }
    if row.state != ItemState::Pending {
        // A device's channel delivers again after a crash: the same answer of the same device is no second answer.
        let again = matches!(by, Actor::Device { .. })
            && row.ended_by.as_ref() == Some(&by)
            && row.outcome.as_ref() == Some(&outcome);
        if !again {
            rows::add_late(&mut tx, &row, &by, &outcome, now).await?;
            let about =
                About { subject: Some(action(&outcome)), proof: proof(&answer), request_id: Some(id) };
            audit::record(&mut tx, now, &by, "late", about).await?;
        }
        let revision = if lapsed { Some(rows::next_revision(&mut tx).await?) } else { None };
        tx.commit().await?;
        let ended = [id];
        inbox.announce(revision, if lapsed { &ended } else { &[] });
        return Ok(AnswerOutcome::Late { standing: row.outcome, state: row.state.as_str().to_owned() });
    }

    let content = fit(&row, &answer, content)?;
    let end = End {
        state: ItemState::Resolved,
        by: &by,
        outcome: Some(&outcome),
        had_content: content.is_some(),
        at: now,
    };
    rows::end(&mut tx, id, end).await?;
    let about = About { request_id: Some(id), subject: None, proof: proof(&answer) };
    audit::record(&mut tx, now, &by, action(&outcome), about).await?;
    if let Answer::Approval { bypass_secs: Some(secs), .. } = &answer {
        let item: Approval = rows::parse(&row.body)?;
        let call = Call {
            source: &row.source,
            tool_name: &item.tool_name,
            agent_label: &item.agent_label,
            session: item.session.as_deref(),
        };
        rules::grant(&mut tx, &call, *secs, &by, now).await?;
    }
    let revision = rows::next_revision(&mut tx).await?;
    // The content is there before anyone can see that the item ended, and gone again if it did not.
    let held = content.is_some();
    if let Some(content) = content {
        inbox.vault.put(id, content);
    }
    if let Err(e) = tx.commit().await {
        drop(inbox.vault.take(id));
        return Err(e.into());
    }
    if held {
        drop_later(&inbox, id);
    }
    inbox.announce(Some(revision), &[id]);
    Ok(AnswerOutcome::Resolved)
}

fn of(id: RequestId) -> About<'static> {
    About { request_id: Some(id), ..About::default() }
}

/// Content that nobody fetched goes after two minutes, or when the host stops.
fn drop_later(inbox: &Arc<Inner>, id: RequestId) {
    let inbox = inbox.clone();
    inbox.store.tasks().clone().spawn(async move {
        tokio::select! {
            () = inbox.clock.sleep(Duration::from_secs(limits::CONTENT_SECS)) => {}
            () = inbox.stop.cancelled() => {}
        }
        drop(inbox.vault.take(id));
    });
}

/// Ends every item whose time has come.
pub(super) async fn expire(inbox: Arc<Inner>) -> Result<(), Error> {
    let mut tx = inbox.store.write().await?;
    let now = inbox.clock.now_ms();
    let due = rows::due(&mut tx, now).await?;
    if due.is_empty() {
        return Ok(());
    }
    let ids: Vec<RequestId> = due.iter().map(|row| row.id).collect();
    for id in &ids {
        let end = End {
            state: ItemState::Expired,
            by: &Actor::Timeout,
            outcome: None,
            had_content: false,
            at: now,
        };
        rows::end(&mut tx, *id, end).await?;
        audit::record(&mut tx, now, &Actor::Timeout, "expired", of(*id)).await?;
    }
    let revision = rows::next_revision(&mut tx).await?;
    tx.commit().await?;
    inbox.announce(Some(revision), &ids);
    Ok(())
}

/// The source, or the owner, takes a question back.
pub(super) async fn withdraw(inbox: Arc<Inner>, id: RequestId, by: Actor) -> Result<(), Error> {
    let mut tx = inbox.store.write().await?;
    let now = inbox.clock.now_ms();
    let missing = || Error::NotFound("There is no such request of yours.".into());
    let row = rows::find(&mut tx, id).await?.ok_or_else(missing)?;
    if row.source != by.to_string() && by != Actor::Owner {
        return Err(missing());
    }
    match row.state {
        ItemState::Pending if row.expires_at > now => {}
        // Withdrawing twice is one wish.
        ItemState::Cancelled => return Ok(()),
        ItemState::Pending | ItemState::Expired => {
            return Err(Error::Conflict("The request has expired already.".into()));
        }
        ItemState::Resolved => {
            return Err(Error::Conflict("The request was answered already: read its outcome.".into()));
        }
    }
    let end = End { state: ItemState::Cancelled, by: &by, outcome: None, had_content: false, at: now };
    rows::end(&mut tx, id, end).await?;
    audit::record(&mut tx, now, &by, "withdrawn", of(id)).await?;
    let revision = rows::next_revision(&mut tx).await?;
    tx.commit().await?;
    inbox.announce(Some(revision), &[id]);
    Ok(())
}
