use std::collections::BTreeSet;

use super::Metrics;
use super::labels::Label as _;
use super::names::{Class, Message, Role};

fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn what_is_counted_is_shown_and_two_relays_do_not_mix() {
    let (one, other) = (Metrics::new(), Metrics::new());
    one.counts().messages.count(Class::Live, Message::Delivered);
    let held = one.counts().connections.hold(Role::Agent);
    let sample = r#"skald_relay_messages_total{class="live",outcome="delivered"}"#;
    let agents = r#"skald_relay_connections{role="agent"}"#;
    let text = one.encode().unwrap();
    assert_eq!((value(&text, sample), value(&text, agents)), (Some(1.0), Some(1.0)));
    assert_eq!(value(&other.encode().unwrap(), sample), Some(0.0));
    drop(held);
    assert_eq!(value(&one.encode().unwrap(), agents), Some(0.0));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn only_pairs_that_can_occur_are_shown() {
    let text = Metrics::new().encode().unwrap();
    assert!(!text.contains(r#"class="live",outcome="queued""#));
    assert!(text.contains(r#"class="stored",outcome="queued""#));
}

#[test]
fn the_certificate_is_shown_once_there_is_one() {
    let metrics = Metrics::new();
    let name = "skald_relay_certificate_expiry_seconds";
    assert_eq!(value(&metrics.encode().unwrap(), name), None);
    metrics.certificate_expires(2_000_000_000);
    assert_eq!(value(&metrics.encode().unwrap(), name), Some(2e9));
}

#[test]
fn every_value_of_a_label_has_its_own_place_and_name() {
    fn check<L: super::labels::Label>() {
        let names: BTreeSet<_> = L::ALL.iter().map(|l| l.value()).collect();
        assert_eq!(names.len(), L::ALL.len(), "{}", L::NAME);
        assert!(L::ALL.iter().enumerate().all(|(n, l)| l.index() == n), "{}", L::NAME);
    }
    check::<Role>();
    check::<super::names::Handshake>();
    check::<super::names::Limit>();
    check::<super::names::PipeEnd>();
    assert_eq!(Role::Agent.value(), "agent");
}
