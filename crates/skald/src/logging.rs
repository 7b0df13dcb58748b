//! The log, on standard error, and its last lines in memory for devices that may read them.

use std::io::IsTerminal;

use plugin_local_streams::LogRing;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::LogFormat;
use crate::failure::Failure;

/// What is logged where RUST_LOG does not say.
const DEFAULT: &str = "info";

/// Starts logging. `ring` keeps the last lines.
pub fn start(format: LogFormat, ring: &LogRing) -> Result<(), Failure> {
    let wanted = match std::env::var("RUST_LOG") {
        Ok(wanted) if !wanted.trim().is_empty() => wanted,
        Ok(_) | Err(std::env::VarError::NotPresent) => DEFAULT.to_owned(),
        Err(_) => return Err(unreadable()),
    };
    let filter = EnvFilter::builder().parse(&wanted).map_err(|_| unreadable())?;
    let filter = filter.and(filter_fn(discreet));
    let base = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = match format {
        LogFormat::Text => base.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => base.json().boxed(),
    };
    let layers = layer.and_then(ring.layer()).with_filter(filter);
    let started = tracing_subscriber::registry().with(layers).try_init();
    started.map_err(|_| Failure::failed("The log was started twice; this is a fault in Skald."))
}

fn unreadable() -> Failure {
    Failure::usage("RUST_LOG cannot be read: write it like `info` or `skald_web=debug`.")
}

/// Other people's crates write whole frames and headers below the info level, whatever those hold. Ours do not, so
/// only they may say more.
fn discreet(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO
        || ["skald", "plugin_mobile_connector", "plugin_local_streams"]
            .iter()
            .any(|ours| metadata.target().starts_with(ours))
}
