//! From the host's items to what travels, and what fits where.

use std::collections::BTreeSet;

use skald_core_api as core;
use skald_core_api::{InboxSnapshot, RequestId};
use skald_e2e::framing;
use skald_payloads as wire;
use skald_payloads::{Envelope, InboxUpdate, Notification, Payload, clip, one_line};
use uuid::Uuid;

/// Characters of a notification's body that summarises items.
const SUMMARY_CHARS: usize = 240;
/// Characters of a title.
const TITLE_CHARS: usize = 120;

/// An approval as devices receive it, bearing its digest (spec crypto, Decisions).
pub fn approval(item: &core::Approval) -> wire::Approval {
    wire::Approval {
        request_id: item.request_id.to_string(),
        tool_name: item.tool_name.clone(),
        agent_label: item.agent_label.clone(),
        summary: item.summary.clone(),
        created_at: item.created_at,
        detail: item.detail.clone(),
        // A null member and an absent one are the same to a reader, but not to the digest.
        arguments: item.arguments.clone().filter(|v| !v.is_null()),
        blocks: item.blocks.clone().filter(|v| !v.is_null()),
        expires_at: item.expires_at,
        digest: None,
        received: wire::Received::default(),
    }
    .with_digest()
}

fn clarification(item: &core::Clarification) -> wire::Clarification {
    wire::Clarification {
        request_id: item.request_id.to_string(),
        question: item.question.clone(),
        agent_label: item.agent_label.clone(),
        created_at: item.created_at,
        context: item.context.clone(),
        suggested_answers: item.suggested_answers.clone(),
    }
}

fn elicitation(item: &core::Elicitation) -> wire::Elicitation {
    let schema = item.schema.clone().filter(|v| !v.is_null());
    wire::Elicitation {
        request_id: item.request_id.to_string(),
        server_name: item.server_name.clone(),
        message: item.message.clone(),
        field_name: item.field_name.clone(),
        sensitive: item.sensitive,
        is_confirmation: item.is_confirmation,
        created_at: item.created_at,
        mode: schema.is_some().then(|| "form".to_owned()),
        schema,
        url: None,
    }
}

/// The items of `inbox` that `show` names. `badge` counts those, too large ones included.
pub fn update(inbox: &InboxSnapshot, show: &BTreeSet<RequestId>) -> InboxUpdate {
    InboxUpdate {
        badge: show.len() as u64,
        approvals: inbox.approvals.iter().filter(|i| show.contains(&i.request_id)).map(approval).collect(),
        clarifications: inbox
            .clarifications
            .iter()
            .filter(|i| show.contains(&i.request_id))
            .map(clarification)
            .collect(),
        elicitations: inbox
            .elicitations
            .iter()
            .filter(|i| show.contains(&i.request_id))
            .map(elicitation)
            .collect(),
    }
}

/// Every pending item's id.
pub fn ids(inbox: &InboxSnapshot) -> BTreeSet<RequestId> {
    let approvals = inbox.approvals.iter().map(|i| i.request_id);
    let clarifications = inbox.clarifications.iter().map(|i| i.request_id);
    approvals.chain(clarifications).chain(inbox.elicitations.iter().map(|i| i.request_id)).collect()
}

/// A payload, and how long it is once framed.
pub struct Encoded {
    /// Its JSON text.
    pub body: Vec<u8>,
    framed: usize,
}

impl Encoded {
    /// Encodes a payload.
    pub fn new(id: Uuid, now: i64, payload: Payload) -> Self {
        let body = Envelope::new(id, now, payload).encode();
        // What no reader would inflate again need not be compressed to find out that it does not fit.
        let framed =
            if body.len() > framing::MAX_INFLATED { usize::MAX } else { framing::encode_json(&body).len() };
        Self { body, framed }
    }

    /// Whether it rides inside a push.
    pub fn fits_push(&self) -> bool {
        wire::fits_push(self.framed)
    }

    /// Whether it may be stored and forwarded.
    pub fn fits_stored(&self) -> bool {
        wire::fits_stored(self.framed)
    }

    /// Whether it may be sent live.
    pub fn fits_live(&self) -> bool {
        wire::fits_live(self.framed)
    }
}

