//! What the relay counts of itself.
//!
//! Each relay has a registry of its own, so that several in one process do not mix. Every cell is resolved when the
//! relay starts; on the path of a message counting is an atomic addition. Labels hold values of fixed lists and nothing
//! that came from a peer: no key, no namespace, no address.

pub(crate) mod labels;
pub(crate) mod names;
mod process;
pub(crate) mod serve;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::hub::lock;
use labels::{Counters, Gauges, Grid};

/// What every name begins with.
const PREFIX: &str = "skald_relay";

/// The relay's metrics. Cheap to clone; every clone counts the same.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    counts: Arc<Counts>,
    /// Empty until a certificate is in use.
    certificate: Family<Vec<(&'static str, &'static str)>, Gauge>,
}

/// The cells, for whoever counts.
pub(crate) struct Counts {
    pub(crate) connections: Gauges<names::Role>,
    pub(crate) arrivals: Counters<names::Arrival>,
    pub(crate) handshakes: Grid<names::Protocol, names::Handshake>,
    pub(crate) messages: Grid<names::Class, names::Message>,
    pub(crate) refusals: Counters<names::Code>,
    pub(crate) bytes: Grid<names::Direction, names::Kind>,
    pub(crate) limits: Counters<names::Limit>,
    pub(crate) pipes: Gauges<names::PipeState>,
    pub(crate) pipes_ended: Counters<names::PipeEnd>,
    pub(crate) delivery: Histogram,
    pub(crate) unconfirming: Counter,
    pub(crate) namespaces: Gauge,
    pub(crate) outboxes: Gauge,
    pub(crate) queue: Gauge,
    pub(crate) queue_oldest: Gauge,
    pub(crate) store: StoreCounts,
}

/// The store's part.
pub(crate) struct StoreCounts {
    pub(crate) commit: Histogram,
    pub(crate) batch: Histogram,
    pub(crate) wait: Histogram,
    pub(crate) failures: Counter,
    pub(crate) backlog: Gauge,
    pub(crate) database: Gauge,
    pub(crate) database_cap: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Seconds from a local round trip to the week that a message may wait.
const DELIVERY: [f64; 16] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0,
    604_800.0,
];
/// Seconds from a fast disk's sync to one that hangs.
const COMMIT: [f64; 13] = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
const BATCH: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

impl Metrics {
    /// Metrics that stand at zero.
    pub fn new() -> Self {
        let counts = Counts::new();
        let mut registry = Registry::with_prefix(PREFIX);
        let certificate = Family::default();
        counts.register(&mut registry);
        registry.register(
            "certificate_expiry_seconds",
            "When the certificate in use ends, in seconds since 1970",
            certificate.clone(),
        );
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "The program that runs", Info::new(version));
        registry.register_collector(Box::new(process::Process));
        let counts = Arc::new(counts);
        Self(Arc::new(Inner { registry: Mutex::new(registry), counts, certificate }))
    }

    /// Opens the registry, for parts that bring metrics of their own. Their names get the relay's prefix.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut lock(&self.0.registry));
    }

    /// Notes when the certificate in use ends, in seconds since 1970.
    pub fn certificate_expires(&self, unix_seconds: i64) {
        self.0.certificate.get_or_create(&Vec::new()).set(unix_seconds);
    }

    /// The cells, for who counts.
    pub(crate) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.0.counts)
    }

    /// Everything in OpenMetrics text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &lock(&self.0.registry))?;
        Ok(out)
    }
}

impl Counts {
    fn new() -> Self {
        Self {
            connections: Gauges::default(),
            arrivals: Counters::default(),
            handshakes: Grid::new(|_, _| true),
            messages: Grid::new(names::Message::occurs),
            refusals: Counters::default(),
            bytes: Grid::new(|_, _| true),
            limits: Counters::default(),
            pipes: Gauges::default(),
            pipes_ended: Counters::default(),
            delivery: Histogram::new(DELIVERY),
            unconfirming: Counter::default(),
            namespaces: Gauge::default(),
            outboxes: Gauge::default(),
            queue: Gauge::default(),
            queue_oldest: Gauge::default(),
            store: StoreCounts {
                commit: Histogram::new(COMMIT),
                batch: Histogram::new(BATCH),
                wait: Histogram::new(COMMIT),
                failures: Counter::default(),
                backlog: Gauge::default(),
                database: Gauge::default(),
                database_cap: Gauge::default(),
            },
        }
    }

    fn register(&self, r: &mut Registry) {
        self.connections.register(r, "connections", "Open connections by what they are");
        self.arrivals.register(
            r,
            "arrivals",
            "Connections by what became of them before they were WebSockets",
        );
        self.handshakes.register(r, "handshakes", "Authentications by protocol and outcome");
        self.messages.register(r, "messages", "Messages by class and what became of them");
        self.refusals.register(r, "refusals", "Error frames sent, by code");
        self.bytes.register(r, "traffic_bytes", "Bytes of WebSocket payload by direction and kind");
        self.limits.register(r, "limits_hit", "How often a limit was hit");
        self.pipes.register(r, "pipes", "Pipes by how far they have come");
        self.pipes_ended.register(r, "pipes_ended", "Pipes that ended, by reason");
        let seconds = Unit::Seconds;
        r.register_with_unit(
            "delivery",
            "From a stored message's commit to the proof of its arrival, time away included",
            seconds.clone(),
            self.delivery.clone(),
        );
        r.register(
            "unconfirming",
            "Connections that proved nothing in time and counted as absent for push",
            self.unconfirming.clone(),
        );
        r.register("namespaces_loaded", "Namespaces in memory", self.namespaces.clone());
        r.register_with_unit(
            "outboxes",
            "What waits in memory to be written to connections",
            Unit::Bytes,
            self.outboxes.clone(),
        );
        r.register("queue_messages", "Messages that wait for their recipients", self.queue.clone());
        r.register_with_unit(
            "queue_oldest_age",
            "How long the oldest message has waited; 0 when none waits",
            seconds.clone(),
            self.queue_oldest.clone(),
        );
        let store = &self.store;
        r.register_with_unit("store_commit", "How long a commit took", seconds.clone(), store.commit.clone());
        r.register("store_batch_operations", "How many operations a commit held", store.batch.clone());
        r.register_with_unit(
            "store_wait",
            "How long an operation waited for the writer",
            seconds,
            store.wait.clone(),
        );
        r.register("store_failures", "Transactions that failed", store.failures.clone());
        r.register("store_backlog", "Operations that wait for the writer", store.backlog.clone());
        r.register_with_unit("store_database", "Size of the database", Unit::Bytes, store.database.clone());
        r.register_with_unit(
            "store_database_cap",
            "Size above which no message is taken in for absent devices; 0 means no cap",
            Unit::Bytes,
            store.database_cap.clone(),
        );
    }
}
