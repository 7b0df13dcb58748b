//! An ntfy server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;

use super::{Act, Alpn, FakeServer, Incoming, Reply};
use crate::Authority;

/// The largest text; more would become an attachment.
const TEXT_BYTES: usize = 4096;

/// The server. Its topics are open, except those that begin with `private`, which want the access token `tk_secret`.
#[derive(Debug)]
pub struct FakeNtfy {
    server: FakeServer,
    script: Arc<Mutex<VecDeque<Act>>>,
    seen: mpsc::UnboundedReceiver<Incoming>,
}

impl FakeNtfy {
    /// Starts a server.
    pub async fn start(authority: &Authority) -> Result<Self> {
        let (send, seen) = mpsc::unbounded_channel();
        let script: Arc<Mutex<VecDeque<Act>>> = Arc::default();
        let held = Arc::clone(&script);
        let handler = Arc::new(move |request: Incoming| {
            let next = held.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let act = next.unwrap_or_else(|| Reply::status(answer(&request)).into());
            // Nobody waits any more where the test has ended.
            let _ = send.send(request);
            Box::pin(async move { act }) as _
        });
        let server = FakeServer::start(authority, "ntfy", Alpn::Any, handler).await?;
        Ok(Self { server, script, seen })
    }

    /// Answers the next request like this. Several are kept in order.
    pub fn next(&self, act: impl Into<Act>) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).push_back(act.into());
    }

    /// The next request.
    pub async fn request(&mut self) -> Result<Incoming> {
        self.seen.recv().await.context("the server has ended")
    }

    /// `localhost:PORT`.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.server.address().port())
    }
}

/// The status for a message.
fn answer(request: &Incoming) -> u16 {
    let topic = request.path.trim_start_matches('/');
    let sound = request.method == http::Method::POST
        && !topic.is_empty()
        && !topic.contains(['/', '?'])
        && request.body.len() <= TEXT_BYTES;
    if !sound {
        return 400;
    }
    let signed_in = request.header("authorization") == Some("Bearer tk_secret");
    if topic.starts_with("private") && !signed_in { 403 } else { 200 }
}
