//! `skald run`: asks with the whole command line shown, then becomes that command.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::{RunArgs, Target};
use crate::client::Client;
use crate::commands::ask::{APPROVALS, decision, put, question, tell_rejected};
use crate::failure::{Exit, Failure};
use crate::quote::command_line;
use crate::waiting::{self, Ended};

/// The tool's name in approvals and bypasses.
const TOOL: &str = "run";
/// A summary is one line of so many characters; the whole command stands in the block below it.
const SUMMARY: usize = 120;

const NO_COMMAND: &str = "There is no command to run: write it behind `--`.";

/// Asks, and on approval gives back the command to become.
pub async fn run(target: Target, args: RunArgs) -> Result<Exit, Failure> {
    if args.command.first().is_none_or(|program| program.is_empty()) {
        return Err(Failure::usage(NO_COMMAND));
    }
    let folder = std::env::current_dir().map_err(|e| {
        Failure::failed(format!("The current folder cannot be read ({e}): go to one that exists."))
    })?;
    let line = command_line(&args.command);
    let folder = folder.to_string_lossy();
    let summary = summary(&line);
    let mut body = question(args.timeout, args.label);
    put(&mut body, "tool_name", Some(TOOL));
    put(&mut body, "summary", Some(summary.as_str()));
    put(&mut body, "session", args.session);
    let words: Vec<_> = args.command.iter().map(|w| w.to_string_lossy()).collect();
    put(&mut body, "arguments", Some(json!({"command": words, "folder": folder})));
    let blocks = json!({
        "v": 1,
        "summary": summary,
        "blocks": [
            {"type": "block", "label": "Command", "value": line, "value_type": "command"},
            {"type": "field", "label": "Folder", "value": folder, "value_type": "path"},
        ],
    });
    put(&mut body, "blocks", Some(blocks));
    let mut client = Client::new(target)?;
    match waiting::ask(&mut client, APPROVALS, &Value::Object(body)).await? {
        Ended::Resolved(status) if decision(&status).0 => Ok(Exit::Replace(args.command)),
        Ended::Resolved(status) => Ok(tell_rejected(&status)),
        Ended::Lapsed(lapse) => Ok(lapse.tell()),
    }
}

fn summary(line: &str) -> String {
    let whole = format!("Run {line}");
    if whole.chars().count() <= SUMMARY {
        return whole;
    }
    whole.chars().take(SUMMARY - 1).chain(['…']).collect()
}

/// Becomes the command; returns only where that fails. Its exit code and its signals are then this process's own.
pub fn replace(command: Vec<OsString>) -> Result<Exit, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::usage(NO_COMMAND));
    };
    let error = Command::new(program).args(arguments).exec();
    let program = program.to_string_lossy();
    // The codes that shells use.
    let (code, text) = match error.kind() {
        ErrorKind::NotFound => {
            (127, format!("{program} was approved, but there is no such command: check its name."))
        }
        _ => (126, format!("{program} was approved, but could not be started ({error}).")),
    };
    Err(Failure { code, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_shortened_in_the_summary_alone() {
        assert_eq!(summary("ls -la"), "Run ls -la");
        let long = summary(&"ü".repeat(500));
        assert_eq!(long.chars().count(), SUMMARY);
        assert!(long.ends_with('…'));
    }
}
