//! `skald-relay backup` and `skald-relay restore`.

use std::path::PathBuf;
use std::process::ExitCode;

use skald_relay::backup::{self, BackupError, Contents};

use super::{Failure, SettingsArgs, start_log};

/// What is copied, and where to.
#[derive(clap::Args)]
pub struct BackupArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The file to write, which must not exist.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// What is put back, and where.
#[derive(clap::Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// A file that `skald-relay backup` has written.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Replace the database that is there, and keep it as relay.db.replaced.
    #[arg(long)]
    replace: bool,
}

/// Copies the store, also while the relay runs.
pub fn backup(args: BackupArgs) -> Result<ExitCode, Failure> {
    let settings = args.settings.load()?;
    start_log("warn", settings.log_format)?;
    let contents = block_on(backup::backup(&settings.data, &args.to))?;
    println!("{} is a copy of {}: {}.", args.to.display(), settings.data.display(), describe(&contents));
    Ok(ExitCode::SUCCESS)
}

/// Puts a copy back, while no relay runs.
pub fn restore(args: RestoreArgs) -> Result<ExitCode, Failure> {
    let settings = args.settings.load()?;
    start_log("warn", settings.log_format)?;
    let contents = block_on(backup::restore(&settings.data, &args.from, args.replace))?;
    println!("{} holds what {} held: {}.", settings.data.display(), args.from.display(), describe(&contents));
    Ok(ExitCode::SUCCESS)
}

fn block_on(work: impl Future<Output = Result<Contents, BackupError>>) -> Result<Contents, Failure> {
    super::runtime()?.block_on(work).map_err(|error| match error {
        BackupError::File { .. } | BackupError::Database { .. } | BackupError::Damaged { .. } => {
            Failure::machine(error)
        }
        error => Failure::configuration(error),
    })
}

fn describe(contents: &Contents) -> String {
    let count = |number: i64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let files = match &contents.files[..] {
        [] => "no other files".to_owned(),
        files => files.join(", "),
    };
    format!(
        "{}, {}, {}, and {files}",
        count(contents.namespaces, "namespace"),
        count(contents.devices, "device"),
        count(contents.messages, "waiting message")
    )
}
