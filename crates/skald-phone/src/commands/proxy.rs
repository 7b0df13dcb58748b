//! `proxy`: serves the host's pages on this computer. Every TCP connection becomes one pipe, opened with the first
//! byte: browsers open connections ahead of need, and a pipe costs the relay two.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::session::Session;
use crate::splice::{Patience, splice};
use crate::wire::{Conversation, Reply, Request};

/// A relay lets a namespace have 8 pipes by default; some stay free for the person's other devices. A browser keeps at
/// most 6 connections to one address.
const MAX_PIPES: usize = 6;
/// Streams of one pipe, where the host knows them: so many more.
const MORE_STREAMS: usize = 34;
/// Local connections beyond this are not taken until others end.
const MAX_CONNECTIONS: usize = 128;
/// How long a connection waits for its turn.
const TURN: Duration = Duration::from_secs(20);
/// How long opening a pipe may take; the connection beneath has shorter deadlines of its own.
const OPENING: Duration = Duration::from_secs(45);
/// A connection that says nothing for so long is closed.
const SILENT: Duration = Duration::from_secs(120);

pub async fn run(session: &Session, json: bool, args: cli::Proxy) -> Outcome<()> {
    let listener = listen(args.listen).await?;
    let address = listener.local_addr().map_err(|_| Failure::refused("The address cannot be read back."))?;
    // Not paired, or a home that cannot be used, is said now and not to a browser later.
    drop(session.converse().await?);
    let url = format!("http://{address}/");
    if json {
        out::json(&json!({ "url": url }))?;
    } else {
        out::line(&format!("Skald's pages are at {url} until you press Ctrl-C."))?;
    }
    let turns = Arc::new(Turns::default());
    let mut connections = JoinSet::new();
    connections.spawn(keep_warm(session.clone()));
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, session.clone(), turns.clone()));
                }
                // Out of file descriptors, most likely: waiting for one to come back is all that helps.
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Who may have a pipe, and how many wait for one.
struct Turns {
    places: Semaphore,
    /// The host serves many streams in one pipe.
    more: AtomicBool,
    waiting: watch::Sender<usize>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            places: Semaphore::new(MAX_PIPES),
            more: AtomicBool::new(false),
            waiting: watch::Sender::new(0),
        }
    }
}

impl Turns {
    /// The host gave a stream in a pipe of many.
    fn cheap(&self) {
        if !self.more.swap(true, Ordering::Relaxed) {
            self.places.add_permits(MORE_STREAMS);
        }
    }

    async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(place) = self.places.try_acquire() {
            return Some(place);
        }
        let _waiting = Waiting::begin(&self.waiting);
        timeout(TURN, self.places.acquire()).await.ok()?.ok()
    }
}

/// Counts one that waits, for as long as it does.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|n| *n += 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }
}

pub(super) async fn listen(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).await.map_err(|e| {
        Failure::usage(match e.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("The address {address} is in use already; choose another port with --listen.")
            }
            std::io::ErrorKind::PermissionDenied => {
                format!(
                    "The address {address} may not be used by you; choose a port above 1023 with --listen."
                )
            }
            _ => format!("The address {address} cannot be listened on; choose another with --listen."),
        })
    })
}

async fn serve(mut stream: TcpStream, session: Session, turns: Arc<Turns>) {
    let _ = stream.set_nodelay(true);
    let mut first = vec![0; 16 * 1024];
    let read = match timeout(SILENT, stream.read(&mut first)).await {
        Ok(Ok(n)) if n > 0 => n,
        _ => return,
    };
    first.truncate(read);
    let opened = async {
        let turn = turns.take().await.ok_or_else(|| {
            Failure::unreachable(
                "Too many connections to your host are open at once; close some pages and try again.",
            )
        })?;
        let pipe = timeout(OPENING, open(&session)).await;
        Ok((turn, pipe.map_err(|_| Failure::unreachable("Your host did not answer in time; try again."))??))
    };
    match opened.await {
        Ok((_turn, (pipe, cheap))) => {
            if cheap {
                turns.cheap();
            }
            let (reader, writer) = pipe.split();
            let patience = Patience::for_answers(turns.waiting.subscribe());
            splice(&first, stream.into_split(), (reader, writer), patience).await;
        }
        Err(failure) => refuse(stream, &first, &failure).await,
    }
}

