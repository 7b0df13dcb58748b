//! `skald-relay`: a blind relay between one person's agent and devices.

mod commands;

use std::process::ExitCode;

use clap::Parser as _;
use commands::{Cli, Failure};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version.
        Err(shown) if !shown.use_stderr() => {
            let _ = shown.print();
            return ExitCode::SUCCESS;
        }
        Err(wrong) => return Failure::configuration(usage(&wrong)).report(),
    };
    match cli.run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// Folds the several lines of a usage error into one sentence.
fn usage(wrong: &clap::Error) -> anyhow::Error {
    let rendered = wrong.render().to_string();
    let first = ["\n\nUsage:", "\n\n  tip:", "\n\nFor more information"]
        .iter()
        .fold(rendered.as_str(), |text, end| text.split(end).next().unwrap_or(text));
    let text = first.split_whitespace().collect::<Vec<_>>().join(" ");
    anyhow::anyhow!("{} (see skald-relay --help)", text.strip_prefix("error: ").unwrap_or(&text))
}
