//! Notifications.

use super::*;
use crate::machine::device::UNSEEN_MAX;

#[test]
fn notifications_go_once_and_in_order_to_each_device() {
    let mut m = machine(&[A, B]);
    assert_eq!(m.log_after(), Some(0));
    let out = sent(0, m.handle(0, Input::Log(vec![told(1), told(2)])));
    assert_eq!(words(&out), [(A, "title 1"), (B, "title 1")]);
    let out = m.handle(0, Input::Sent { to: A, lane: Lane::Log, ok: true });
    assert!(matches!(&out[0], Effect::Remember { device: A, memory } if memory.notified == 1));
    assert_eq!(words(&sent(0, out)), [(A, "title 2")]);
    let out = m.handle(0, Input::Sent { to: B, lane: Lane::Log, ok: false });
    assert!(out.is_empty());
    assert_eq!(words(&sent(1_000, m.handle(1_000, Input::Tick))), [(B, "title 1")]);
    assert_eq!(m.log_after(), Some(2));
}

#[test]
fn a_device_is_not_told_what_was_told_before_it_came() {
    let mut m = machine(&[]);
    let known = Known { memory: Memory { notified: 7, ..Memory::default() }, ..known(A) };
    m.handle(0, Input::Devices(vec![known]));
    assert_eq!(m.log_after(), Some(7));
    let out = sent(0, m.handle(0, Input::Log(vec![told(8)])));
    assert_eq!(words(&out), [(A, "title 8")]);
}

#[test]
fn a_flood_of_notifications_neither_fills_memory_nor_delays_a_snapshot() {
    let mut m = machine(&[A]);
    m.handle(0, Input::Log((1..=200).map(told).collect()));
    assert_eq!(m.log_after(), None, "no more is read until some have gone");
    let snapshot =
        InboxSnapshot { revision: 1, elicitations: vec![secret(1, 0)], ..InboxSnapshot::default() };
    assert_eq!(shown(&sent(0, m.handle(0, Input::Inbox(snapshot)))).len(), 1);
    m.handle(0, Input::Sent { to: A, lane: Lane::Log, ok: true });
    assert_eq!(m.log_after(), Some(200));
}

#[test]
fn notifications_leave_room_at_the_relay_for_questions_to_a_device_that_is_away() {
    let away = Known { online: false, ..known(A) };
    let mut m = machine(&[]);
    m.handle(0, Input::Devices(vec![away.clone(), known(B)]));
    let mut to_a = 0;
    let mut last_b = String::new();
    // More than the machine holds at once: nobody waits for the one that is away.
    for part in 0..5 {
        assert_eq!(m.log_after(), Some(part * 100));
        let mut out =
            sent(0, m.handle(0, Input::Log((part * 100 + 1..=part * 100 + 100).map(told).collect())));
        while let Some(next) = out.pop() {
            let Sent::Words { to, words } = next else { continue };
            if to == A {
                to_a += 1
            } else {
                last_b = words.title
            }
            out.extend(sent(0, m.handle(0, Input::Sent { to, lane: Lane::Log, ok: true })));
        }
    }
    assert_eq!((to_a, last_b.as_str()), (UNSEEN_MAX, "title 500"));
    // A question still goes to it, and when it is back so does the rest, read again from the host.
    assert_eq!(shown(&sent(DELAY, m.handle(DELAY, at(1, vec![ask(1, 0)])))).len(), 2);
    m.handle(DELAY, Input::Devices(vec![Known { online: true, ..away }, known(B)]));
    assert_eq!(m.log_after(), Some(i64::from(UNSEEN_MAX)));
    let out = sent(DELAY, m.handle(DELAY, Input::Log((101..=300).map(told).collect())));
    assert_eq!(words(&out), [(A, "title 101")]);
}