/// A snapshot small enough to be sent live: where the whole does not fit, the largest items stay out, whole, for an
/// item cut in the middle could be decided by who has not seen it (spec faults 25). The badge still counts them.
pub fn live_update(id: Uuid, now: i64, mut update: InboxUpdate) -> Encoded {
    loop {
        let encoded = Encoded::new(id, now, Payload::InboxUpdate(update.clone()));
        if encoded.fits_live() || update.listed() == 0 {
            return encoded;
        }
        // As much must go as this much compressed to; a tenth at least, so that few rounds are needed.
        let raw = encoded.body.len();
        let fitting = match encoded.framed {
            usize::MAX => framing::MAX_INFLATED,
            framed => raw / 100 * (wire::LIVE_LIMIT_BYTES * 98 / framed),
        };
        drop_largest(&mut update, raw - fitting.min(raw - raw / 10));
    }
}

/// Drops the largest items, `bytes` of JSON or more in all.
fn drop_largest(update: &mut InboxUpdate, bytes: usize) {
    fn sizes<'a, T: serde::Serialize>(
        items: &'a [T],
        id: fn(&T) -> &String,
    ) -> impl Iterator<Item = (usize, String)> + 'a {
        items.iter().map(move |i| (serde_json::to_vec(i).map_or(usize::MAX, |v| v.len()), id(i).clone()))
    }
    let mut all: Vec<_> = sizes(&update.approvals, |i| &i.request_id)
        .chain(sizes(&update.clarifications, |i| &i.request_id))
        .chain(sizes(&update.elicitations, |i| &i.request_id))
        .collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    let mut gone = BTreeSet::new();
    let mut dropped = 0usize;
    for (size, id) in all {
        if dropped >= bytes {
            break;
        }
        dropped = dropped.saturating_add(size);
        gone.insert(id);
    }
    update.approvals.retain(|i| !gone.contains(&i.request_id));
    update.clarifications.retain(|i| !gone.contains(&i.request_id));
    update.elicitations.retain(|i| !gone.contains(&i.request_id));
}

/// A notification that stands for a snapshot too large for a push: its body is the newest item's summary.
pub fn summary(update: &InboxUpdate, new: &BTreeSet<RequestId>) -> Notification {
    let is_new = |id: &str| id.parse::<RequestId>().is_ok_and(|id| new.contains(&id));
    let approvals = update
        .approvals
        .iter()
        .filter(|i| is_new(&i.request_id))
        .map(|i| (i.created_at, format!("{} asks to use {}", i.agent_label, i.tool_name), &i.summary));
    let clarifications = update
        .clarifications
        .iter()
        .filter(|i| is_new(&i.request_id))
        .map(|i| (i.created_at, format!("{} asks", i.agent_label), &i.question));
    let elicitations = update
        .elicitations
        .iter()
        .filter(|i| is_new(&i.request_id))
        .map(|i| (i.created_at, format!("{} needs input", i.server_name), &i.message));
    match approvals.chain(clarifications).chain(elicitations).max_by_key(|(at, ..)| *at) {
        Some((_, title, text)) => {
            let text = clip(&one_line(text), SUMMARY_CHARS);
            let body = match new.len() {
                0 | 1 => text,
                2 => format!("{text} (and one more)"),
                n => format!("{text} (and {} more)", n - 1),
            };
            Notification { title: clip(&one_line(&title), TITLE_CHARS), body }
        }
        None => {
            let body = match update.badge {
                0 => "Nothing is waiting for you any more.".to_owned(),
                1 => "One question is waiting for you.".to_owned(),
                n => format!("{n} questions are waiting for you."),
            };
            Notification { title: "Your Inbox has changed".into(), body }
        }
    }
}

