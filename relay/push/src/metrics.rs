//! What is counted. No label holds anything that came from a device.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::bridge::Provider;
use crate::verdict::{Fault, Verdict};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    provider: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct By {
    provider: &'static str,
}

/// Counters of pushes. Cheap to clone; every clone counts the same.
#[derive(Debug, Clone)]
pub struct PushMetrics {
    pushes: Family<Outcome, Counter>,
    latency: Family<By, Histogram, fn() -> Histogram>,
    suspended: Family<By, Gauge>,
    backing_off: Gauge,
    waiting: Gauge,
}

impl Default for PushMetrics {
    fn default() -> Self {
        Self {
            pushes: Family::default(),
            latency: Family::new_with_constructor(|| {
                Histogram::new([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0])
            }),
            suspended: Family::default(),
            backing_off: Gauge::default(),
            waiting: Gauge::default(),
        }
    }
}

impl PushMetrics {
    /// Adds everything to a registry, under names that begin with `push_` and whatever the registry puts before them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("push", "Pushes by provider and what became of them", self.pushes.clone());
        registry.register_with_unit(
            "push_latency",
            "How long a provider took to answer",
            Unit::Seconds,
            self.latency.clone(),
        );
        registry.register(
            "push_suspended",
            "Ways to a provider that are left alone for now, because it refused or did not answer",
            self.suspended.clone(),
        );
        registry.register(
            "push_devices_backing_off",
            "Devices whose push failed and is tried again later",
            self.backing_off.clone(),
        );
        registry.register("push_devices_waiting", "Devices that a push is due for", self.waiting.clone());
    }

    /// A provider said something.
    pub fn sent(&self, provider: Provider, verdict: &Verdict, took: Duration) {
        self.count(provider.name(), outcome(verdict));
        self.latency.get_or_create(&By { provider: provider.name() }).observe(took.as_secs_f64());
    }

    /// Nothing reaches a device.
    pub fn unserved(&self) {
        self.count("none", outcome(&Verdict::NoProvider));
    }

    /// A push was left out, because too many wait.
    pub fn left_out(&self) {
        self.count("none", "left_out");
    }

    /// A push was given up, because its message has expired or will have before the next attempt.
    pub fn expired(&self, provider: Provider) {
        self.count(provider.name(), "expired");
    }

    /// How many ways of a provider are left alone.
    pub fn suspended(&self, provider: Provider, ways: usize) {
        let ways = i64::try_from(ways).unwrap_or(i64::MAX);
        self.suspended.get_or_create(&By { provider: provider.name() }).set(ways);
    }

    /// How many devices wait for their push, and how many of them for another attempt.
    pub fn devices(&self, waiting: usize, backing_off: usize) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.backing_off.set(i64::try_from(backing_off).unwrap_or(i64::MAX));
    }

    fn count(&self, provider: &'static str, outcome: &'static str) {
        self.pushes.get_or_create(&Outcome { provider, outcome }).inc();
    }
}

/// The label of a verdict.
pub(crate) fn outcome(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Accepted => "accepted",
        Verdict::TokenDead { .. } => "token_dead",
        Verdict::Later { .. } => "later",
        Verdict::TooLarge => "too_large",
        Verdict::Refused { fault: Fault::Operator | Fault::Partly, .. } => "operator_fault",
        Verdict::Refused { fault: Fault::Device, .. } => "device_fault",
        Verdict::Refused { fault: Fault::Ours, .. } => "our_fault",
        Verdict::Unreachable { .. } => "unreachable",
        Verdict::NoProvider => "no_provider",
    }
}
