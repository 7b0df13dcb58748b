//! The machine in virtual time, case by case.

use skald_core_api::{Approval, InboxSnapshot, Notification as Told};
use skald_payloads::{Envelope, InboxUpdate, Notification};

mod log;

use super::*;
use crate::test::{ask, big_ask, id, inbox, question, secret};

pub(super) const A: DeviceKey = DeviceKey([0xa; 32]);
pub(super) const B: DeviceKey = DeviceKey([0xb; 32]);
const DELAY: i64 = 20_000;

pub(super) fn ids() -> Ids {
    let mut n = 0;
    Box::new(move || {
        n += 1;
        Uuid::from_u128(n)
    })
}

pub(super) fn known(key: DeviceKey) -> Known {
    Known { key, memory: Memory::default(), online: true }
}

/// A machine whose link is up, with these devices and an empty Inbox.
fn machine(devices: &[DeviceKey]) -> Machine {
    let mut machine = Machine::new(DELAY, ids());
    machine.handle(0, Input::Link(true));
    machine.handle(0, Input::Devices(devices.iter().copied().map(known).collect()));
    machine.handle(0, Input::Inbox(InboxSnapshot::default()));
    machine
}

fn at(revision: u64, approvals: Vec<Approval>) -> Input {
    Input::Inbox(InboxSnapshot { revision, ..inbox(approvals) })
}

/// What was sent, readable.
#[derive(Debug, PartialEq)]
enum Sent {
    Inbox { to: DeviceKey, live: bool, update: InboxUpdate },
    Words { to: DeviceKey, words: Notification },
    Receipt,
}

fn sent(now: i64, effects: Vec<Effect>) -> Vec<Sent> {
    let mut all = Vec::new();
    for effect in effects {
        let Effect::Send { to, live, bodies, .. } = effect else { continue };
        for body in bodies {
            all.push(match Envelope::parse(&body.json, now).unwrap().payload {
                Payload::InboxUpdate(update) => Sent::Inbox { to, live, update },
                Payload::Notification(words) => Sent::Words { to, words },
                Payload::Ack(_) => Sent::Receipt,
                other => panic!("{other:?}"),
            });
        }
    }
    all
}

fn shown(sent: &[Sent]) -> Vec<(DeviceKey, bool, Vec<String>)> {
    let ids = |u: &InboxUpdate| {
        let ids =
            u.approvals.iter().map(|i| &i.request_id).chain(u.clarifications.iter().map(|i| &i.request_id));
        ids.chain(u.elicitations.iter().map(|i| &i.request_id)).cloned().collect()
    };
    let inbox = |s: &Sent| match s {
        Sent::Inbox { to, live, update } => Some((*to, *live, ids(update))),
        _ => None,
    };
    sent.iter().filter_map(inbox).collect()
}

fn names(numbers: &[u128]) -> Vec<String> {
    numbers.iter().map(|n| id(*n).to_string()).collect()
}

fn done(machine: &mut Machine, now: i64, to: DeviceKey) -> Vec<Effect> {
    machine.handle(now, Input::Sent { to, lane: Lane::Inbox, ok: true })
}

#[test]
fn an_approval_waits_for_its_delay_and_then_goes_to_every_device() {
    let mut m = machine(&[A, B]);
    assert!(m.handle(1_000, at(1, vec![ask(1, 1_000)])).is_empty());
    assert_eq!(m.wake_at(1_000), Some(21_000));
    assert!(m.handle(20_999, Input::Tick).is_empty());
    let out = sent(21_000, m.handle(21_000, Input::Tick));
    assert_eq!(shown(&out), [(A, false, names(&[1])), (B, false, names(&[1]))]);
    let Sent::Inbox { update, .. } = &out[0] else { panic!() };
    assert_eq!(update.badge, 1);
}

