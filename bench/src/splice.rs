//! The relay's splice beside a copy of the same bytes.

use anyhow::{Context as _, Result};
use tokio::runtime::Runtime;

use crate::baseline::{Baseline, Kind};
use crate::flow::{self, Passed, frames, server_frame};
use crate::relay::{Ground, Home, Relay, Side};
use crate::rows::{Row, median};
use crate::{Bench, Scenario};

/// Measures the relay's splice.
pub const SCENARIO: Scenario =
    Scenario { name: "splice", title: "The relay's splice beside a copy of the same bytes", run };

const ROUNDS: u32 = 3;
const KIB: usize = 1024;

/// Where bytes go through: the relay or a baseline.
enum Through<'a> {
    Relay(&'a Relay, &'a Home),
    Copy(&'a Baseline, bool),
    Messages(&'a Baseline),
}

impl Through<'_> {
    fn process(&self) -> u32 {
        match self {
            Self::Relay(relay, _) => relay.id(),
            Self::Copy(baseline, _) | Self::Messages(baseline) => baseline.id(),
        }
    }

    async fn pair(&self, ground: &Ground, id: u32) -> Result<(Side, Side)> {
        match self {
            Self::Relay(relay, home) => {
                let mut bytes = [0; 32];
                bytes[..4].copy_from_slice(&id.to_be_bytes());
                relay.pipe(ground, home, bytes).await
            }
            Self::Copy(baseline, tls) => {
                let first = ground.connect(baseline.address, *tls);
                let second = ground.connect(baseline.address, *tls);
                tokio::try_join!(first, second)
            }
            Self::Messages(baseline) => {
                let upgraded = || async {
                    let stream = ground.connect(baseline.address, false).await?;
                    let url = format!("ws://{}/", baseline.address);
                    let (socket, _) = tokio_tungstenite::client_async(url, stream).await?;
                    anyhow::Ok(socket.into_inner())
                };
                tokio::try_join!(upgraded(), upgraded())
            }
        }
    }
}

/// Runs both alternately, and gives each round's two outcomes: the subject's and the baseline's.
async fn rounds(
    ground: &Ground,
    (subject, baseline): (&Through<'_>, &Through<'_>),
    payload: usize,
    both_ways: bool,
    bench: &Bench,
    ids: &mut u32,
) -> Result<Vec<(Passed, Passed)>> {
    let block = frames(payload, 64 * KIB);
    let seconds = bench.seconds / f64::from(ROUNDS);
    let mut outcomes = Vec::new();
    for _ in 0..ROUNDS {
        let mut both = Vec::with_capacity(2);
        for through in [baseline, subject] {
            *ids += 1;
            let pair = through.pair(ground, *ids).await?;
            both.push(flow::pass(through.process(), vec![pair], block.clone(), both_ways, seconds).await?);
        }
        outcomes.push((both[1], both[0]));
    }
    Ok(outcomes)
}

/// CPU per gigabyte of both, and the middle of the rounds' ratios.
fn cpu(variant: String, against: &'static str, outcomes: &[(Passed, Passed)]) -> Row {
    let of = |pick: fn(&(Passed, Passed)) -> f64| median(outcomes.iter().map(pick).collect());
    let row = Row::new(SCENARIO.name, variant, of(|o| o.0.cpu_per_gb()), "s of CPU per GB");
    row.against(against, of(|o| o.1.cpu_per_gb())).ratio(of(|o| o.0.cpu_per_gb() / o.1.cpu_per_gb()))
}

fn run(bench: &Bench) -> Result<Vec<Row>> {
    Runtime::new().context("no runtime")?.block_on(measure(bench))
}

async fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let ground = Ground::new()?;
    let mut rows = Vec::new();
    let mut ids = 0;
    for tls in [false, true] {
        let relay = Relay::start(&ground, if tls { "tls" } else { "plain" }, tls)?;
        let home = relay.home(&ground, 1).await?;
        let certificate = if tls { Some(ground.certificate()?) } else { None };
        let copy = Baseline::start(Kind::Copy, certificate.as_ref())?;
        let ends = (&Through::Relay(&relay, &home), &Through::Copy(&copy, tls));
        let (against, target) = if tls { ("rustls copy", 1.15) } else { ("TCP copy", 1.0) };
        let kind = if tls { "TLS, " } else { "" };
        for (size, payload) in [("64 KiB", 64 * KIB), ("1 MiB", 1024 * KIB)] {
            for (way, both_ways) in [("", false), (", both ways", true)] {
                let outcomes = rounds(&ground, ends, payload, both_ways, bench, &mut ids).await?;
                let variant = format!("{kind}{size} frames{way}");
                rows.push(cpu(variant, against, &outcomes).at_most(target));
            }
        }
        if !tls {
            let single = Baseline::start(Kind::Messages, None)?;
            let ends = (&Through::Relay(&relay, &home), &Through::Messages(&single));
            let outcomes = rounds(&ground, ends, 256, false, bench, &mut ids).await?;
            let frames = |passed: &Passed| passed.bytes / server_frame(256);
            let of = |pick: &dyn Fn(&(Passed, Passed)) -> f64| median(outcomes.iter().map(pick).collect());
            for (variant, unit, per) in [
                ("256-byte frames", "frames per second", (|p| p.seconds) as fn(&Passed) -> f64),
                ("256-byte frames", "frames per second of CPU", |p| p.cpu),
            ] {
                let ours = of(&|o| frames(&o.0) / per(&o.0));
                let theirs = of(&|o| frames(&o.1) / per(&o.1));
                let row = Row::new(SCENARIO.name, variant, ours, unit).against("single messages", theirs);
                rows.push(row.at_least(20.0));
            }
        }
    }
    Ok(rows)
}
