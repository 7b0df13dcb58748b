//! Skald's host and its command line.

mod cli;
mod client;
mod commands;
mod discover;
mod duration;
mod failure;
mod files;
mod logging;
mod output;
mod quote;
mod signals;
mod waiting;

use std::process::ExitCode;

use crate::cli::{Cli, Command, Stop};
use crate::failure::{Exit, Failure};

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(Stop::Shown(help)) => {
            // A reader that went away has read enough.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
        Err(Stop::Wrong(text)) => return finish(Err(Failure::usage(text))),
    };
    // The mobile connector speaks TLS; rustls wants its one provider chosen before anyone does.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        return finish(Err(Failure::failed(
            "The TLS provider is already installed; this is a fault in Skald.",
        )));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return finish(Err(Failure::failed(format!("Skald could not start its threads: {e}.")))),
    };
    let result = runtime.block_on(dispatch(cli));
    // Whatever still reads standard input on a thread of its own must not hold up the end.
    runtime.shutdown_background();
    match result {
        Ok(Exit::Replace(command)) => finish(commands::run::replace(command)),
        other => finish(other),
    }
}

async fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let target = cli.target;
    match cli.command {
        Command::Serve(args) => commands::serve::serve(target.data, args).await,
        Command::Link { json } => commands::access::link(target, json).await,
        Command::Token(command) => commands::access::token(target, command).await,
        Command::Approve(args) => commands::ask::approve(target, args).await,
        Command::Ask(args) => commands::ask::ask(target, args).await,
        Command::Notify { title, body } => commands::ask::notify(target, title, body).await,
        Command::Run(args) => commands::run::run(target, args).await,
        Command::Pair(args) => commands::pair::pair(target, args).await,
        Command::Devices(args) => commands::devices::devices(target, args).await,
        Command::Plugins(args) => commands::plugins::plugins(target, args).await,
        Command::Status { json } => commands::status::status(target, json).await,
    }
}

fn finish(result: Result<Exit, Failure>) -> ExitCode {
    match result {
        Ok(Exit::Code(code)) => ExitCode::from(code),
        // `replace` never gives one back.
        Ok(Exit::Replace(_)) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("skald: {}", output::clean(&failure.text));
            ExitCode::from(failure.code)
        }
    }
}
