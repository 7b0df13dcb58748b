//! `skald serve`: the host itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plugin_local_streams::{LocalStreams, LogRing, Surroundings};
use plugin_mobile_connector::MobileConnector;
use skald_core_api::{Plugin, Principal};
use skald_host::{Host, HostConfig};
use skald_web::{WebConfig, WebServer};

use crate::cli::ServeArgs;
use crate::failure::{Exit, Failure};
use crate::files::{HostFile, LastHost, default_data, host_file, last_host_file, token_file, write_private};
use crate::logging;
use crate::output;
use crate::signals::Signals;

/// The name of the command line's own token.
const CLI_TOKEN: &str = "cli";
/// How long everything may take to stop. What hangs longer is cut off by the process's end: nothing durable depends on
/// an orderly one.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the host until it is asked to end.
pub async fn serve(data: Option<PathBuf>, args: ServeArgs) -> Result<Exit, Failure> {
    let log = LogRing::default();
    logging::start(args.log, &log)?;
    let mut signals = Signals::new()?;
    let data = match data.or_else(default_data) {
        Some(data) => std::path::absolute(&data).map_err(|e| {
            Failure::usage(format!("The data folder cannot be used ({e}): name another with --data."))
        })?,
        None => {
            return Err(Failure::usage(
                "There is no home folder to keep data in: name a folder with --data.",
            ));
        }
    };
    let config = WebConfig { listen: args.listen, allowed_hosts: args.allow_hosts };
    let bound = skald_web::bind(config).await.map_err(|e| Failure::usage(e.to_string()))?;
    let around = Surroundings { data: data.clone(), listen: Some(bound.local_addr()) };
    let plugins: Vec<Arc<dyn Plugin>> =
        vec![Arc::new(MobileConnector::new()), Arc::new(LocalStreams::new(around, log))];
    let host =
        Host::open(HostConfig::new(&data, plugins)).await.map_err(|e| Failure::usage(e.to_string()))?;
    let served = match bound.serve(&host) {
        Ok(server) => {
            let served = run(&host, &server, &data, args.open, &mut signals).await;
            stop(&host, &server, &mut signals).await;
            served
        }
        Err(e) => {
            host.shutdown().await;
            Err(Failure::failed(format!(
                "The API's description cannot be written ({e}); this is a fault in Skald."
            )))
        }
    };
    let _ = std::fs::remove_file(open_file(&data));
    served.map(|()| Exit::ok())
}

async fn run(
    host: &Host,
    server: &WebServer,
    data: &Path,
    open: bool,
    signals: &mut Signals,
) -> Result<(), Failure> {
    keep_token(host, data).await?;
    leave_records(server.url(), data)?;
    host.start(server.local_web()).await;
    server.accept();
    if !server.local_addr().ip().is_loopback() {
        tracing::warn!(
            "the host listens beyond this computer without encryption; put a proxy with TLS in front of it"
        );
    }
    let link = host.access().create_link().await.map_err(|e| Failure::failed(e.to_string()))?;
    let link = server.sign_in_url(link.token.expose());
    // These two lines say that the host is ready; scripts wait for them.
    let told = output::line(&format!("Skald is ready at {}", server.url()))
        .and_then(|()| output::line(&format!("Sign in, once and within ten minutes: {link}")));
    if told.is_err() {
        tracing::warn!("standard output is closed; make a sign-in link with `skald link`");
    }
    if open {
        open_browser(data, &link);
    }
    tracing::info!(url = server.url(), "the host is up");
    signals.recv().await;
    tracing::info!("the host stops");
    Ok(())
}

async fn stop(host: &Host, server: &WebServer, signals: &mut Signals) {
    let stopping = async {
        server.shutdown().await;
        host.shutdown().await;
    };
    tokio::select! {
        stopped = tokio::time::timeout(PATIENCE, stopping) => {
            if stopped.is_err() {
                tracing::warn!("something did not stop in time and was cut off");
            }
        }
        // Whoever asks twice means now.
        () = signals.recv() => tracing::warn!("asked again to end; not waiting for the rest"),
    }
}

/// Keeps the command line's token over restarts, so that commands that wait can go on; makes one where there is none.
/// The host has looked at the file's mode when it opened the folder.
async fn keep_token(host: &Host, data: &Path) -> Result<(), Failure> {
    let file = token_file(data);
    let failed = |e: &dyn std::fmt::Display| {
        Failure::failed(format!("The command line's token could not be made: {e}"))
    };
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    if !kept.trim().is_empty() {
        let known = host.access().by_token(kept.trim()).await.map_err(|e| failed(&e))?;
        if matches!(known, Some(Principal::Token { name }) if name == CLI_TOKEN) {
            return Ok(());
        }
    }
    let token = host.access().rotate_token(CLI_TOKEN).await.map_err(|e| failed(&e))?;
    write_private(&file, token.expose().as_bytes()).map_err(|e| cannot_write(&file, &e))
}

/// Leaves word of where the host is.
fn leave_records(url: &str, data: &Path) -> Result<(), Failure> {
    let host = HostFile { url: url.to_owned(), pid: std::process::id() };
    let file = host_file(data);
    let json = serde_json::to_vec(&host).unwrap_or_default();
    write_private(&file, &json).map_err(|e| cannot_write(&file, &e))?;
    // The user's record is a convenience: a system service has no home, and needs none.
    if let Some(file) = last_host_file() {
        let last = LastHost { url: url.to_owned(), data: data.to_owned() };
        let json = serde_json::to_vec(&last).unwrap_or_default();
        if let Err(error) = write_private(&file, &json) {
            tracing::warn!(%error, "the record of the last host could not be written; name the data folder with --data");
        }
    }
    Ok(())
}

fn cannot_write(file: &Path, e: &std::io::Error) -> Failure {
    Failure::usage(format!(
        "{} cannot be written ({e}): make room or change the folder's permissions.",
        file.display()
    ))
}

fn open_file(data: &Path) -> PathBuf {
    data.join("open.html")
}

/// Opens the page, signed in. The link goes through a private file: other users can read command lines.
fn open_browser(data: &Path, link: &str) {
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={link}\">\
         <title>Skald</title><a href=\"{link}\">Open Skald</a>\n"
    );
    let file = open_file(data);
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = write_private(&file, page.as_bytes()).and_then(|()| {
        Command::new(program)
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(|mut child| {
                // Only waits for it, so that it does not stay behind as a zombie.
                std::thread::spawn(move || child.wait());
            })
    });
    if let Err(error) = opened {
        tracing::warn!(%error, "no browser could be opened; open the sign-in link yourself");
    }
}
