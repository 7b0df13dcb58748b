//! `skald-relay check`: says what is wrong before anybody else notices.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use skald_relay::check::{self, Findings, Level};

use super::{Failure, SettingsArgs, runtime, start_log};

/// What is looked at.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Write the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Send a test push to a device that the relay knows, named as the log names both: the first 8 digits or more.
    #[arg(long, value_name = "NAMESPACE:DEVICE")]
    test_push: Option<String>,
}

/// Ends with 0 if all is well, and with 1 if there is a problem.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let findings = match args.settings.read() {
        Ok(settings) => {
            start_log("error", settings.log_format)?;
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            runtime()?.block_on(async {
                let mut findings = check::check(&settings, now).await;
                if let Some(device) = &args.test_push {
                    check::test_push(&settings, device, &mut findings).await;
                }
                findings
            })
        }
        // What keeps the relay from starting is what is being looked for.
        Err(failure) => {
            let mut findings = Findings::default();
            findings.add("settings", Level::Problem, format!("{:#}.", failure.error));
            findings
        }
    };
    if args.json {
        let body = serde_json::json!({
            "ok": findings.worst() != Level::Problem,
            "findings": findings.all(),
        });
        println!("{body:#}");
    } else {
        for finding in findings.all() {
            let mark = match finding.level {
                Level::Fine => "ok      ",
                Level::Warning => "warning ",
                Level::Problem => "problem ",
            };
            println!("{mark} {}", finding.text);
        }
    }
    Ok(if findings.worst() == Level::Problem { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
