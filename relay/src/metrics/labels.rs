//! Counters and gauges with labels of which every value is known beforehand.
//!
//! Each cell is looked up once, when the relay starts. Counting is then one atomic addition, and no label can ever hold
//! anything that a peer sent.

use std::marker::PhantomData;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The values of a label.
pub(crate) trait Label: Copy + 'static {
    /// The label's name.
    const NAME: &'static str;
    /// Every value, in the order of [`index`](Self::index).
    const ALL: &'static [Self];
    /// The value as it is shown.
    fn value(self) -> &'static str;
    /// Its place in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}

/// Declares a label with its values.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident as $label:literal { $($(#[$of:meta])* $variant:ident = $value:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$of])* $variant,)+ }

        impl $crate::metrics::labels::Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$variant,)+];
            fn value(self) -> &'static str {
                match self { $(Self::$variant => $value,)+ }
            }
            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
pub(crate) use label;

type Pairs = Vec<(&'static str, &'static str)>;

fn pair<L: Label>(label: L) -> (&'static str, &'static str) {
    (L::NAME, label.value())
}

/// One counter for every value of a label.
#[derive(Debug)]
pub(crate) struct Counters<L> {
    family: Family<Pairs, Counter>,
    cells: Vec<Counter>,
    of: PhantomData<L>,
}

impl<L: Label> Default for Counters<L> {
    fn default() -> Self {
        let family = Family::<Pairs, Counter>::default();
        let cells = L::ALL.iter().map(|value| family.get_or_create_owned(&vec![pair(*value)])).collect();
        Self { family, cells, of: PhantomData }
    }
}

impl<L: Label> Counters<L> {
    pub(crate) fn of(&self, label: L) -> &Counter {
        &self.cells[label.index()]
    }

    pub(crate) fn count(&self, label: L) {
        self.of(label).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.family.clone());
    }
}

/// One counter for every pair of values of two labels.
#[derive(Debug)]
pub(crate) struct Grid<A, B> {
    family: Family<Pairs, Counter>,
    cells: Vec<Counter>,
    of: PhantomData<(A, B)>,
}

impl<A: Label, B: Label> Grid<A, B> {
    /// Only pairs that can occur are shown, so that no reader wonders about a zero that never moves.
    pub(crate) fn new(occurs: impl Fn(A, B) -> bool) -> Self {
        let family = Family::<Pairs, Counter>::default();
        let mut cells = Vec::with_capacity(A::ALL.len() * B::ALL.len());
        for a in A::ALL {
            for b in B::ALL {
                cells.push(if occurs(*a, *b) {
                    family.get_or_create_owned(&vec![pair(*a), pair(*b)])
                } else {
                    Counter::default()
                });
            }
        }
        Self { family, cells, of: PhantomData }
    }

    pub(crate) fn of(&self, a: A, b: B) -> &Counter {
        &self.cells[a.index() * B::ALL.len() + b.index()]
    }

    pub(crate) fn count(&self, a: A, b: B) {
        self.of(a, b).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.family.clone());
    }
}

/// One gauge for every value of a label.
#[derive(Debug)]
pub(crate) struct Gauges<L> {
    family: Family<Pairs, Gauge>,
    cells: Vec<Gauge>,
    of: PhantomData<L>,
}

impl<L: Label> Default for Gauges<L> {
    fn default() -> Self {
        let family = Family::<Pairs, Gauge>::default();
        let cells = L::ALL.iter().map(|value| family.get_or_create_owned(&vec![pair(*value)])).collect();
        Self { family, cells, of: PhantomData }
    }
}

impl<L: Label> Gauges<L> {
    pub(crate) fn of(&self, label: L) -> &Gauge {
        &self.cells[label.index()]
    }

    /// Counts one until the guard is dropped.
    pub(crate) fn hold(&self, label: L) -> Held {
        let gauge = self.of(label).clone();
        gauge.inc();
        Held(gauge)
    }

    pub(super) fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.family.clone());
    }
}

/// One of something that a gauge counts.
#[derive(Debug)]
pub(crate) struct Held(Gauge);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}