/// Keeps a pipe to the host ready, whichever process talks to the relay.
async fn keep_warm(session: Session) {
    loop {
        if let Ok(mut conversation) = session.converse().await
            && conversation.say(&Request::Warm).await.is_ok()
        {
            // Nothing is answered; the end says that the process that kept it is gone.
            let _ = conversation.answer().await;
        }
        session.pause().await;
    }
}

/// The connection, and whether it was cheap.
async fn open(session: &Session) -> Outcome<(Conversation, bool)> {
    loop {
        let mut conversation = session.converse().await?;
        if conversation.say(&Request::Pipe).await.is_ok()
            && let Some(Reply::Ready { cheap }) = conversation.answer().await?
        {
            return Ok((conversation, cheap));
        }
        session.pause().await;
    }
}

/// Answers with a page in plain words. Read what still comes for a moment: closing a connection with unread bytes
/// would make the system throw the page away.
async fn refuse(mut stream: TcpStream, request: &[u8], failure: &Failure) {
    let _ =
        timeout(Duration::from_secs(5), stream.write_all(page(request, &failure.sentence).as_bytes())).await;
    let _ = stream.shutdown().await;
    let mut rest = [0; 4096];
    let drain = async { while stream.read(&mut rest).await.is_ok_and(|n| n > 0) {} };
    let _ = timeout(Duration::from_secs(1), drain).await;
}

/// A small HTTP 502: a page that tries again by itself for a browser, problem details for a program.
fn page(request: &[u8], sentence: &str) -> String {
    let head = String::from_utf8_lossy(request).to_ascii_lowercase();
    let browser = head.starts_with("get ") && head.contains("text/html");
    let (kind, body) = if browser {
        let text = escape(sentence);
        let body = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>Skald is not reachable</title></head>\
             <body><h1>Skald is not reachable</h1><p>{text}</p><p>This page tries again by itself.</p></body></html>\n"
        );
        ("text/html; charset=utf-8", body)
    } else {
        let problem = json!({"type": "urn:skald:problem:host_unreachable", "title": "host_unreachable",
            "status": 502, "detail": sentence});
        ("application/problem+json", format!("{problem}\n"))
    };
    format!(
        "HTTP/1.1 502 Bad Gateway\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Retry-After: 5\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_a_page_and_a_program_problem_details() {
        let sentence = "Your host <home> is not connected.";
        let for_people = page(b"GET / HTTP/1.1\r\nAccept: text/html,*/*\r\n\r\n", sentence);
        assert!(for_people.starts_with("HTTP/1.1 502 ") && for_people.contains("&lt;home&gt;"));
        let for_programs = page(b"POST /api HTTP/1.1\r\n\r\n", sentence);
        let body = for_programs.split("\r\n\r\n").nth(1).unwrap_or_default();
        let problem: serde_json::Value = serde_json::from_str(body).expect("json");
        assert_eq!((&problem["status"], &problem["detail"]), (&json!(502), &json!(sentence)));
        for answer in [for_people, for_programs] {
            let (head, body) = answer.split_once("\r\n\r\n").expect("head");
            assert!(head.contains(&format!("Content-Length: {}", body.len())));
        }
    }

    #[tokio::test]
    async fn a_taken_port_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = taken.local_addr().expect("address");
        let failure = listen(address).await.expect_err("taken");
        assert_eq!(failure.code.exit(), 2);
        assert!(failure.sentence.contains(&address.to_string()));
    }
}
