//! What a run says in the end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::check::Counts;

/// What a run did and saw.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it was drawn from.
    pub seed: u64,
    /// Peers, and how many of them were processes.
    pub peers: (usize, usize),
    /// What became of the messages.
    pub counts: Counts,
    /// Faults by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// From the first message to the last.
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { accepted, unknown, unknown_arrived, arrived, latest, live, again, slowest_ms } =
            &self.counts;
        writeln!(f, "seed {}: {} peers, {} of them processes", self.seed, self.peers.0, self.peers.1)?;
        writeln!(f, "stored messages accepted {accepted}, arrived {arrived}, each once and in order")?;
        writeln!(
            f,
            "  of unknown outcome (their sender was killed) {unknown}, of which arrived {unknown_arrived}"
        )?;
        writeln!(f, "messages that replace one another: taken {}, arrived {}", latest.0, latest.1)?;
        writeln!(f, "live messages: taken {}, arrived {}", live.0, live.1)?;
        writeln!(f, "events handed over again after an acknowledgement that was cut off: {again}")?;
        let seconds = self.took.as_secs_f64();
        writeln!(
            f,
            "took {seconds:.1} s, {:.0} stored messages a second, the slowest {:.1} s under way",
            *arrived as f64 / seconds,
            *slowest_ms as f64 / 1000.0
        )?;
        writeln!(f, "faults:")?;
        for (name, count) in &self.faults {
            writeln!(f, "  {count:6} {name}")?;
        }
        Ok(())
    }
}