#[test]
fn resolved_within_the_delay_nothing_is_sent() {
    let mut m = machine(&[A]);
    m.handle(1_000, at(1, vec![ask(1, 1_000)]));
    assert!(m.handle(5_000, at(2, vec![])).is_empty());
    assert_eq!(m.wake_at(5_000), None);
    assert!(m.handle(50_000, Input::Tick).is_empty());
}

#[test]
fn fault_23_once_sent_its_resolution_is_sent_to_every_device() {
    let mut m = machine(&[A, B]);
    m.handle(0, at(1, vec![ask(1, 0)]));
    m.handle(DELAY, Input::Tick);
    done(&mut m, DELAY, A);
    done(&mut m, DELAY, B);
    let out = sent(30_000, m.handle(30_000, at(2, vec![])));
    assert_eq!(shown(&out), [(A, false, vec![]), (B, false, vec![])]);
}

#[test]
fn an_elicitation_goes_at_once() {
    let mut m = machine(&[A]);
    let snapshot = InboxSnapshot {
        revision: 1,
        elicitations: vec![secret(1, 0)],
        clarifications: vec![question(2, 0)],
        ..InboxSnapshot::default()
    };
    let out = sent(0, m.handle(0, Input::Inbox(snapshot)));
    assert_eq!(shown(&out), [(A, false, names(&[1]))], "the clarification still waits");
}

#[test]
fn without_a_delay_everything_goes_at_once() {
    let mut m = Machine::new(0, ids());
    m.handle(0, Input::Link(true));
    m.handle(0, Input::Devices(vec![known(A)]));
    assert_eq!(shown(&sent(0, m.handle(0, at(1, vec![ask(1, 0)])))), [(A, false, names(&[1]))]);
}

#[test]
fn a_request_is_answered_at_once_live_to_that_device_alone_with_what_still_waits() {
    let mut m = machine(&[A, B]);
    m.handle(0, at(1, vec![ask(1, 0)]));
    let out = sent(1, m.handle(1, Input::Request(B)));
    assert_eq!(shown(&out), [(B, true, names(&[1]))]);
    let remembered = done(&mut m, 1, B);
    let Effect::Remember { device: B, memory } = &remembered[0] else { panic!("{remembered:?}") };
    assert_eq!(memory.shown, [id(1)].into());
}

#[test]
fn what_a_live_answer_showed_is_taken_back_from_that_device_alone() {
    let mut m = machine(&[A, B]);
    m.handle(0, at(1, vec![ask(1, 0)]));
    m.handle(1, Input::Request(B));
    done(&mut m, 1, B);
    assert_eq!(shown(&sent(2, m.handle(2, at(2, vec![])))), [(B, false, vec![])]);
}

#[test]
fn what_a_live_answer_showed_is_still_announced_when_it_is_due() {
    // The live answer may never have arrived (PeerOffline): the phone must be told all the same.
    let mut m = machine(&[A]);
    m.handle(0, at(1, vec![ask(1, 0)]));
    m.handle(1, Input::Request(A));
    done(&mut m, 1, A);
    assert_eq!(shown(&sent(DELAY, m.handle(DELAY, Input::Tick))), [(A, false, names(&[1]))]);
}

#[test]
fn a_snapshot_keeps_what_the_device_was_shown_and_leaves_out_what_still_waits() {
    let mut m = machine(&[A, B]);
    m.handle(0, at(1, vec![ask(1, 0)]));
    m.handle(DELAY, Input::Tick);
    done(&mut m, DELAY, A);
    done(&mut m, DELAY, B);
    m.handle(21_000, at(2, vec![ask(1, 0), ask(2, 21_000)]));
    m.handle(22_000, Input::Request(B));
    done(&mut m, 22_000, B);
    let out = sent(23_000, m.handle(23_000, at(3, vec![ask(2, 21_000)])));
    assert_eq!(shown(&out), [(A, false, vec![]), (B, false, names(&[2]))]);
}

