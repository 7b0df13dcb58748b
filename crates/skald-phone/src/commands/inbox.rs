//! `inbox`: once, or for as long as it is watched.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{GRACE, Waiting, deadline, follow, obstacle, unheard};
use crate::cli;
use crate::desk::Note;
use crate::failure::{Failure, Outcome};
use crate::out::{self, now_ms};
use crate::render::{self, Pending, stretch};
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::text::{Style, indented, one_line};
use crate::wire::{self, HostState, Link, Reply, Request, View};

/// How often times such as "lapses in 5 min" are drawn again on a terminal.
const REDRAW: Duration = Duration::from_secs(15);

pub async fn run(session: &Session, json: bool, args: cli::Inbox) -> Outcome<()> {
    if args.watch { watch(session, json).await } else { once(session, json, args.wait.wait).await }
}

async fn once(session: &Session, json: bool, wait: Duration) -> Outcome<()> {
    let mut waiting = Waiting::default();
    let found = follow(session, deadline(wait), GRACE, |view, fresh| {
        if fresh > 0 {
            return ControlFlow::Break(Ok(view.clone()));
        }
        waiting.tell(view, wait);
        ControlFlow::Continue(())
    });
    let view = match found.await? {
        Ok(view) => view,
        Err(last) => return Err(unheard(last.as_ref(), "try again when it is back.")),
    };
    if json {
        out::json(&machine(&view))?;
    } else {
        let style = Style::for_stdout();
        out::text_of(&format!("{}{}", notes(&view.notes, style), body(&view, style)))?;
    }
    // What was printed counts as seen. If the holder has gone meanwhile, it is only shown once more.
    let mut conversation = session.converse().await?;
    let _ = conversation.say(&seen(&view)).await;
    // The answer to a request that follows proves that this one was taken.
    if conversation.say(&Request::Watch).await.is_ok() {
        let _ = tokio::time::timeout(Duration::from_secs(2), conversation.answer()).await;
    }
    Ok(())
}

async fn watch(session: &Session, json: bool) -> Outcome<()> {
    let terminal = std::io::stdout().is_terminal() && !json;
    let style = Style::for_stdout();
    let mut printed = Printed::default();
    loop {
        let mut conversation = session.converse().await?;
        if conversation.say(&Request::Watch).await.is_err() {
            session.pause().await;
            continue;
        }
        let (mut reader, mut writer) = conversation.split();
        // Reading a line cannot be interrupted half-way, so it has a task of its own.
        let (views, mut incoming) = mpsc::channel::<Reply>(1);
        let reading = tokio::spawn(async move {
            while let Some(reply) = wire::hear::<Reply>(&mut reader).await {
                if views.send(reply).await.is_err() {
                    break;
                }
            }
        });
        let mut last: Option<View> = None;
        loop {
            tokio::select! {
                reply = incoming.recv() => match reply {
                    Some(Reply::View(view)) => {
                        printed.show(&view, json, terminal, style)?;
                        // Only what is current was seen as it stands.
                        let _ = wire::say(&mut writer, &seen(&view)).await;
                        last = Some(*view);
                    }
                    Some(Reply::Failed { code, sentence }) => {
                        reading.abort();
                        return Err(Failure { code: crate::failure::Code::from_word(&code), sentence });
                    }
                    Some(_) => {}
                    None => break,
                },
                () = sleep(REDRAW), if terminal && last.is_some() => {
                    if let Some(view) = &last {
                        printed.draw(view, style)?;
                    }
                }
            }
        }
        reading.abort();
        session.pause().await;
    }
}

/// What a watcher has printed, so that it prints changes and nothing twice.
#[derive(Default)]
struct Printed {
    view: Option<View>,
    notes_below: u64,
    /// The last notes, for the foot of the screen.
    recent: Vec<Note>,
    redrawn: Option<Instant>,
}

