//! The command line. Names are fixed; scripts rely on them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

/// A device for Skald in the terminal: shows what waits for you and sends your answers.
#[derive(Debug, Parser)]
#[command(name = "skald-phone", version, about, max_term_width = 100)]
pub struct Cli {
    /// Folder that holds this device's identity [default: the user's data folder, skald-phone]
    #[arg(long, value_name = "DIR", global = true, env = "SKALD_PHONE_HOME")]
    pub home: Option<PathBuf>,
    /// PEM file of a private certificate authority to trust as well (remembered when given to `pair`)
    #[arg(long, value_name = "FILE", global = true)]
    pub ca: Option<PathBuf>,
    /// Machine-readable output
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pair this device with a Skald host and wait until the host admits it
    Pair(Pair),
    /// Show what waits for an answer
    Inbox(Inbox),
    /// Approve a tool call
    Approve(Approve),
    /// Reject a tool call
    Reject(Reject),
    /// Answer a question
    Answer(Answer),
    /// Fill in, decline or cancel a prompt
    Elicit(Elicit),
    /// Serve the host's pages on this computer
    Proxy(Proxy),
    /// List the folders that the host offers, or what is in one
    Ls(Ls),
    /// Fetch a file from the host
    Get(Get),
    /// Put a file into a folder of the host
    Put(Put),
    /// Show what the host logs
    Logs(Logs),
    /// Serve a port of the host's machine on this computer
    Forward(Forward),
    /// Show where this device stands
    Status(Status),
    /// Make the host forget this device, and delete its keys here
    Logout(Logout),
}

/// How long to wait for what the host must do.
#[derive(Debug, Clone, Copy, Args)]
pub struct Wait {
    /// How long to wait for the host, for example 30s or 2m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub wait: Duration,
}

/// `pair`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("from").required(true).args(["qr", "payload"])))]
pub struct Pair {
    /// Picture with the host's QR code (PNG or JPEG; a screenshot will do)
    #[arg(long, value_name = "PICTURE")]
    pub qr: Option<PathBuf>,
    /// The text in the QR code; `-` reads it from standard input
    #[arg(long, value_name = "JSON")]
    pub payload: Option<String>,
    /// What the host shall call this device [default: the computer's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// How long to wait to be admitted
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub wait: Duration,
}

/// `inbox`.
#[derive(Debug, Args)]
pub struct Inbox {
    /// Stay, and show every change
    #[arg(long)]
    pub watch: bool,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

/// `approve`.
#[derive(Debug, Args)]
pub struct Approve {
    /// The item's id, or the beginning of it
    pub id: String,
    /// Also let similar calls through: 15m, another time, or session
    #[arg(long, value_name = "15m|session", value_parser = bypass)]
    pub bypass: Option<Bypass>,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

/// `reject`.
#[derive(Debug, Args)]
pub struct Reject {
    /// The item's id, or the beginning of it
    pub id: String,
    /// Why, for who asked
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub reason: Option<String>,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

/// `answer`.
#[derive(Debug, Args)]
pub struct Answer {
    /// The item's id, or the beginning of it
    pub id: String,
    /// The answer; `-` reads it from standard input
    #[arg(value_name = "TEXT", allow_negative_numbers = true)]
    pub text: String,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

/// `elicit`. With none of the four choices the value is asked for here, without showing it where it is a secret.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("how").args(["value", "value_from_stdin", "decline", "cancel"])))]
pub struct Elicit {
    /// The item's id, or the beginning of it
    pub id: String,
    /// The value (several fields: a JSON object); others on this computer can see it, so keep secrets out of it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub value: Option<String>,
    /// Read the value from standard input
    #[arg(long)]
    pub value_from_stdin: bool,
    /// Say no
    #[arg(long)]
    pub decline: bool,
    /// Dismiss the prompt
    #[arg(long)]
    pub cancel: bool,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

/// `proxy`.
#[derive(Debug, Args)]
pub struct Proxy {
    /// Loopback address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50001", value_parser = loopback)]
    pub listen: SocketAddr,
}

/// `ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// FOLDER or FOLDER/PATH [default: the folders]
    #[arg(value_name = "FOLDER[/PATH]")]
    pub path: Option<String>,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

/// `get`. What broke off is continued by itself, by a later run as well.
#[derive(Debug, Args)]
pub struct Get {
    /// The file on the host
    #[arg(value_name = "FOLDER/PATH")]
    pub path: String,
    /// Where to put it: a file or a folder [default: here, under its own name]
    pub to: Option<PathBuf>,
    /// Replace a file that is there already
    #[arg(long)]
    pub overwrite: bool,
    /// Go on with what an earlier run has fetched (done without being told as well)
    #[arg(long = "continue", conflicts_with = "restart")]
    pub go_on: bool,
    /// Throw away what an earlier run has fetched, and begin anew
    #[arg(long)]
    pub restart: bool,
    /// How long to keep trying while nothing comes, for example 30s or 5m
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    pub wait: Duration,
}

/// `put`. What broke off is continued by itself, by a later run as well.
#[derive(Debug, Args)]
pub struct Put {
    /// The file here
    pub file: PathBuf,
    /// Where to put it on the host; the file keeps its name where only a folder is named
    #[arg(value_name = "FOLDER[/PATH]")]
    pub path: String,
    /// Replace a file that is there already
    #[arg(long)]
    pub overwrite: bool,
    /// How long to keep trying while nothing moves, for example 30s or 5m
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    pub wait: Duration,
}

/// `logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// Stay, and show every new line
    #[arg(long, short)]
    pub follow: bool,
    /// How many of the last lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    pub lines: u32,
    /// The least grave level to show
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug", "trace"])]
    pub level: String,
    /// How long to wait for the host, for example 30s or 2m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub wait: Duration,
}

/// `forward`.
#[derive(Debug, Args)]
pub struct Forward {
    /// The port's name in the host's settings
    pub name: String,
    /// Loopback address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = loopback)]
    pub listen: SocketAddr,
}

/// `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// How long to wait for relay and host
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub wait: Duration,
}

/// `logout`.
#[derive(Debug, Args)]
pub struct Logout {
    /// Delete the keys here even when the host cannot be told
    #[arg(long)]
    pub force: bool,
    /// How to wait.
    #[command(flatten)]
    pub wait: Wait,
}

/// For how long similar calls are let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bypass {
    /// Until the asking agent's session ends.
    Session,
    /// For so long.
    For(Duration),
}

impl Bypass {
    /// The number on the wire: 0 is the session.
    pub fn secs(self) -> u64 {
        match self {
            Self::Session => 0,
            Self::For(d) => d.as_secs(),
        }
    }
}

/// Reads `30s`, `15m`, `2h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 0,
    };
    let secs = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).unwrap_or(0);
    if secs == 0 || secs > 24 * 3600 {
        return Err("write a time between 1s and 24h, such as 30s or 15m".into());
    }
    Ok(Duration::from_secs(secs))
}