#[test]
fn changes_while_a_snapshot_is_under_way_become_one() {
    let mut m = Machine::new(0, ids());
    m.handle(0, Input::Link(true));
    m.handle(0, Input::Devices(vec![known(A)]));
    assert_eq!(sent(0, m.handle(0, at(1, vec![ask(1, 0)]))).len(), 1);
    for revision in 2..100 {
        assert!(
            m.handle(0, at(revision, (1..=u128::from(revision)).map(|n| ask(n, 0)).collect())).is_empty()
        );
    }
    let out = shown(&sent(0, done(&mut m, 0, A)));
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].2.len(), 99);
    assert!(sent(0, done(&mut m, 0, A)).is_empty());
}

#[test]
fn a_snapshot_that_was_overtaken_is_no_news() {
    let mut m = Machine::new(0, ids());
    m.handle(0, Input::Link(true));
    m.handle(0, Input::Devices(vec![known(A)]));
    m.handle(0, at(5, vec![ask(1, 0)]));
    done(&mut m, 0, A);
    assert!(m.handle(0, at(4, vec![])).is_empty());
}

#[test]
fn a_snapshot_too_large_for_a_push_is_followed_by_its_summary() {
    let mut m = Machine::new(0, ids());
    m.handle(0, Input::Link(true));
    m.handle(0, Input::Devices(vec![known(A)]));
    let out = sent(0, m.handle(0, at(1, vec![big_ask(1, 0, 20_000)])));
    assert_eq!(shown(&out), [(A, false, names(&[1]))]);
    let Sent::Words { words, .. } = &out[1] else { panic!("{out:?}") };
    assert_eq!(words.body, "Run command 1");
    done(&mut m, 0, A);
    // Taking back one of two large items tells nobody anything new.
    let out = sent(0, m.handle(0, at(2, vec![big_ask(1, 0, 20_000), ask(2, 0)])));
    assert_eq!(out.len(), 2);
    done(&mut m, 0, A);
    let out = sent(0, m.handle(0, at(3, vec![big_ask(1, 0, 20_000)])));
    assert_eq!(out.len(), 1);
}

#[test]
fn a_snapshot_too_large_to_be_stored_is_told_in_words_and_fetched_live() {
    let mut m = Machine::new(0, ids());
    m.handle(0, Input::Link(true));
    m.handle(0, Input::Devices(vec![known(A)]));
    let out = sent(0, m.handle(0, at(1, vec![big_ask(1, 0, 200_000)])));
    assert!(matches!(&out[..], [Sent::Words { words, .. }] if words.body == "Run command 1"), "{out:?}");
    done(&mut m, 0, A);
    let out = sent(0, m.handle(0, Input::Request(A)));
    assert_eq!(shown(&out), [(A, true, names(&[1]))]);
    done(&mut m, 0, A);
    // Something small changes: the whole still does not fit, so the device is told to ask again.
    m.handle(0, at(2, vec![big_ask(1, 0, 200_000), ask(2, 0)]));
    done(&mut m, 0, A);
    let out = sent(0, m.handle(0, at(3, vec![big_ask(1, 0, 200_000)])));
    assert!(
        matches!(&out[..], [Sent::Words { words, .. }] if words.body == "One question is waiting for you."),
        "{out:?}"
    );
}

#[test]
fn nothing_leaves_while_the_relay_is_away_and_one_snapshot_once_it_is_back() {
    let mut m = Machine::new(0, ids());
    m.handle(0, Input::Devices(vec![known(A)]));
    for revision in 1..50 {
        assert!(m.handle(0, at(revision, vec![ask(u128::from(revision), 0)])).is_empty());
    }
    assert_eq!(m.wake_at(0), None);
    assert_eq!(shown(&sent(9, m.handle(9, Input::Link(true)))), [(A, false, names(&[49]))]);
}

