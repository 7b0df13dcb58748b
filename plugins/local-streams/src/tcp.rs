//! `tcp`: a stream joined to a port that the owner lists by name.
//!
//! The bytes travel in frames, so that each direction has an end of its own: a side that has finished sending can still
//! receive, whatever the pipe beneath makes of that.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use skald_core_api::{ByteStream, StreamError, StreamHandler, StreamOffer};
use skald_payloads::streams::{FaultCode, FrameKind, NAME, StreamFault, TCP, TcpReply};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::access::Places;
use crate::fault;
use crate::frames::{self, FrameReader};
use crate::lines::Port;
use crate::settings::Ports;
use crate::surroundings::Surroundings;

/// Bytes taken from the port at a time.
const CHUNK: usize = 64 * 1024;

/// Serves [`TCP`].
pub(crate) struct TcpHandler {
    ports: Ports,
    around: Surroundings,
    places: Places,
    stop: CancellationToken,
}

impl TcpHandler {
    pub(crate) fn new(ports: Ports, around: Surroundings, stop: CancellationToken) -> Self {
        let places = Places::new(ports.connections);
        Self { ports, around, places, stop }
    }

    fn port(&self, offer: &StreamOffer) -> Option<&Port> {
        let name = offer.headers.get(NAME)?;
        self.ports.ports.iter().find(|port| port.name == *name)
    }

    async fn connect(&self, port: &Port) -> Result<TcpStream, StreamFault> {
        let unreachable = |text: &str| fault(FaultCode::Unreachable, text);
        let found = async {
            let resolved = tokio::net::lookup_host((port.host.as_str(), port.port)).await;
            let mut last = unreachable("The port's host cannot be found.");
            for address in resolved.into_iter().flatten() {
                // A name may lead elsewhere than it did when it was written down.
                if !self.ports.beyond_loopback && !address.ip().to_canonical().is_loopback() {
                    continue;
                }
                match TcpStream::connect(address).await {
                    Ok(stream) => return self.not_own(stream),
                    Err(_) => last = unreachable("Nothing listens on the port."),
                }
            }
            Err(last)
        };
        let late = || Err(unreachable("The port did not take the connection in time."));
        timeout(self.ports.connect, found).await.unwrap_or_else(|_| late())
    }

    fn not_own(&self, stream: TcpStream) -> Result<TcpStream, StreamFault> {
        let ends: std::io::Result<(SocketAddr, SocketAddr)> =
            stream.local_addr().and_then(|from| Ok((from, stream.peer_addr()?)));
        match ends {
            Ok((from, to)) if !self.around.is_own(from, to) => {
                let _ = stream.set_nodelay(true);
                Ok(stream)
            }
            Ok(_) => Err(fault(FaultCode::NotPermitted, "It is Skald's own port, which is not offered.")),
            Err(_) => Err(fault(FaultCode::Unreachable, "The connection ended at once.")),
        }
    }
}

#[async_trait]
impl StreamHandler for TcpHandler {
    fn stream_type(&self) -> &str {
        TCP
    }

    fn check(&self, offer: &StreamOffer) -> Result<(), StreamError> {
        if !self.ports.devices.may(&offer.peer) {
            return Err(StreamError("this device may not use ports".into()));
        }
        match self.port(offer) {
            Some(_) => Ok(()),
            None => Err(StreamError("no port of that name is offered".into())),
        }
    }

    async fn serve(
        &self,
        offer: StreamOffer,
        stream: Box<dyn ByteStream>,
        stop: CancellationToken,
    ) -> Result<(), StreamError> {
        let Some(port) = self.port(&offer) else { return Err(StreamError("no such port".into())) };
        let (reader, mut writer) = split(stream);
        let place = self.places.take(&offer.peer);
        let busy =
            || fault(FaultCode::Busy, "Too many connections to ports are open; close some and try again.");
        let joined = async {
            let connected = match &place {
                Some(_) => self.connect(port).await,
                None => Err(busy()),
            };
            let local = match connected {
                Ok(local) => local,
                Err(fault) => {
                    tracing::info!(device = %offer.peer.key, port = port.name, why = fault.text, "a port was not reached");
                    let _ = frames::say(&mut writer, &TcpReply::Error(fault)).await;
                    let _ = writer.shutdown().await;
                    return;
                }
            };
            if frames::say(&mut writer, &TcpReply::Open).await.is_err() {
                return;
            }
            let moved = join(local, FrameReader::new(reader), writer, self.ports.idle).await;
            let (up, down) = (moved.up.into_inner(), moved.down.into_inner());
            tracing::info!(device = %offer.peer.key, port = port.name, up, down, "a connection to a port has ended");
        };
        tokio::select! {
            () = joined => {}
            () = stop.cancelled() => {}
            () = self.stop.cancelled() => {}
        }
        Ok(())
    }
}

/// Bytes by direction, and word of each movement.
#[derive(Default)]
struct Moved {
    up: AtomicU64,
    down: AtomicU64,
    moved: Notify,
}

type Remote = Box<dyn ByteStream>;

/// Carries bytes until both directions have ended, one end is gone, or nothing moves for `idle`.
async fn join(
    local: TcpStream,
    from: FrameReader<ReadHalf<Remote>>,
    to: WriteHalf<Remote>,
    idle: Duration,
) -> Moved {
    let moved = Moved::default();
    let (local_in, local_out) = local.into_split();
    let directions = async {
        // A direction that broke ends both: who is cut off must not take it for an orderly end.
        let _ = tokio::try_join!(up(from, local_out, &moved), down(local_in, to, &moved));
    };
    let silence = async {
        let mut until = Instant::now() + idle;
        while timeout_at(until, moved.moved.notified()).await.is_ok() {
            until = Instant::now() + idle;
        }
    };
    tokio::select! {
        () = directions => {}
        () = silence => {}
    }
    moved
}

struct Broken;

async fn up(
    mut from: FrameReader<ReadHalf<Remote>>,
    mut to: OwnedWriteHalf,
    moved: &Moved,
) -> Result<(), Broken> {
    loop {
        match from.next().await {
            Ok(Some(FrameKind::Data)) => {
                to.write_all(from.body()).await.map_err(|_| Broken)?;
                moved.up.fetch_add(from.body().len() as u64, Ordering::Relaxed);
                moved.moved.notify_one();
            }
            Ok(Some(FrameKind::End)) => {
                to.shutdown().await.map_err(|_| Broken)?;
                // The other direction may go on for long; a device that leaves meanwhile is noticed here.
                from.ended().await;
                return Err(Broken);
            }
            _ => return Err(Broken),
        }
    }
}

async fn down(mut from: OwnedReadHalf, mut to: WriteHalf<Remote>, moved: &Moved) -> Result<(), Broken> {
    let mut buffer = frames::buffer(CHUNK);
    let head = buffer.len() - CHUNK;
    loop {
        let read = from.read(&mut buffer[head..]).await.map_err(|_| Broken)?;
        if read == 0 {
            frames::put(&mut to, &frames::end()).await.map_err(|_| Broken)?;
            return Ok(());
        }
        frames::put(&mut to, frames::data(&mut buffer, read)).await.map_err(|_| Broken)?;
        moved.down.fetch_add(read as u64, Ordering::Relaxed);
        moved.moved.notify_one();
    }
}
