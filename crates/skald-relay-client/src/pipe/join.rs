//! Meeting the other end at the relay: `/v1/pipe` (pipe §3.1).

use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use skald_e2e::features::Features;
use skald_e2e::pipe::{PipeOpener, PipeSealer};
use skald_relay_common::challenge::peer_hash;
use skald_relay_common::ids::{ConnectionId, PublicKey};
use skald_relay_common::pipe::{PipeAuth, PipeChallenge};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::connection::PipeConnection;
use super::frame::{self, HEADER_ROOM, Opcode};
use crate::client::Shared;
use crate::error::PipeError;
use crate::net::{Dialer, Io};
use crate::status::LinkProblem;
use crate::util;

/// The upgrade's answer is short.
const MAX_HEAD: usize = 16 * 1_024;

pub(super) async fn join(
    shared: &Arc<Shared>,
    peer: PublicKey,
    connection_id: ConnectionId,
    ciphers: (PipeSealer, PipeOpener),
    agreed: Features,
) -> Result<PipeConnection, PipeError> {
    let end = shared.pipe_end(&peer);
    let limit = shared.dialer.timings.pipe_join;
    let meet = timeout(limit, meet(shared, &peer, &connection_id));
    let (io, rest) = match end.run_until_cancelled(meet).await {
        None => return Err(PipeError::Closed),
        Some(Err(_)) => return Err(PipeError::Connect(late(&shared.dialer, "joining the pipe"))),
        Some(Ok(met)) => met.map_err(PipeError::Connect)?,
    };
    let dead_after = shared.dialer.timings.dead_after;
    Ok(PipeConnection::start(io, rest, ciphers, agreed, end, &shared.tasks, dead_after))
}

fn late(dialer: &Dialer, step: &'static str) -> LinkProblem {
    LinkProblem::TimedOut { host: dialer.url.host().to_owned(), step }
}

/// Connects, upgrades, and answers the challenge. The relay does not say when the other end came: it simply reads on.
async fn meet(
    shared: &Shared,
    peer: &PublicKey,
    connection_id: &ConnectionId,
) -> Result<(Io, BytesMut), LinkProblem> {
    let dialer = &shared.dialer;
    let mut io = dialer.connect().await?;
    let mut buffer = match timeout(dialer.timings.upgrade, upgrade(&mut io, dialer)).await {
        Ok(upgraded) => upgraded?,
        Err(_) => return Err(late(dialer, "opening the WebSocket")),
    };
    let challenge = match timeout(dialer.timings.challenge, challenge(&mut io, &mut buffer)).await {
        Ok(challenge) => challenge?,
        Err(_) => return Err(late(dialer, "greeting")),
    };
    let keys = &shared.keys;
    let auth = PipeAuth {
        connection_id: *connection_id,
        pubkey: keys.me(),
        dest: peer_hash(peer),
        namespace_id: keys.namespace,
        signature: keys.identity.sign_pipe_challenge(&challenge.nonce, connection_id),
    };
    let mut message = vec![0; HEADER_ROOM];
    message.extend_from_slice(&auth.encode());
    let start = frame::finish(&mut message, Opcode::Binary, util::random().unwrap_or_default());
    let write = async {
        io.write_all(&message[start..]).await?;
        io.flush().await
    };
    match timeout(dialer.timings.write, write).await {
        Ok(Ok(())) => Ok((io, buffer)),
        _ => Err(LinkProblem::Closed),
    }
}

/// RFC 6455 §4, the client's side. Gives what came after the answer's head.
async fn upgrade(io: &mut Io, dialer: &Dialer) -> Result<BytesMut, LinkProblem> {
    let key = generate_key();
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n",
        dialer.url.pipe_path(),
        dialer.url.authority(),
    );
    let sent = async {
        io.write_all(request.as_bytes()).await?;
        io.flush().await
    };
    sent.await.map_err(|_| LinkProblem::Closed)?;
    let mut buffer = BytesMut::with_capacity(4 * 1_024);
    let head = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if buffer.len() > MAX_HEAD {
            return Err(LinkProblem::Protocol);
        }
        if io.read_buf(&mut buffer).await.map_err(|_| LinkProblem::Closed)? == 0 {
            return Err(LinkProblem::Closed);
        }
    };
    let text = std::str::from_utf8(&buffer[..head]).map_err(|_| LinkProblem::Protocol)?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| {
        let mut words = line.split(' ');
        words.next().filter(|version| version.starts_with("HTTP/1."))?;
        words.next()?.parse::<u16>().ok()
    });
    let host = || dialer.url.host().to_owned();
    match status {
        Some(101) => {}
        Some(429) => return Err(LinkProblem::Busy),
        Some(status) => return Err(LinkProblem::NotARelay { host: host(), status }),
        None => return Err(LinkProblem::Protocol),
    }
    let expected = derive_accept_key(key.as_bytes());
    let accepted = lines
        .filter_map(|line| line.split_once(':'))
        .any(|(name, value)| name.eq_ignore_ascii_case("sec-websocket-accept") && value.trim() == expected);
    if !accepted {
        return Err(LinkProblem::Protocol);
    }
    buffer.advance(head);
    Ok(buffer)
}

/// The relay speaks first.
async fn challenge(io: &mut Io, buffer: &mut BytesMut) -> Result<PipeChallenge, LinkProblem> {
    loop {
        match frame::take(buffer, MAX_HEAD).map_err(|_| LinkProblem::Protocol)? {
            Some(frame) if frame.opcode == Opcode::Binary && frame.last => {
                return PipeChallenge::decode(&frame.payload).map_err(|_| LinkProblem::Protocol);
            }
            Some(frame) if frame.opcode == Opcode::Close => return Err(LinkProblem::Closed),
            Some(frame) if matches!(frame.opcode, Opcode::Ping | Opcode::Pong) => {}
            Some(_) => return Err(LinkProblem::Protocol),
            None => {
                if io.read_buf(buffer).await.map_err(|_| LinkProblem::Closed)? == 0 {
                    return Err(LinkProblem::Closed);
                }
            }
        }
    }
}
