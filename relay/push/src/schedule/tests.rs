//! The machine in virtual time, one behaviour at a time.

use std::time::{Duration, Instant};

use skald_relay_common::ids::{NamespaceId, PublicKey};

use super::{Device, Effect, Event, Found, Note, Rules, Scheduler};
use crate::bridge::{Lane, Provider};
use crate::push::UnixMillis;
use crate::verdict::{Throttled, Verdict};

fn device(n: u8) -> Device {
    (NamespaceId::from_bytes([n; 32]), PublicKey::from_bytes([n; 32]))
}

fn apns() -> Lane {
    Lane::whole(Provider::Apns)
}

struct Bench {
    machine: Scheduler,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self::with(Rules::default())
    }

    fn with(rules: Rules) -> Self {
        Self { machine: Scheduler::new(rules, 7), now: Instant::now() }
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        self.machine.handle(self.now, event)
    }

    fn absent(&mut self, n: u8) {
        assert!(self.event(Event::Absent(device(n))).is_empty());
    }

    /// Goes to the next deadline, and gives the span and what is to be done then.
    fn next(&mut self) -> (Duration, Vec<Effect>) {
        let at = self.machine.deadline().expect("something is due");
        let span = at.saturating_duration_since(self.now);
        self.now = self.now.max(at);
        (span, self.event(Event::Tick))
    }

    fn look(&mut self) -> Device {
        match self.next().1.as_slice() {
            [Effect::Look(device)] => *device,
            other => panic!("{other:?}"),
        }
    }

    fn found(&mut self, device: Device, lane: Lane) -> Vec<Effect> {
        let expires = self.now + Duration::from_secs(7 * 86_400);
        self.event(Event::Looked(device, Found::Message { lane: Some(lane), expires }))
    }

    /// From absent to being with the provider.
    fn send(&mut self, n: u8, lane: Lane) {
        self.absent(n);
        let device = self.look();
        assert_eq!(self.found(device, lane), [Effect::Send { device, wake: false }]);
    }

    fn done(&mut self, n: u8, verdict: Verdict) -> Vec<Effect> {
        self.event(Event::Done(device(n), verdict))
    }
}

#[test]
fn a_burst_makes_one_push_after_the_window() {
    let mut bench = Bench::new();
    bench.absent(1);
    for _ in 0..50 {
        bench.now += Duration::from_millis(30);
        bench.absent(1);
    }
    let (span, effects) = bench.next();
    assert_eq!(span, Duration::from_millis(500), "the window counts from the first message");
    assert_eq!(effects, [Effect::Look(device(1))]);
    bench.found(device(1), apns());
    assert!(bench.done(1, Verdict::Accepted).is_empty());
    assert_eq!((bench.machine.waiting(), bench.machine.deadline()), (0, None));
}

#[test]
fn a_device_that_has_confirmed_meanwhile_is_not_pushed() {
    let mut bench = Bench::new();
    bench.absent(1);
    let device = bench.look();
    assert_eq!(bench.event(Event::Looked(device, Found::Nothing)), [Effect::Discard(device)]);
    assert_eq!(bench.machine.waiting(), 0);
}

#[test]
fn a_message_during_the_look_is_looked_at_once_more_and_one_during_the_push_makes_another() {
    let mut bench = Bench::new();
    bench.absent(1);
    let it = bench.look();
    bench.absent(1);
    assert_eq!(bench.found(it, apns()), [Effect::Discard(it), Effect::Look(it)]);
    assert_eq!(bench.found(it, apns()), [Effect::Send { device: it, wake: false }]);
    bench.absent(1);
    assert!(bench.done(1, Verdict::Accepted).is_empty());
    let (span, effects) = bench.next();
    assert_eq!((span, effects), (Duration::from_secs(2), vec![Effect::Look(it)]));
}

