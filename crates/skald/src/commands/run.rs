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

/// So many characters of a program's name stand in the tool's name.
const PROGRAM: usize = 100;
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
    put(&mut body, "tool_name", Some(tool(&args.command[0])));
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

/// The tool's name, which is what "approve for 15 minutes" covers: this program and no other.
fn tool(program: &OsString) -> String {
    let program = command_line(&[program]);
    let length = program.chars().count();
    if length <= PROGRAM {
        return format!("run {program}");
    }
    // A long path is told apart from others by its end, and by its length.
    let end: String = program.chars().skip(length - PROGRAM).collect();
    format!("run ({length} characters) …{end}")
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
    fn the_tool_is_the_program() {
        assert_eq!(tool(&"cargo".into()), "run cargo");
        let (long, other) = ("a/".repeat(200), format!("b{}", "a/".repeat(200)));
        assert!(tool(&long.clone().into()).ends_with("a/") && tool(&long.into()) != tool(&other.into()));
    }

    #[test]
    fn a_long_command_is_shortened_in_the_summary_alone() {
        assert_eq!(summary("ls -la"), "Run ls -la");
        let long = summary(&"ü".repeat(500));
        assert_eq!(long.chars().count(), SUMMARY);
        assert!(long.ends_with('…'));
    }
}
