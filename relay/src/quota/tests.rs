use super::*;
use crate::metrics::Metrics;

fn gate(change: impl FnOnce(&mut Limits)) -> Arc<Gate> {
    let mut limits = Limits::default();
    change(&mut limits);
    Gate::new(&limits, Metrics::new().counts())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A connection from this address that asks for a WebSocket at once; `None` if it is refused in any way.
fn open(gate: &Arc<Gate>, address: &str, now: Instant) -> Option<Place> {
    let (_, mut place) = gate.arrive(Some(ip(address)), now).ok()?;
    place.may_open(ip(address), now).then_some(place)
}

#[test]
fn strangers_run_out_and_members_do_not() {
    let (gate, now) = (gate(|_| {}), Instant::now());
    assert_eq!((0..45).filter(|_| open(&gate, "203.0.113.1", now).is_some()).count(), 30);
    for _ in 0..100 {
        open(&gate, "203.0.113.2", now).unwrap().give_back();
    }
}

#[test]
fn an_address_that_goes_on_after_its_refusals_is_answered_no_more_for_a_while() {
    let (gate, now) = (gate(|_| {}), Instant::now());
    let answered = (0..1000).filter(|_| gate.arrive(Some(ip("203.0.113.1")), now).is_ok()).count();
    assert_eq!(answered, 30 + 120);
    assert!(gate.arrive(Some(ip("203.0.113.2")), now).is_ok(), "others are not concerned");
    assert!(open(&gate, "203.0.113.1", now + Duration::from_secs(3)).is_some(), "it may come again");
}

#[test]
fn one_ipv6_host_cannot_use_its_whole_network() {
    let (gate, now) = (gate(|l| l.connections_per_ip_per_minute = 2), Instant::now());
    assert_eq!((1..10).filter(|n| open(&gate, &format!("2001:db8::{n}"), now).is_some()).count(), 2);
    assert!(open(&gate, "2001:db8:0:1::1", now).is_some());
}

#[test]
fn an_address_holds_so_many_strangers_and_all_together_so_many() {
    let limits = |l: &mut Limits| {
        (l.unauthenticated_per_ip, l.max_unauthenticated, l.max_connections) = (2, 5, 7);
    };
    let (gate, now) = (gate(limits), Instant::now());
    let one = ip("203.0.113.1");
    let mut here = [gate.arrive(Some(one), now).unwrap(), gate.arrive(Some(one), now).unwrap()];
    assert_eq!(gate.arrive(Some(one), now).err(), Some(Limit::UnauthenticatedPerIp));
    let there: Vec<_> = (2..5).map(|n| gate.arrive(Some(ip(&format!("203.0.113.{n}"))), now)).collect();
    assert_eq!(gate.arrive(Some(ip("203.0.113.9")), now).err(), Some(Limit::MaxUnauthenticated));
    // Those that authenticate are strangers no more, and are still there.
    let members: Vec<_> = there
        .into_iter()
        .map(|arrived| {
            let (entry, place) = arrived.unwrap();
            place.give_back();
            entry
        })
        .collect();
    let more: Vec<_> = (10..12).map(|n| gate.arrive(Some(ip(&format!("203.0.113.{n}"))), now)).collect();
    assert!(more.iter().all(Result::is_ok));
    assert_eq!(gate.arrive(Some(ip("203.0.113.99")), now).err(), Some(Limit::MaxConnections));
    drop(members);
    drop(more);
    assert!(gate.arrive(Some(ip("203.0.113.99")), now).is_ok(), "what has gone is not counted");
    here.reverse();
    drop(here);
    assert!(gate.arrive(Some(one), now).is_ok());
}

#[test]
fn behind_a_proxy_the_address_counts_that_it_names() {
    let (gate, now) = (gate(|l| l.connections_per_ip_per_minute = 1), Instant::now());
    let through = |client: &str| {
        let (_, mut place) = gate.arrive(None, now).unwrap();
        place.may_open(ip(client), now)
    };
    assert!(through("203.0.113.1"));
    assert!(!through("203.0.113.1"));
    assert!(through("203.0.113.2"));
}

#[test]
fn a_stranger_makes_so_many_namespaces_an_hour() {
    let (gate, now) = (gate(|l| l.new_namespaces_per_ip_per_hour = 3), Instant::now());
    let make = |now| open(&gate, "203.0.113.1", now).unwrap().may_make_namespace(now);
    assert_eq!((0..9).filter(|_| make(now)).count(), 3);
    let known = open(&gate, "203.0.113.2", now).unwrap();
    for _ in 0..100 {
        assert!(known.may_make_namespace(now));
        known.made_none(now);
    }
    assert!(make(now + HOUR));
}

#[test]
fn addresses_that_owe_nothing_are_forgotten() {
    let (gate, now) = (gate(|_| {}), Instant::now());
    drop(open(&gate, "203.0.113.1", now).unwrap());
    let count = || lock(&gate.addresses).known.len();
    gate.forget_idle(now);
    assert_eq!(count(), 1);
    gate.forget_idle(now + Duration::from_secs(10));
    assert_eq!(count(), 0);
}