#[test]
fn a_devices_own_back_off_grows_and_obeys_the_provider() {
    let mut bench = Bench::new();
    bench.send(1, apns());
    let mut before = Duration::ZERO;
    for _ in 0..4 {
        assert!(bench.done(1, Verdict::later_for_device(None)).is_empty());
        assert_eq!(bench.machine.backing_off(), 1);
        // A new message does not shorten the wait.
        bench.absent(1);
        let (span, effects) = bench.next();
        assert!(span > before, "{span:?} after {before:?}");
        assert_eq!(effects, [Effect::Look(device(1))]);
        bench.found(device(1), apns());
        before = span;
    }
    let hour = Duration::from_secs(3600);
    bench.done(1, Verdict::later_for_device(Some(2 * hour)));
    let (span, _) = bench.next();
    assert!(span >= 2 * hour && span < 3 * hour, "{span:?}");
}

#[test]
fn no_answer_suspends_the_lane_for_all_and_one_probe_opens_it_again() {
    let mut bench = Bench::new();
    bench.send(1, apns());
    for n in 2..=4 {
        bench.absent(n);
    }
    let notes = bench.done(1, Verdict::unreachable("no connection"));
    assert!(matches!(&notes[..], [Effect::Note(Note::Suspended { alarm: false, .. })]), "{notes:?}");
    let mut looks = Vec::new();
    while looks.len() < 4 {
        looks.extend(bench.next().1);
    }
    // Device 1 probes; the others find the lane suspended.
    assert_eq!(looks[0], Effect::Look(device(1)));
    assert_eq!(bench.found(device(1), apns()), [Effect::Send { device: device(1), wake: false }]);
    for n in 2..=4 {
        assert_eq!(bench.found(device(n), apns()), [Effect::Discard(device(n))]);
    }
    // Another host of another provider suffers nothing.
    bench.send(9, Lane::host(Provider::WebPush, "push.example"));
    assert!(bench.done(9, Verdict::Accepted).is_empty());
    let effects = bench.done(1, Verdict::Accepted);
    let expected: Vec<_> = std::iter::once(Effect::Note(Note::Recovered(Provider::Apns)))
        .chain((2..=4).map(|n| Effect::Look(device(n))))
        .collect();
    assert_eq!(effects, expected);
}

#[test]
fn a_probe_that_has_nothing_to_send_passes_the_turn_on() {
    let mut bench = Bench::new();
    for n in 1..=2 {
        bench.send(n, apns());
    }
    bench.done(1, Verdict::unreachable("no connection"));
    bench.done(2, Verdict::unreachable("no connection"));
    let first = bench.look();
    assert_eq!(
        bench.event(Event::Looked(first, Found::Nothing)),
        [Effect::Discard(first), Effect::Look(device(2))]
    );
    assert_eq!(bench.found(device(2), apns()), [Effect::Send { device: device(2), wake: false }]);
}

#[test]
fn an_operators_fault_alarms_and_is_probed_slowly() {
    let mut bench = Bench::new();
    bench.send(1, apns());
    for _ in 0..3 {
        let notes = bench.done(1, Verdict::operator("InvalidProviderToken"));
        assert!(matches!(&notes[..], [Effect::Note(Note::Suspended { alarm: true, .. })]), "{notes:?}");
        let (span, _) = bench.next();
        assert!(span > Duration::from_secs(400) && span < Duration::from_secs(800), "{span:?}");
        bench.found(device(1), apns());
    }
}

#[test]
fn our_fault_gives_the_push_up_and_leaves_the_lane_open() {
    let mut bench = Bench::new();
    bench.send(1, apns());
    let effects = bench.done(1, Verdict::ours("BadTopic"));
    assert_eq!(effects, [Effect::Note(Note::GivenUp(device(1), "BadTopic".into()))]);
    assert_eq!((bench.machine.waiting(), bench.machine.suspended(Provider::Apns)), (0, 0));
}

#[test]
fn what_is_too_large_goes_once_more_without_content() {
    let mut bench = Bench::new();
    bench.send(1, apns());
    let it = device(1);
    assert_eq!(bench.done(1, Verdict::TooLarge), [Effect::Look(it)]);
    assert_eq!(bench.found(it, apns()), [Effect::Send { device: it, wake: true }]);
    let effects = bench.done(1, Verdict::TooLarge);
    assert!(matches!(&effects[..], [Effect::Note(Note::GivenUp(..))]), "{effects:?}");
}

