//! The command line's language.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use skald_web::AllowedHost;

use crate::duration::parse_duration;

/// Lets a person approve, answer and watch what programs on this computer want to do.
#[derive(Debug, Parser)]
#[command(name = "skald", version, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    pub target: Target,
    #[command(subcommand)]
    pub command: Command,
}

/// Why there is no command to run.
#[derive(Debug)]
pub enum Stop {
    /// Help or the version was asked for.
    Shown(clap::Error),
    /// The command line is wrong, and how.
    Wrong(String),
}

/// Reads the command line.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, Stop> {
    Cli::try_parse_from(words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Shown(error),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => Stop::Wrong(
            "Say what to do, for example `skald serve` or `skald token list`; `skald --help` lists it all."
                .into(),
        ),
        _ => Stop::Wrong(sentence(&error.render().to_string())),
    })
}

/// Folds the several lines of a usage error into one sentence.
fn sentence(rendered: &str) -> String {
    let first = ["\n\nUsage:", "\n\n  tip:", "\n\nFor more information"]
        .iter()
        .fold(rendered, |text, end| text.split(end).next().unwrap_or(text));
    let text = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut chars = text.chars();
    let capital: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{capital}{} (see `skald --help`).", chars.as_str().trim_end_matches('.'))
}

/// Which host a command speaks to.
#[derive(Debug, Clone, Default, Args)]
pub struct Target {
    /// The host's data folder.
    #[arg(long, global = true, env = "SKALD_DATA", hide_env_values = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The host's address, e.g. http://127.0.0.1:8787.
    #[arg(long, global = true, env = "SKALD_URL", hide_env_values = true, value_name = "URL")]
    pub url: Option<String>,
    /// An API token. Better given as SKALD_TOKEN: other users can read command lines.
    #[arg(long, global = true, env = "SKALD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the host: Inbox, web page and plugins.
    Serve(ServeArgs),
    /// Print a fresh one-time sign-in link.
    Link {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// API tokens for scripts.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Ask for approval and wait. Exit 0: approved; 1: rejected; 3: expired or withdrawn; 4: host unreachable.
    Approve(ApproveArgs),
    /// Ask a question, wait, and print the answer. Exit 3: expired or withdrawn; 4: host unreachable.
    Ask(AskArgs),
    /// Tell the person something; does not wait.
    Notify {
        /// One line.
        title: String,
        /// More text.
        #[arg(default_value = "")]
        body: String,
    },
    /// Ask with the whole command line shown, then run it and give its exit code.
    Run(RunArgs),
    /// Pair a phone: shows a QR code, then the verification code, then admits or refuses the device.
    Pair(PairArgs),
    /// List the paired devices, or admit and revoke them.
    Devices(DevicesArgs),
    /// List the plugins, or switch and configure them.
    Plugins(PluginsArgs),
    /// Show whether the host runs and how it fares.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen. Port 0 takes any free one.
    #[arg(
        long,
        env = "SKALD_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:8787",
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,
    /// Open the page in the browser, signed in.
    #[arg(long)]
    pub open: bool,
    /// A further name the host answers to, e.g. behind a reverse proxy. May be given more than once.
    #[arg(
        long = "allow-host",
        env = "SKALD_ALLOW_HOST",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "NAME[:PORT]"
    )]
    pub allow_hosts: Vec<AllowedHost>,
    /// How to write the log (on standard error). RUST_LOG chooses what is in it.
    #[arg(long, env = "SKALD_LOG", hide_env_values = true, value_enum, default_value_t = LogFormat::Text)]
    pub log: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it. It is shown this once.
    Create {
        /// What it is for; unique.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the tokens' names.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// End a token.
    Revoke {
        /// The token's name.
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// The tool that wants to run.
    #[arg(long)]
    pub tool: String,
    /// One line on what it would do.
    #[arg(long)]
    pub summary: String,
    /// The tool's arguments, as JSON.
    #[arg(long, value_name = "JSON")]
    pub arguments: Option<String>,
    /// A longer explanation.
    #[arg(long)]
    pub detail: Option<String>,
    /// Who asks, as people should see it.
    #[arg(long)]
    pub label: Option<String>,
    /// The session that "approve for this session" is good for.
    #[arg(long)]
    pub session: Option<String>,
    /// How long to wait, e.g. 90s, 10m, 2h, 1d.
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// Print the outcome as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AskArgs {
    /// The question.
    pub question: String,
    /// An answer to choose from. May be given more than once; free text is always possible.
    #[arg(long = "option", value_name = "TEXT")]
    pub options: Vec<String>,
    /// What one needs to know to answer.
    #[arg(long)]
    pub context: Option<String>,
    /// Who asks, as people should see it.
    #[arg(long)]
    pub label: Option<String>,
    /// How long to wait, e.g. 90s, 10m, 2h, 1d.
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// Print the outcome as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// How long to wait for the approval, e.g. 90s, 10m, 2h, 1d.
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// Who asks, as people should see it.
    #[arg(long)]
    pub label: Option<String>,
    /// The session that "approve for this session" is good for.
    #[arg(long)]
    pub session: Option<String>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct PairArgs {
    /// How long the QR code is good for, e.g. 5m.
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub ttl: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DevicesArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Option<DevicesCommand>,
}

#[derive(Debug, Subcommand)]
pub enum DevicesCommand {
    /// Admit a device that has paired.
    Authorize {
        /// The device's key, or its first characters (8 at least).
        key: String,
    },
    /// Revoke a device: it is cut off at once and its keys are deleted.
    Revoke {
        /// The device's key, or its first characters (8 at least).
        key: String,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PluginsArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Option<PluginsCommand>,
}

#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// Switch a plugin on.
    Enable {
        /// The plugin's id.
        id: String,
    },
    /// Switch a plugin off.
    Disable {
        /// The plugin's id.
        id: String,
    },
    /// Show a plugin's settings, or change those given.
    Config {
        /// The plugin's id.
        id: String,
        /// Settings to change.
        #[arg(value_name = "KEY=VALUE")]
        pairs: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// What people read first: a change here is a change of the command line.
    #[test]
    fn the_help_texts_say_what_there_is() {
        let mut command = Cli::command().term_width(100);
        command.build();
        let mut text = command.render_help().to_string();
        for name in ["serve", "approve", "ask", "run", "pair", "devices", "plugins", "token", "notify"] {
            let sub = command.find_subcommand_mut(name).expect("a command");
            text.push_str(&format!("\n--- {name}\n\n{}", sub.render_help()));
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_wrong_command_line_is_told_in_one_sentence() {
        for (line, named) in [
            (&["skald"][..], "skald --help"),
            (&["skald", "token"], "skald --help"),
            (&["skald", "nope"], "nope"),
            (&["skald", "approve", "--tool", "t"], "--summary"),
            (&["skald", "approve", "--tool", "t", "--summary", "s", "--timeout", "soon"], "90s"),
            (&["skald", "approve", "--tool", "t", "--summary", "s", "--timeout", "-5s"], "-5"),
            (&["skald", "serve", "--listen", "nonsense"], "--listen"),
            (&["skald", "run"], "COMMAND"),
            (&["skald", "link", "--bogus"], "--bogus"),
        ] {
            let Err(Stop::Wrong(text)) = parse(line.iter().map(Into::into)) else { panic!("{line:?}") };
            assert!(text.contains(named), "{line:?}: {text}");
            assert!(!text.contains('\n') && !text.contains("Usage") && text.ends_with('.'), "{text}");
        }
        for line in [&["skald", "--help"][..], &["skald", "help", "run"], &["skald", "--version"]] {
            assert!(matches!(parse(line.iter().map(Into::into)), Err(Stop::Shown(_))), "{line:?}");
        }
    }

    #[test]
    fn run_takes_everything_after_the_first_word_as_the_command() {
        for line in [
            &["skald", "run", "--timeout", "1m", "--", "ls", "-la", "--json"][..],
            &["skald", "run", "--timeout", "1m", "ls", "-la", "--json"][..],
        ] {
            let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else { panic!("{line:?}") };
            assert_eq!(args.command, ["ls", "-la", "--json"]);
            assert_eq!(args.timeout, Some(Duration::from_secs(60)));
        }
        assert!(Cli::try_parse_from(["skald", "run"]).is_err());
    }

    #[test]
    fn the_target_may_stand_before_or_behind_the_command() {
        for line in
            [&["skald", "--data", "d", "token", "list"][..], &["skald", "token", "list", "--data", "d"][..]]
        {
            assert_eq!(Cli::try_parse_from(line).unwrap().target.data, Some("d".into()));
        }
    }
}