/// A notification of the host's, its body shortened where it would be too large to be stored at the relay.
pub fn told(id: Uuid, now: i64, notification: &core::Notification) -> Encoded {
    let mut chars = notification.body.chars().count();
    loop {
        let body = clip(&notification.body, chars);
        let title = clip(&notification.title, 1_000);
        let encoded = Encoded::new(id, now, Payload::Notification(Notification { title, body }));
        if encoded.fits_stored() || chars == 0 {
            return encoded;
        }
        chars /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{ask, big_ask, inbox};
    use serde_json::json;

    fn all(inbox: &InboxSnapshot) -> InboxUpdate {
        update(inbox, &ids(inbox))
    }

    #[test]
    fn the_session_stays_at_home_and_the_digest_goes_along() {
        let mut item = ask(1, 0);
        item.session = Some("canary-session".into());
        item.arguments = Some(json!({"command": "ls"}));
        item.expires_at = Some(5);
        let sent = serde_json::to_value(approval(&item)).unwrap();
        assert!(!sent.to_string().contains("canary-session"));
        assert_eq!(sent["arguments"], json!({"command": "ls"}));
        assert_eq!(sent["expires_at"], 5);
        assert_eq!(sent["digest"], wire::item_digest(&sent).unwrap().to_string());
    }

    #[test]
    fn an_explicit_null_is_not_sent() {
        let mut item = ask(1, 0);
        item.arguments = Some(serde_json::Value::Null);
        let sent = serde_json::to_value(approval(&item)).unwrap();
        assert!(sent.get("arguments").is_none());
        let read: wire::Approval = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(sent["digest"], read.shown_digest().unwrap().to_string());
    }

    #[test]
    fn a_snapshot_too_large_for_live_leaves_whole_items_out_and_still_counts_them() {
        let inbox = inbox(vec![ask(1, 0), big_ask(2, 0, 700_000), ask(3, 0)]);
        let encoded = live_update(Uuid::nil(), 0, all(&inbox));
        assert!(encoded.fits_live());
        let Payload::InboxUpdate(read) = Envelope::parse(&encoded.body, 0).unwrap().payload else { panic!() };
        assert_eq!(read.badge, 3);
        assert_eq!(read.approvals, vec![approval(&ask(1, 0)), approval(&ask(3, 0))]);
    }

    #[test]
    fn many_large_items_are_cut_down_in_a_few_rounds() {
        let inbox = inbox((1..=500).map(|n| big_ask(n, 0, 20_000)).collect());
        let encoded = live_update(Uuid::nil(), 0, all(&inbox));
        assert!(encoded.fits_live());
        let Payload::InboxUpdate(read) = Envelope::parse(&encoded.body, 0).unwrap().payload else { panic!() };
        assert_eq!(read.badge, 500);
        assert!(read.listed() >= 20, "{}", read.listed());
    }

    #[test]
    fn fault_25_a_large_item_is_sent_whole_where_it_fits() {
        let item = big_ask(1, 0, 300_000);
        let encoded = live_update(Uuid::nil(), 0, all(&inbox(vec![item.clone()])));
        let Payload::InboxUpdate(read) = Envelope::parse(&encoded.body, 0).unwrap().payload else { panic!() };
        assert_eq!(read.approvals[0].arguments, item.arguments);
    }

    #[test]
    fn a_summary_names_the_newest_and_counts_the_rest() {
        let mut newest = ask(2, 9);
        newest.summary = format!("Run\na {}", "long ".repeat(100));
        let inbox = inbox(vec![ask(1, 3), newest, ask(3, 5)]);
        let told = summary(&all(&inbox), &ids(&inbox));
        assert_eq!(told.title, "Agent asks to use execute_cmd");
        assert!(told.body.starts_with("Run a long") && told.body.ends_with("… (and 2 more)"));
        assert!(Encoded::new(Uuid::nil(), 0, Payload::Notification(told)).fits_push());
        let nothing_new = summary(&all(&inbox), &BTreeSet::new());
        assert_eq!(nothing_new.body, "3 questions are waiting for you.");
    }

    #[test]
    fn a_summary_always_fits_a_push() {
        let mut item = ask(1, 0);
        item.agent_label = "☂".repeat(5_000);
        item.tool_name = "𝄞".repeat(5_000);
        item.summary = "\u{1d11e}".repeat(50_000);
        let inbox = inbox(vec![item]);
        let told = summary(&all(&inbox), &ids(&inbox));
        assert!(Encoded::new(Uuid::nil(), 0, Payload::Notification(told)).fits_push());
    }

    #[test]
    fn a_notification_never_exceeds_what_the_relay_stores() {
        let mut noise = skald_testkit::Rng::new(4);
        let body: String = noise.bytes(200_000).into_iter().map(|b| char::from(33 + b % 90)).collect();
        let encoded =
            told(Uuid::nil(), 0, &core::Notification { seq: 1, title: "t".into(), body, created_at: 0 });
        assert!(encoded.fits_stored() && encoded.body.len() > 20_000);
    }
}