#[test]
fn a_dead_token_is_forgotten_with_the_time_of_its_death() {
    let mut bench = Bench::new();
    bench.send(1, apns());
    let since = Some(UnixMillis(5));
    assert_eq!(bench.done(1, Verdict::TokenDead { since }), [Effect::Forget(device(1), since)]);
    assert_eq!(bench.machine.waiting(), 0);
}

#[test]
fn nothing_is_tried_beyond_the_messages_expiry() {
    let mut bench = Bench::new();
    bench.absent(1);
    let it = bench.look();
    let expires = bench.now + Duration::from_secs(60);
    bench.event(Event::Looked(it, Found::Message { lane: Some(apns()), expires }));
    let effects = bench.done(1, Verdict::later_for_device(Some(Duration::from_secs(61))));
    assert_eq!(effects, [Effect::Note(Note::Expired(Provider::Apns))]);
    assert_eq!(bench.machine.waiting(), 0);
    let dead = Found::Message { lane: Some(apns()), expires: bench.now };
    bench.absent(2);
    let it = bench.look();
    assert_eq!(bench.event(Event::Looked(it, dead)), [Effect::Discard(it)]);
}

#[test]
fn a_full_table_gives_a_parked_devices_place_away_and_otherwise_leaves_the_new_one_out() {
    let mut bench = Bench::with(Rules { devices: 2, ..Rules::default() });
    bench.send(1, apns());
    bench.done(1, Verdict::operator("Forbidden"));
    bench.absent(2);
    assert_eq!(bench.event(Event::Absent(device(3))), [Effect::Note(Note::LeftOut(device(1)))]);
    assert_eq!(bench.event(Event::Absent(device(4))), [Effect::Note(Note::LeftOut(device(4)))]);
    assert_eq!(bench.machine.waiting(), 2);
}

#[test]
fn one_namespace_has_no_more_than_its_share() {
    let mut bench = Bench::with(Rules { devices_per_namespace: 2, ..Rules::default() });
    let (home, key) = (device(1).0, |n| PublicKey::from_bytes([n; 32]));
    bench.event(Event::Absent((home, key(1))));
    bench.event(Event::Absent((home, key(2))));
    let third = (home, key(3));
    assert_eq!(bench.event(Event::Absent(third)), [Effect::Note(Note::LeftOut(third))]);
    bench.absent(2);
}

#[test]
fn no_more_are_under_way_than_allowed_and_a_slow_lane_leaves_room() {
    let mut bench = Bench::with(Rules { at_once: 3, at_once_per_lane: 2, ..Rules::default() });
    for n in 1..=5 {
        bench.absent(n);
    }
    let (_, effects) = bench.next();
    assert_eq!(effects.len(), 3);
    assert_eq!(bench.machine.deadline(), None, "only an answer makes room");
    for n in 1..=2 {
        assert_eq!(bench.found(device(n), apns()), [Effect::Send { device: device(n), wake: false }]);
    }
    let effects = bench.found(device(3), apns());
    assert_eq!(effects, [Effect::Discard(device(3)), Effect::Look(device(4))], "the lane is busy");
    let effects = bench.found(device(4), Lane::whole(Provider::Fcm));
    assert_eq!(effects, [Effect::Send { device: device(4), wake: false }]);
}

#[test]
fn too_many_silent_hosts_make_their_devices_wait_and_nothing_else() {
    let mut bench = Bench::with(Rules { lanes: 1, ..Rules::default() });
    let host = |n: u8| Lane::host(Provider::WebPush, &format!("host{n}.example"));
    for n in 1..=2 {
        bench.send(n, host(n));
    }
    for n in 1..=2 {
        bench.done(n, Verdict::Later { after: None, who: Throttled::Lane });
    }
    assert_eq!(bench.machine.suspended(Provider::WebPush), 1);
    assert_eq!(bench.machine.backing_off(), 2);
}
