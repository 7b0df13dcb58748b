//! One task owns one control socket: it dials, writes what the engine gives it, and hands over one frame at a time.
//!
//! The next frame is read only once the engine has dealt with the last one, durably. The WebSocket library answers a Ping
//! when it reads it, so the relay's proof of delivery (relay-server, Delivery 3) is never given ahead of the disk.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use skald_relay_common::frame::{FromPeer, FromRelay};
use skald_relay_common::limits::Limits;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tokio_util::sync::CancellationToken;

use crate::net::{Dialer, Io};
use crate::options::Timings;
use crate::status::LinkProblem;

/// What a socket reports, with the number of the attempt it belongs to.
pub(crate) struct Report {
    pub(crate) attempt: u64,
    pub(crate) event: WireEvent,
}

pub(crate) enum WireEvent {
    /// The WebSocket is open.
    Opened,
    /// A binary frame. `done` is answered once it is dealt with; dropped, the socket is given up.
    Frame {
        bytes: Bytes,
        done: oneshot::Sender<()>,
    },
    /// A Ping; the library answers it.
    Ping,
    Pong(Bytes),
    /// It is over.
    Lost(LinkProblem),
}

/// What the engine wants written.
pub(crate) enum WireCommand {
    Frame(Vec<u8>),
    Ping([u8; 8]),
}

/// The engine's end of a socket.
pub(crate) struct Wire {
    pub(crate) attempt: u64,
    /// Bounded. One message is under way at a time, so a full queue means that the socket takes nothing any more: the
    /// engine gives it up.
    pub(crate) commands: mpsc::Sender<WireCommand>,
    pub(crate) cancel: CancellationToken,
}

/// How many commands may wait for the socket.
const QUEUE: usize = 32;

impl Wire {
    /// The socket's task, to be spawned by whoever joins it.
    pub(crate) fn new(
        attempt: u64,
        dialer: Arc<Dialer>,
        reports: mpsc::Sender<Report>,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (commands, queue) = mpsc::channel(QUEUE);
        let cancel = stop.child_token();
        let token = cancel.clone();
        let task = async move {
            let socket = Socket { attempt, reports };
            let run = socket.run(&dialer, queue, &token);
            if let Some(Some(problem)) = token.run_until_cancelled(run).await {
                socket.report(WireEvent::Lost(problem)).await;
            }
        };
        (Self { attempt, commands, cancel }, task)
    }
}

struct Socket {
    attempt: u64,
    reports: mpsc::Sender<Report>,
}

impl Socket {
    async fn report(&self, event: WireEvent) {
        // Without an engine there is nobody to tell.
        let _ = self.reports.send(Report { attempt: self.attempt, event }).await;
    }

    /// `None`: the engine has gone.
    async fn run(
        &self,
        dialer: &Dialer,
        mut commands: mpsc::Receiver<WireCommand>,
        token: &CancellationToken,
    ) -> Option<LinkProblem> {
        let mut socket = match open(dialer).await {
            Ok(socket) => socket,
            Err(problem) => return Some(problem),
        };
        self.report(WireEvent::Opened).await;
        let end = self.pump(&mut socket, &mut commands, &dialer.timings).await;
        if !token.is_cancelled() {
            // A goodbye, if the path still takes one.
            let _ = timeout(std::time::Duration::from_secs(1), socket.close(None)).await;
        }
        end
    }