impl Printed {
    fn show(&mut self, view: &View, json: bool, terminal: bool, style: Style) -> Outcome<()> {
        let fresh: Vec<Note> = view.notes.iter().filter(|n| n.seq >= self.notes_below).cloned().collect();
        self.notes_below = fresh.last().map_or(self.notes_below, |n| n.seq + 1);
        let changed = self.view.as_ref().is_none_or(|before| {
            (before.link, before.host, &before.error, &before.inbox, &before.pending)
                != (view.link, view.host, &view.error, &view.inbox, &view.pending)
        });
        self.view = Some(view.clone());
        if !changed && fresh.is_empty() {
            return Ok(());
        }
        if json {
            let mut shown = machine(view);
            shown["notifications"] = fresh.iter().map(note_json).collect();
            return out::json(&shown);
        }
        self.recent.extend(fresh.iter().cloned());
        let surplus = self.recent.len().saturating_sub(5);
        self.recent.drain(..surplus);
        if terminal {
            return self.draw(view, style);
        }
        let body =
            if changed { format!("{}\n{}", state(view, style), body(view, style)) } else { String::new() };
        out::text_of(&format!("{}{body}\n", notes(&fresh, style)))
    }

    fn draw(&mut self, view: &View, style: Style) -> Outcome<()> {
        self.redrawn = Some(Instant::now());
        let foot = notes(&self.recent, style);
        let gap = if foot.is_empty() { "" } else { "\n" };
        out::text_of(&format!("\x1b[H\x1b[2J{}\n{}{gap}{foot}", state(view, style), body(view, style)))
    }
}

/// What the person has seen with this view.
fn seen(view: &View) -> Request {
    let inbox = view.inbox.as_ref().map(Snapshot::of).unwrap_or_default();
    let digests: BTreeMap<_, _> =
        inbox.items.iter().filter_map(|i| Some((i.id.clone(), i.digest()?.to_string()))).collect();
    Request::Shown { digests, notes_below: view.notes.last().map_or(0, |n| n.seq + 1) }
}

fn pending(view: &View) -> Vec<Pending<'_>> {
    view.pending.iter().map(|p| Pending { request_id: &p.request_id, what: &p.what }).collect()
}

fn body(view: &View, style: Style) -> String {
    match &view.inbox {
        Some(inbox) => render::inbox(&Snapshot::of(inbox), &pending(view), now_ms(), style),
        None => "The host's inbox has not been received yet.\n".into(),
    }
}

/// One line on how current the rest is.
fn state(view: &View, style: Style) -> String {
    let current = view.link == Link::Connected && view.host != HostState::Offline;
    if current {
        return style.paint("32", "● connected");
    }
    let age = view.received_at.map_or_else(String::new, |at| {
        format!("; this is from {} ago", stretch(now_ms().saturating_sub(at).max(0)))
    });
    let why = match (view.link, &view.error) {
        (Link::Connecting, None) => "connecting".to_owned(),
        _ => obstacle(Some(view)),
    };
    style.paint("33", &format!("○ {}{age}", one_line(&why)))
}

fn notes(notes: &[Note], style: Style) -> String {
    let mut out = String::new();
    for note in notes {
        let age = stretch(now_ms().saturating_sub(note.at).max(0));
        out.push_str(&format!(
            "{} {}\n",
            style.bold(&one_line(&note.title)),
            style.dim(&format!("({age} ago)"))
        ));
        if !note.body.is_empty() {
            out.push_str(&indented(&note.body, "  ", str::to_owned));
        }
    }
    out
}

fn note_json(note: &Note) -> Value {
    json!({"title": note.title, "body": note.body, "at": note.at})
}

fn machine(view: &View) -> Value {
    let snapshot = view.inbox.as_ref().map(Snapshot::of).unwrap_or_default();
    let mut out = render::inbox_json(&snapshot, &pending(view));
    out["received_at"] = json!(view.received_at);
    out["link"] = json!(view.link);
    out["host"] = json!(view.host);
    out["notifications"] = view.notes.iter().map(note_json).collect();
    out
}
