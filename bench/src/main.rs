//! `skald-bench`: measures pipes and pages beside their baselines. `cargo xtask bench` builds and runs it.
//!
//! Every figure stands beside a baseline that did the same work in the same run, for only the ratio means something on
//! another machine. Baselines are processes of their own ([`baseline`]), as the relay is, so that each one's CPU is
//! its own.

mod baseline;
mod chart;
mod cipher;
mod document;
mod ends;
mod flow;
mod memory;
mod page;
mod relay;
mod rows;
mod splice;
mod usage;
mod visit;
mod world;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use rows::Row;

/// Measures pipes and pages beside their baselines.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// What to measure [default: everything]. A wrong name lists them all.
    scenarios: Vec<String>,
    /// How long one figure is measured.
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    seconds: f64,
    /// Write the figures, and a chart of them, into this repository's docs.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Write the rows as JSON into this file instead of printing them.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run as a baseline: the sides that connect are paired.
    #[arg(long, hide = true, value_name = "KIND")]
    serve: Option<baseline::Kind>,
    /// The baseline's certificate and key.
    #[arg(long, hide = true, num_args = 2, value_name = "FILE")]
    tls: Option<Vec<PathBuf>>,
}

/// What a scenario is told.
pub struct Bench {
    /// How long one figure is measured.
    pub seconds: f64,
}

/// Something to measure.
pub struct Scenario {
    /// How it is called on the command line, and in the names of what is written.
    pub name: &'static str,
    /// What the document says above its figures.
    pub title: &'static str,
    /// Measures.
    pub run: fn(&Bench) -> Result<Vec<Row>>,
}

const SCENARIOS: &[Scenario] =
    &[splice::SCENARIO, memory::SCENARIO, cipher::SCENARIO, ends::SCENARIO, page::SCENARIO];

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("skald-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let Some(kind) = args.serve {
        let tls = args.tls.as_deref().map(|files| (files[0].as_path(), files[1].as_path()));
        return baseline::serve(kind, SocketAddr::from(([127, 0, 0, 1], 0)), tls);
    }
    let known = |name: &String| SCENARIOS.iter().any(|scenario| scenario.name == name);
    if let Some(wrong) = args.scenarios.iter().find(|name| !known(name)) {
        let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        bail!("There is no scenario {wrong}. The scenarios are: {}.", names.join(", "));
    }
    let bench = Bench { seconds: args.seconds.clamp(0.1, 600.0) };
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        if !args.scenarios.is_empty() && !args.scenarios.iter().any(|name| name == scenario.name) {
            continue;
        }
        println!("\n{}: {}", scenario.name, scenario.title);
        let rows =
            (scenario.run)(&bench).with_context(|| format!("the scenario {} failed", scenario.name))?;
        print!("{}", rows::table(&rows));
        if let Some(root) = &args.write {
            document::write(root, scenario, &rows)?;
        }
        all.extend(rows);
    }
    let json = serde_json::to_string_pretty(&all).context("the rows make no JSON")?;
    match &args.json {
        Some(file) => std::fs::write(file, json + "\n").context("the rows cannot be written")?,
        None => println!("\n{json}"),
    }
    Ok(())
}