    async fn pump(
        &self,
        socket: &mut WebSocketStream<Io>,
        commands: &mut mpsc::Receiver<WireCommand>,
        timings: &Timings,
    ) -> Option<LinkProblem> {
        let mut pending: Option<oneshot::Receiver<()>> = None;
        loop {
            tokio::select! {
                command = commands.recv() => {
                    let message = match command? {
                        WireCommand::Frame(bytes) => Message::Binary(bytes.into()),
                        WireCommand::Ping(payload) => Message::Ping(Bytes::copy_from_slice(&payload)),
                    };
                    match timeout(timings.write, socket.send(message)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return Some(LinkProblem::Closed),
                        Err(_) => return Some(LinkProblem::Silent),
                    }
                }
                done = async { pending.as_mut()?.await.ok() }, if pending.is_some() => {
                    done?;
                    pending = None;
                }
                read = socket.next(), if pending.is_none() => match read {
                    Some(Ok(Message::Binary(bytes))) => {
                        let (done, wait) = oneshot::channel();
                        pending = Some(wait);
                        self.report(WireEvent::Frame { bytes, done }).await;
                    }
                    Some(Ok(Message::Ping(_))) => self.report(WireEvent::Ping).await,
                    Some(Ok(Message::Pong(payload))) => self.report(WireEvent::Pong(payload)).await,
                    Some(Ok(Message::Text(_) | Message::Frame(_))) => return Some(LinkProblem::Protocol),
                    Some(Ok(Message::Close(_))) => {}
                    Some(Err(WsError::Protocol(_) | WsError::Capacity(_))) => return Some(LinkProblem::Protocol),
                    Some(Err(_)) | None => return Some(LinkProblem::Closed),
                },
            }
        }
    }
}

/// Opens the control socket.
pub(crate) async fn open(dialer: &Dialer) -> Result<WebSocketStream<Io>, LinkProblem> {
    let io = dialer.connect().await?;
    let url = &dialer.url;
    let scheme = if url.is_tls() { "wss" } else { "ws" };
    let request = format!("{scheme}://{}{}", url.authority(), url.control_path())
        .into_client_request()
        .map_err(|_| LinkProblem::Protocol)?;
    // The largest frame is a live message. Small buffers: the socket idles most of its life.
    let largest = Limits::default().max_live_frame_bytes as usize + 1_024;
    let config = WebSocketConfig::default()
        .read_buffer_size(8 * 1_024)
        .write_buffer_size(8 * 1_024)
        .max_message_size(Some(largest))
        .max_frame_size(Some(largest));
    let host = url.host().to_owned();
    match timeout(dialer.timings.upgrade, client_async_with_config(request, io, Some(config))).await {
        Err(_) => Err(LinkProblem::TimedOut { host, step: "opening the WebSocket" }),
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(WsError::Http(response))) if response.status().as_u16() == 429 => Err(LinkProblem::Busy),
        Ok(Err(WsError::Http(response))) => {
            Err(LinkProblem::NotARelay { host, status: response.status().as_u16() })
        }
        Ok(Err(WsError::Io(_))) => Err(LinkProblem::Closed),
        Ok(Err(_)) => Err(LinkProblem::Protocol),
    }
}

/// A control socket for the few frames of pairing.
pub(crate) struct Handshake {
    socket: WebSocketStream<Io>,
    host: String,
    write: std::time::Duration,
}

impl Handshake {
    pub(crate) async fn open(dialer: &Dialer) -> Result<Self, LinkProblem> {
        let socket = open(dialer).await?;
        Ok(Self { socket, host: dialer.url.host().to_owned(), write: dialer.timings.write })
    }

    pub(crate) async fn send(&mut self, frame: &FromPeer) -> Result<(), LinkProblem> {
        match timeout(self.write, self.socket.send(Message::Binary(frame.encode().into()))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(LinkProblem::Closed),
        }
    }

    /// The next frame that is known here.
    pub(crate) async fn next(&mut self, limit: std::time::Duration) -> Result<FromRelay, LinkProblem> {
        let read = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Binary(bytes))) => match FromRelay::parse(bytes) {
                        Ok(Some(frame)) => return Ok(frame),
                        Ok(None) => {}
                        Err(_) => return Err(LinkProblem::Protocol),
                    },
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(_)) => return Err(LinkProblem::Protocol),
                    Some(Err(_)) | None => return Err(LinkProblem::Closed),
                }
            }
        };
        match timeout(limit, read).await {
            Ok(outcome) => outcome,
            Err(_) => Err(LinkProblem::TimedOut { host: self.host.clone(), step: "pairing" }),
        }
    }

    pub(crate) async fn close(mut self) {
        let _ = timeout(std::time::Duration::from_secs(1), self.socket.close(None)).await;
    }
}
