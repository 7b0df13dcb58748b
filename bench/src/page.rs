//! Skald's own page through relay and pipe, over lines of several lengths.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use skald_testkit::{Browser, Delay, DelayLine, Stall};
use tokio::runtime::Runtime;

use crate::rows::{Row, median};
use crate::visit::Visitor;
use crate::world::World;
use crate::{Bench, Scenario};

/// Measures the page.
pub const SCENARIO: Scenario = Scenario {
    name: "page",
    title: "Skald's page over a long line, in round trips until it can be used",
    run,
};

const UNIT: &str = "round trips";
const SHOWN: &str = "an item to wait for";
const DOWNLOAD: usize = 50 << 20;
const ROUNDS: u32 = 3;
/// The length of line that the targets are about.
const JUDGED: u64 = 100;

fn run(_: &Bench) -> Result<Vec<Row>> {
    let runtime = Runtime::new()?;
    let world = World::start(SHOWN)?;
    let mut rows = Vec::new();
    for ms in [20, JUDGED, 300] {
        rows.extend(one_line(&runtime, &world, &format!("{ms} ms"), Delay::of(Duration::from_millis(ms)))?);
    }
    let stall = Stall { every: Duration::from_millis(700), lasting: Duration::from_millis(250) };
    let stalling = Delay { stall: Some(stall), ..Delay::of(Duration::from_millis(JUDGED)) };
    rows.extend(one_line(&runtime, &world, "100 ms with stalls", stalling)?);
    Ok(rows)
}

/// Everything over a line of one kind.
fn one_line(runtime: &Runtime, world: &World, name: &str, delay: Delay) -> Result<Vec<Row>> {
    let to_host = DelayLine::start(world.page()?, delay)?;
    let to_relay = DelayLine::start(world.relay()?, delay)?;
    let judged = name == format!("{JUDGED} ms");
    let direct = || {
        let host = world.host.origin().trim_start_matches("http://");
        Visitor::new(to_host.address(), host, Some(world.token.clone()))
    };
    let trips = |time: Duration| time.as_secs_f64() / delay.round_trip.as_secs_f64();
    let visits = |visitor: &dyn Fn() -> Visitor| -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            times.push(trips(runtime.block_on(visitor().visit(SHOWN))?));
        }
        Ok(median(times))
    };

    let direct_visit = visits(&direct).context("without a relay")?;
    let direct_beside = trips(runtime.block_on(beside(&direct()))?);
    let slug = name.replace(' ', "-");
    let plain = world.plain(runtime, &to_relay, &format!("plain-{slug}"))?;
    let plain_visit = visits(&|| through(plain.address)).context("a pipe for each connection")?;
    runtime.block_on(plain.stop());

    let phone = world.phone(&to_relay, &format!("phone-{slug}"))?;
    // Each cold visit is the first of a proxy that was just started.
    let mut cold = Vec::new();
    for _ in 1..ROUNDS {
        let (mut proxy, address) = world.proxy(&phone)?;
        cold.push(trips(runtime.block_on(through(address).visit(SHOWN))?));
        proxy.kill()?;
    }
    let (_proxy, address) = world.proxy(&phone)?;
    cold.push(trips(runtime.block_on(through(address).visit(SHOWN))?));
    let warm = visits(&|| through(address)).context("through the proxy")?;
    let busy = trips(runtime.block_on(beside(&through(address)))?);

    let row = |what: &str, value: f64, against: &'static str, baseline: f64| {
        let row = Row::new(SCENARIO.name, format!("{name}, {what}"), value, UNIT);
        // The targets are about round trips, not about shares of the baseline.
        Row { baseline: Some(baseline), against: Some(against), ..row }
    };
    let aim = |row: Row, most: f64| if judged { row.at_most(most) } else { row };
    let mut rows = vec![
        row("a pipe per connection", plain_visit, "direct", direct_visit),
        aim(row("first visit", median(cold), "direct", direct_visit), 8.0),
        aim(row("warm", warm, "a pipe per connection", plain_visit), 3.0),
        aim(row("warm, 50 MB beside it", busy, "direct, beside it", direct_beside), 2.0 * warm),
    ];
    if judged && let Some(seen) = chromium(address)? {
        rows.push(row("warm, Chromium", trips(seen), "the model", warm));
    }
    Ok(rows)
}

fn through(address: SocketAddr) -> Visitor {
    Visitor::new(address, address.to_string(), None)
}

/// A visit while a download flows in the same browser.
async fn beside(visitor: &Visitor) -> Result<Duration> {
    let mut download = visitor.download(DOWNLOAD).await?;
    // Until it is up to speed.
    download.read(DOWNLOAD / 10).await?;
    tokio::select! {
        biased;
        visited = visitor.visit(SHOWN) => visited,
        read = download.read(DOWNLOAD) => {
            anyhow::bail!("the download was over before the page was there ({} bytes)", read?)
        }
    }
}

/// The same with a real browser; `None` where there is none.
fn chromium(address: SocketAddr) -> Result<Option<Duration>> {
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(error) => {
            println!("without a real browser: {error:#}");
            return Ok(None);
        }
    };
    let page = browser.page("bench");
    let url = format!("http://{address}/");
    // Once for the browser to be awake, at a place that costs nothing of what is measured.
    page.goto("about:blank")?;
    let began = Instant::now();
    page.goto(&url)?;
    page.see(SHOWN)?;
    Ok(Some(began.elapsed()))
}
