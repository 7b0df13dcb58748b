//! What operators are given agrees with what the relay shows.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use skald_relay::{Metrics, Settings};
use skald_relay_push::{Provider, PushMetrics, Verdict};

const PREFIX: &str = "skald_relay_";

fn document(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/operations").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Everything that a relay with push and TLS shows.
fn shown() -> String {
    let metrics = Metrics::new();
    let push = PushMetrics::default();
    metrics.register(|registry| push.register(registry));
    push.sent(Provider::Apns, &Verdict::Accepted, Duration::from_millis(1));
    push.suspended(Provider::Apns, 0);
    metrics.certificate_expires(1);
    metrics.encode().unwrap()
}

/// The names as queries write them: those of samples, a histogram's without its suffix.
fn registered() -> BTreeSet<String> {
    let text = shown();
    let of_kind = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some(match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
    };
    text.lines().filter_map(of_kind).collect()
}

/// Every name of ours in a text.
fn named(text: &str, histograms: &BTreeSet<String>) -> BTreeSet<String> {
    text.match_indices(PREFIX)
        .map(|(at, _)| {
            let end =
                text[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len() - at);
            let name = &text[at..at + end];
            let base = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix));
            base.filter(|base| histograms.contains(*base)).unwrap_or(name).to_owned()
        })
        .collect()
}

#[test]
fn the_page_and_the_dashboard_show_every_metric_and_no_other() {
    let registered = registered();
    let page = document("monitoring.md");
    let rows: String = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(named(&rows, &registered), registered, "monitoring.md");
    let dashboard = document("grafana/skald-relay.json");
    assert_eq!(named(&dashboard, &registered), registered, "the dashboard");
}

#[test]
fn alerts_ask_for_metrics_that_exist() {
    let registered = registered();
    let alerts = named(&document("alerts.yml"), &registered);
    assert!(alerts.len() > 8, "{alerts:?}");
    assert!(alerts.is_subset(&registered), "{:?}", alerts.difference(&registered));
}

#[test]
fn values_of_labels_that_alerts_ask_for_exist() {
    let (text, alerts) = (shown(), document("alerts.yml"));
    for value in ["max_connections", "max_unauthenticated", "outbox_total_bytes"] {
        assert!(alerts.contains(value) && text.contains(&format!("limit=\"{value}\"")), "{value}");
    }
    for value in ["accepted", "gone"] {
        assert!(alerts.contains(value) && text.contains(&format!("outcome=\"{value}\"")), "{value}");
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: serde_json::Value = serde_json::from_str(&document("grafana/skald-relay.json")).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|v| v["type"] == "datasource" && v["name"] == "datasource"));
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "{panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}");
            assert!(target["expr"].as_str().unwrap().contains(PREFIX));
        }
    }
}

#[test]
fn every_limit_is_described_with_its_default() {
    let page = document("limits.md");
    let settings = toml::Table::try_from(Settings::default()).unwrap();
    for group in ["limits", "pipe"] {
        for (name, value) in settings[group].as_table().unwrap() {
            // Some names stand in both groups, each in a row of its own.
            let described = page.lines().any(|line| {
                line.starts_with('|')
                    && line.contains(&format!("`{name}`"))
                    && line.contains(&value.to_string())
            });
            assert!(described, "{group}.{name} with its default {value} is not described");
        }
    }
}