#[test]
fn a_send_that_fails_is_tried_again_after_growing_pauses() {
    let mut m = Machine::new(0, ids());
    m.handle(0, Input::Link(true));
    m.handle(0, Input::Devices(vec![known(A)]));
    assert_eq!(sent(0, m.handle(0, at(1, vec![ask(1, 0)]))).len(), 1);
    let mut now = 0;
    for pause in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
        assert!(m.handle(now, Input::Sent { to: A, lane: Lane::Inbox, ok: false }).is_empty());
        assert_eq!(m.wake_at(now), Some(now + pause));
        now += pause;
        assert_eq!(m.handle(now, Input::Tick).len(), 1);
    }
    assert!(matches!(done(&mut m, now, A)[..], [Effect::Remember { .. }]));
    assert_eq!(m.wake_at(now), None);
}

#[test]
fn a_live_answer_that_cannot_leave_is_dropped() {
    let mut m = machine(&[A]);
    assert_eq!(m.handle(0, Input::Request(A)).len(), 1);
    assert!(m.handle(0, Input::Sent { to: A, lane: Lane::Inbox, ok: false }).is_empty());
    assert_eq!(m.wake_at(0), None);
}

#[test]
fn requests_while_an_answer_is_under_way_get_one_more() {
    let mut m = machine(&[A]);
    assert_eq!(m.handle(0, Input::Request(A)).len(), 1);
    for _ in 0..50 {
        assert!(m.handle(0, Input::Request(A)).is_empty());
    }
    assert_eq!(sent(0, done(&mut m, 0, A)).len(), 1);
    assert!(sent(0, done(&mut m, 0, A)).is_empty());
}

#[test]
fn what_was_told_before_a_restart_is_taken_back_after_it() {
    let memory = Memory { told: Some([id(1)].into()), ..Memory::default() };
    let mut m = Machine::new(DELAY, ids());
    m.handle(0, Input::Link(true));
    m.handle(0, Input::Devices(vec![Known { key: A, memory, online: false }]));
    assert_eq!(shown(&sent(0, m.handle(0, at(1, vec![])))), [(A, false, vec![])]);
}

#[test]
fn what_was_told_before_a_restart_is_not_told_again_and_a_delay_runs_on_over_it() {
    let memory = Memory { told: Some([id(1)].into()), ..Memory::default() };
    let mut m = Machine::new(DELAY, ids());
    m.handle(100_000, Input::Link(true));
    m.handle(100_000, Input::Devices(vec![Known { key: A, memory, online: false }]));
    assert!(m.handle(100_000, at(1, vec![ask(1, 0), ask(2, 95_000)])).is_empty());
    assert_eq!(m.wake_at(100_000), Some(115_000));
}

#[test]
fn a_question_from_a_clock_that_ran_ahead_waits_no_longer_than_its_delay() {
    let mut m = machine(&[A]);
    m.handle(5_000, at(1, vec![ask(1, 90_000_000)]));
    assert_eq!(m.wake_at(5_000), Some(25_000));
}

#[test]
fn a_device_admitted_later_is_told_what_is_pending() {
    let mut m = machine(&[]);
    assert!(m.handle(0, at(1, vec![ask(1, 0)])).is_empty());
    m.handle(DELAY, Input::Tick);
    let out = m.handle(50_000, Input::Devices(vec![known(A)]));
    assert_eq!(shown(&sent(50_000, out)), [(A, false, names(&[1]))]);
}

#[test]
fn an_admitted_device_is_not_woken_for_an_empty_inbox() {
    assert!(machine(&[A]).handle(0, Input::Tick).is_empty());
}

#[test]
fn a_revoked_device_is_sent_nothing_new() {
    let mut m = machine(&[A, B]);
    m.handle(0, at(1, vec![ask(1, 0)]));
    m.handle(1, Input::Devices(vec![known(B)]));
    assert_eq!(shown(&sent(DELAY, m.handle(DELAY, Input::Tick))), [(B, false, names(&[1]))]);
    assert!(m.handle(DELAY, Input::Request(A)).is_empty());
    assert!(m.handle(DELAY, Input::Sent { to: A, lane: Lane::Inbox, ok: true }).is_empty());
}

