//! The commands. Each speaks to the home's holder through [`Session`] and says in the end what stands.

mod answer;
mod elicit;
mod forward;
mod get;
mod inbox;
mod logout;
mod logs;
mod ls;
mod pair;
mod proxy;
mod put;
mod status;

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::cli::{Cli, Command};
use crate::failure::{Failure, Outcome};
use crate::home::Home;
use crate::session::Session;
use crate::wire::{HostState, Link, Reply, Request, View};

/// Runs one command to its end.
pub async fn run(cli: Cli) -> Outcome<()> {
    let session = Session::new(Home::locate(cli.home)?, cli.ca);
    let json = cli.json;
    // What goes on for ever ends well when it is told to stop.
    let endless = match &cli.command {
        Command::Inbox(args) => args.watch,
        Command::Proxy(_) | Command::Forward(_) => true,
        Command::Logs(args) => args.follow,
        _ => false,
    };
    let work = async {
        match cli.command {
            Command::Pair(args) => pair::run(&session, json, args).await,
            Command::Inbox(args) => inbox::run(&session, json, args).await,
            Command::Approve(args) => answer::approve(&session, json, args).await,
            Command::Reject(args) => answer::reject(&session, json, args).await,
            Command::Answer(args) => answer::answer(&session, json, args).await,
            Command::Elicit(args) => elicit::run(&session, json, args).await,
            Command::Proxy(args) => proxy::run(&session, json, args).await,
            Command::Ls(args) => ls::run(&session, json, args).await,
            Command::Get(args) => get::run(&session, json, args).await,
            Command::Put(args) => put::run(&session, json, args).await,
            Command::Logs(args) => logs::run(&session, json, args).await,
            Command::Forward(args) => forward::run(&session, json, args).await,
            Command::Status(args) => status::run(&session, json, args).await,
            Command::Logout(args) => logout::run(&session, json, args).await,
        }
    };
    let done = tokio::select! {
        done = Box::pin(work) => done,
        () = stopped() => if endless { Ok(()) } else { Err(Failure::interrupted()) },
    };
    session.close().await;
    done
}

/// Returns when the process is asked to stop.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Follows the view until `step` breaks with a result, and gives back the last view where time ran out first.
/// `step` is told how many live snapshots came since the command began; the first may have been under way by then, so
/// another is asked for. A holder that goes away is replaced, by this process if need be. A device that is not admitted
/// is given `grace` alone: a relay that lost its list gets it back from the host within moments, and all else takes a
/// person.
async fn follow<T>(
    session: &Session,
    deadline: Instant,
    grace: Duration,
    mut step: impl FnMut(&View, u64) -> ControlFlow<Outcome<T>>,
) -> Outcome<Result<T, Option<View>>> {
    let mut last: Option<View> = None;
    let mut refused_at = None;
    loop {
        let mut conversation = session.converse().await?;
        // A holder that is gone by now hears nothing, and the loop below ends at once.
        let _ = conversation.say(&Request::Watch).await;
        let (mut base, mut asked_again) = (None, false);
        loop {
            let until = refused_at.map_or(deadline, |at: Instant| deadline.min(at + grace));
            match timeout_at(until, conversation.answer()).await {
                Err(_) => return Ok(Err(last)),
                Ok(reply) => match reply? {
                    Some(Reply::View(view)) => {
                        let base = *base.get_or_insert(view.fresh);
                        let fresh = view.fresh.saturating_sub(base);
                        if let ControlFlow::Break(done) = step(&view, fresh) {
                            return done.map(Ok);
                        }
                        if fresh == 1 && !asked_again {
                            asked_again = true;
                            let _ = conversation.say(&Request::Watch).await;
                        }
                        refused_at = match view.link {
                            Link::NotAdmitted => refused_at.or_else(|| Some(Instant::now())),
                            Link::Connected => None,
                            _ => refused_at,
                        };
                        last = Some(*view);
                    }
                    Some(_) => {}
                    None => break,
                },
            }
        }
        if Instant::now() >= deadline {
            return Ok(Err(last));
        }
        session.pause().await;
    }
}

/// How long a device that is not admitted is given where nobody is expected to admit it just now.
const GRACE: Duration = Duration::from_secs(4);

/// The moment `wait` from now.
fn deadline(wait: Duration) -> Instant {
    Instant::now() + wait
}

/// Why nothing fresh came, as the beginning of a sentence without its full stop.
fn obstacle(view: Option<&View>) -> String {
    match view {
        None => "The relay could not be reached in time".into(),
        Some(view) => match (view.link, view.host, &view.error) {
            (Link::NotAdmitted, ..) => "The host has not admitted this device".into(),
            (Link::Connected, HostState::Offline, _) => "Your host is not connected to the relay".into(),
            (Link::Connected, _, Some(error)) => error.trim_end_matches('.').to_owned(),
            (Link::Connected, ..) => "Your host did not answer in time".into(),
            (_, _, Some(error)) => {
                format!("The relay cannot be reached ({})", error.trim_end_matches('.'))
            }
            (_, _, None) => "The relay could not be reached in time".into(),
        },
    }
}

/// The failure of a command that heard nothing fresh.
fn unheard(view: Option<&View>, rest: &str) -> Failure {
    match view {
        Some(view) if view.link == Link::NotAdmitted => not_admitted(),
        view => Failure::unreachable(format!("{}; {rest}", obstacle(view))),
    }
}

/// The failure of a device that is not, or no longer, admitted.
fn not_admitted() -> Failure {
    Failure::refused(
        "The host has not admitted this device, or has removed it: admit it on the host's Devices page, or log out and pair again.",
    )
}

/// Says once, beside the result, what keeps a command waiting.
#[derive(Default)]
struct Waiting {
    said: Option<String>,
}

impl Waiting {
    fn tell(&mut self, view: &View, wait: Duration) {
        let hindered = match view.link {
            Link::Connected => view.host == HostState::Offline,
            Link::Connecting => view.error.is_some(),
            Link::NotAdmitted | Link::Stopped => false,
        };
        if !hindered {
            return;
        }
        let text = format!("{}; waiting up to {} s.", obstacle(Some(view)), wait.as_secs());
        if self.said.as_ref() != Some(&text) {
            crate::out::aside(&text);
            self.said = Some(text);
        }
    }
}