fn bypass(text: &str) -> Result<Bypass, String> {
    if text == "session" {
        return Ok(Bypass::Session);
    }
    duration(text).map(Bypass::For).map_err(|_| "write 15m, another time up to 24h, or session".into())
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "write an address with a port, such as 127.0.0.1:50001".to_string())?;
    if !address.ip().is_loopback() {
        return Err("the host may only be served to this computer: use 127.0.0.1 or [::1]".into());
    }
    Ok(address)
}

/// Reads the command line. What is wrong with it becomes one sentence; help and version are printed by clap.
pub fn parse(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Cli, Stop> {
    let matches = Cli::command().try_get_matches_from(args);
    matches.and_then(|m| Cli::from_arg_matches(&m)).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Shown(error),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => Stop::Wrong(
            "Say what to do, for example `skald-phone inbox`; `skald-phone --help` lists it all.".into(),
        ),
        _ => Stop::Wrong(sentence(&error.render().to_string())),
    })
}

/// Why there is no command to run.
#[derive(Debug)]
pub enum Stop {
    /// Help or version was asked for.
    Shown(clap::Error),
    /// The command line is wrong; the sentence says how.
    Wrong(String),
}

/// Folds clap's several lines into one sentence.
fn sentence(rendered: &str) -> String {
    let body = ["\n\nUsage:", "\n\n  tip:", "\n\nFor more information"]
        .iter()
        .fold(rendered, |text, end| text.split(end).next().unwrap_or(text));
    let text = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{} (see `skald-phone --help`).", chars.as_str().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Cli, Stop> {
        parse(line.split(' ').map(Into::into))
    }

    fn wrong(line: &str) -> String {
        match read(line) {
            Err(Stop::Wrong(s)) => s,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_read_and_senseless_ones_refused() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for bad in ["", "0s", "-1s", "1.5m", "10d", "25h", "99999999999999999999s", "s", "m5"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bypass_takes_the_contracts_two_forms() {
        let Ok(cli) = read("skald-phone --home h approve ab --bypass 15m") else { panic!() };
        let Command::Approve(a) = cli.command else { panic!() };
        assert_eq!(a.bypass.map(Bypass::secs), Some(900));
        let Ok(cli) = read("skald-phone --home h approve ab --bypass session") else { panic!() };
        let Command::Approve(a) = cli.command else { panic!() };
        assert_eq!(a.bypass.map(Bypass::secs), Some(0));
    }

    #[test]
    fn mistakes_become_one_sentence() {
        for line in [
            "skald-phone",
            "skald-phone dance",
            "skald-phone --home h pair",
            "skald-phone --home h pair --qr a --payload b",
            "skald-phone --home h approve",
            "skald-phone --home h approve x --bypass soon",
            "skald-phone --home h elicit x --value a --decline",
            "skald-phone --home h proxy --listen 0.0.0.0:50001",
            "skald-phone --home h proxy --listen here",
            "skald-phone --home h inbox --wait never",
        ] {
            let text = wrong(line);
            assert!(!text.contains('\n') && text.ends_with('.'), "{line}: {text}");
        }
        assert!(wrong("skald-phone --home h proxy --listen 0.0.0.0:50001").contains("this computer"));
    }

    #[test]
    fn global_options_may_stand_after_the_command() {
        let Ok(cli) = read("skald-phone inbox --home h --json") else { panic!() };
        assert!(cli.json);
        assert_eq!(cli.home, Some(PathBuf::from("h")));
    }
}