#[test]
fn a_device_that_showed_something_else_gets_a_snapshot_though_nothing_changed() {
    let mut m = machine(&[A, B]);
    m.handle(0, at(1, vec![ask(1, 0)]));
    m.handle(DELAY, Input::Tick);
    done(&mut m, DELAY, A);
    done(&mut m, DELAY, B);
    assert_eq!(shown(&sent(DELAY, m.handle(DELAY, Input::Refresh(A)))), [(A, false, names(&[1]))]);
}

#[test]
fn what_the_relay_refused_is_made_up_for_after_a_pause() {
    let mut m = machine(&[A]);
    m.handle(0, at(1, vec![ask(1, 0)]));
    m.handle(DELAY, Input::Tick);
    done(&mut m, DELAY, A);
    assert!(m.handle(DELAY, Input::Refused(A)).is_empty());
    let again = m.wake_at(DELAY).unwrap();
    assert_eq!(again, DELAY + 60_000);
    assert_eq!(shown(&sent(again, m.handle(again, Input::Tick))), [(A, false, names(&[1]))]);
}

#[test]
fn a_receipt_goes_to_who_is_there_and_wakes_nobody() {
    let mut m = machine(&[A]);
    let receipt =
        |m: &mut Machine| sent(0, m.handle(0, Input::Ack { to: A, ref_id: Uuid::nil().to_string() }));
    assert_eq!(receipt(&mut m), [Sent::Receipt]);
    m.handle(0, Input::Devices(vec![Known { online: false, ..known(A) }]));
    assert!(receipt(&mut m).is_empty());
}

fn told(seq: i64) -> Told {
    Told { seq, title: format!("title {seq}"), body: "body".into(), created_at: 0 }
}

fn words(sent: &[Sent]) -> Vec<(DeviceKey, &str)> {
    let title = |s: &'_ Sent| matches!(s, Sent::Words { .. });
    sent.iter()
        .filter(|s| title(s))
        .map(|s| match s {
            Sent::Words { to, words } => (*to, words.title.as_str()),
            _ => unreachable!(),
        })
        .collect()
}

#[test]
fn an_item_that_ended_while_a_crash_hid_that_it_was_sent_is_taken_back() {
    for live in [false, true] {
        let mut m = machine(&[A]);
        let effects = if live {
            m.handle(1_000, at(1, vec![ask(1, 1_000)]));
            m.handle(1_000, Input::Request(A))
        } else {
            m.handle(DELAY, at(1, vec![ask(1, 0)]))
        };
        let mut durable = Memory::default();
        for effect in effects {
            match effect {
                Effect::Remember { memory, .. } => durable = memory,
                // It has left, and nothing is noted any more.
                Effect::Send { .. } => break,
            }
        }
        let mut m = Machine::new(DELAY, ids());
        m.handle(30_000, Input::Link(true));
        m.handle(30_000, Input::Devices(vec![Known { key: A, memory: durable, online: true }]));
        let out = sent(30_000, m.handle(30_000, at(2, vec![])));
        assert_eq!(shown(&out), [(A, false, vec![])], "live: {live}");
    }
}

#[test]
fn a_receipt_names_the_answer_as_the_device_wrote_it() {
    let mut m = machine(&[A]);
    let written = "ABCDEF00-0000-4000-8000-00000000000F";
    let effects = m.handle(0, Input::Ack { to: A, ref_id: written.into() });
    let Effect::Send { bodies, .. } = &effects[0] else { panic!() };
    let Payload::Ack(ack) = Envelope::parse(&bodies[0].json, 0).unwrap().payload else { panic!() };
    assert_eq!(ack.ref_id, written);
}
