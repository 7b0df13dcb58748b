//! Brings one side of a pipe from its challenge to its partner (pipe §3.1, §3.2).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skald_relay_common::challenge::verify_pipe;
use skald_relay_common::ids::ChallengeNonce;
use skald_relay_common::pipe::{PipeAuth, PipeChallenge};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rendezvous::Side;
use super::splice::{Outcome, splice};
use super::{FULL, Found, Ticket};
use crate::hub::Namespace;
use crate::metrics::labels::Label as _;
use crate::metrics::names::{Handshake, Limit, PipeEnd as Ended, PipeState, Protocol, Role};
use crate::quota::Place;
use crate::shared::{Shared, challenge_nonce};
use crate::stream::Stream;
use crate::ws::socket::Reading;
use crate::ws::{self, CloseCode, Incoming, Io, Socket};

/// One side's connection, handed to whoever carries the bytes.
pub(crate) struct PipeEnd {
    stream: Stream,
    early: Vec<u8>,
}

/// How long a goodbye may take, and how much of what the peer still sends is read for it.
const PART: Duration = Duration::from_secs(2);
const PART_BYTES: usize = 4 * 1024 * 1024;

const NO_PARTNER: &str = "no partner came in time";
const NOT_TOGETHER: &str = "the two sides do not belong together";

/// Why a side is let go before anything streams.
enum LetGo {
    /// We say goodbye, with a code and its reason.
    Told(CloseCode, &'static str),
    /// It went by itself.
    Gone,
}

/// Runs one side to its end. The side that came first carries the bytes of both.
pub(crate) async fn run(
    shared: Arc<Shared>,
    stream: Stream,
    early: Bytes,
    place: Place,
    stop: CancellationToken,
) {
    let mut socket = Socket::new(stream, &early, shared.rules.max_frame);
    let begun = begin(&shared, &mut socket, place, &stop).await;
    let outcome = begun.as_ref().map_or_else(LetGo::handshake, |_| Handshake::Accepted);
    shared.counts.handshakes.count(Protocol::Pipe, outcome);
    // Held until both sides are gone, or until this one is handed over to its partner's task, which counts it on.
    let _role = begun.is_ok().then(|| shared.counts.connections.hold(Role::Pipe));
    let let_go = match begun {
        Ok(Found::Partner(partner)) => {
            let (stream, early) = socket.into_parts();
            // Should the first side end this very moment, dropping the stream ends this one as well.
            let _ = partner.send(PipeEnd { stream, early });
            return;
        }
        Ok(Found::Wait(ticket, partner)) => match waited(&shared, &mut socket, &ticket, partner, &stop).await
        {
            Ok(partner) => {
                let _partner = shared.counts.connections.hold(Role::Pipe);
                let (stream, early) = socket.into_parts();
                carry(&shared, ticket, PipeEnd { stream, early }, partner, &stop).await;
                return;
            }
            Err(let_go) => let_go,
        },
        Ok(Found::Refused(reason)) => LetGo::Told(CloseCode::Policy, reason),
        Err(let_go) => let_go,
    };
    if let LetGo::Told(code, reason) = let_go {
        tracing::debug!(reason, "a pipe's side was let go");
        socket.push(ws::close(code, reason));
        let part = async {
            socket.part(PART_BYTES).await?;
            socket.shutdown().await
        };
        let _ = tokio::time::timeout(PART, part).await;
    }
}

impl LetGo {
    /// What this is for the count of handshakes.
    fn handshake(&self) -> Handshake {
        match self {
            Self::Gone | Self::Told(CloseCode::Normal | CloseCode::GoingAway, _) => Handshake::Gone,
            Self::Told(_, "challenge_timeout") => Handshake::ChallengeTimeout,
            Self::Told(_, "invalid_signature") => Handshake::InvalidSignature,
            Self::Told(_, "unauthorized") => Handshake::Unauthorized,
            Self::Told(_, "not_found") => Handshake::NotFound,
            Self::Told(_, "rate_limited") => Handshake::RateLimited,
            Self::Told(CloseCode::TooBig, _) => Handshake::PayloadTooLarge,
            Self::Told(CloseCode::Internal, _) => Handshake::Internal,
            Self::Told(..) => Handshake::BadRequest,
        }
    }
}

/// Waits for the partner and counts what comes of it.
async fn waited(
    shared: &Shared,
    socket: &mut Socket,
    ticket: &Ticket<'_>,
    partner: oneshot::Receiver<PipeEnd>,
    stop: &CancellationToken,
) -> Result<PipeEnd, LetGo> {
    let _pending = shared.counts.pipes.hold(PipeState::Pending);
    let found = wait(shared, socket, ticket, partner, stop).await;
    if let Err(let_go) = &found {
        shared.counts.pipes_ended.count(match let_go {
            LetGo::Told(_, NO_PARTNER) => Ended::NoPartner,
            LetGo::Told(_, NOT_TOGETHER) => Ended::Mismatch,
            LetGo::Told(CloseCode::GoingAway, _) => Ended::Stopped,
            LetGo::Told(CloseCode::TooBig | CloseCode::Protocol, _) => Ended::Refused,
            LetGo::Told(..) | LetGo::Gone => Ended::Left,
        });
    }
    found
}

/// Challenges the side, checks who it is, and brings it to the rendezvous.
async fn begin<'a>(
    shared: &'a Shared,
    socket: &mut Socket,
    place: Place,
    stop: &CancellationToken,
) -> Result<Found<'a>, LetGo> {
    let nonce = challenge_nonce().map_err(|error| {
        tracing::error!(%error, "the operating system gives no randomness");
        LetGo::Told(CloseCode::Internal, "internal")
    })?;
    socket.push(ws::binary(&PipeChallenge { nonce }.encode()));
    let auth = tokio::select! {
        auth = tokio::time::timeout(shared.rules.challenge_timeout, answer(socket)) => {
            auth.map_err(|_| LetGo::Told(CloseCode::Policy, "challenge_timeout"))??
        }
        () = stop.cancelled() => return Err(LetGo::Told(CloseCode::GoingAway, "the relay is shutting down")),
    };
    let (namespace, side) = check(shared, &nonce, &auth).await?;
    place.give_back();
    let key = side.key;
    tracing::Span::current()
        .record("role", Role::Pipe.value())
        .record("namespace", tracing::field::display(side.namespace.short()));
    let found = shared.pipes.arrive(Instant::now().into_std(), side);
    if matches!(found, Found::Refused(FULL)) {
        shared.counts.limits.count(Limit::PipesPerNamespace);
    }
    // A revocation between the check and the arrival found nothing to end, so it is looked for again.
    if namespace.is_member(&key) { Ok(found) } else { Err(LetGo::Told(CloseCode::Policy, "unauthorized")) }
}

/// The side's one frame before it streams.
async fn answer(socket: &mut Socket) -> Result<PipeAuth, LetGo> {
    loop {
        match socket.next(Reading::All, usize::MAX).await {
            Io::Message(Incoming::Binary(bytes)) => {
                return PipeAuth::decode(&bytes).map_err(|_| LetGo::Told(CloseCode::Policy, "bad_request"));
            }
            Io::Message(Incoming::Text) => return Err(LetGo::Told(CloseCode::Policy, "bad_request")),
            Io::Message(Incoming::Ping(_) | Incoming::Pong(_)) | Io::Room | Io::Data => {}
            Io::Message(Incoming::Close) => return Err(LetGo::Told(CloseCode::Normal, "")),
            Io::Broken(ws::DecodeError::TooLarge) => {
                return Err(LetGo::Told(CloseCode::TooBig, "payload_too_large"));
            }
            Io::Broken(ws::DecodeError::Violation(_)) => return Err(LetGo::Told(CloseCode::Protocol, "")),
            Io::Gone => return Err(LetGo::Gone),
        }
    }
}

/// First the signature, then the membership (pipe §3.1).
async fn check(
    shared: &Shared,
    nonce: &ChallengeNonce,
    auth: &PipeAuth,
) -> Result<(Arc<Namespace>, Side), LetGo> {
    let refuse = |reason| LetGo::Told(CloseCode::Policy, reason);
    verify_pipe(&auth.pubkey, nonce, &auth.connection_id, &auth.signature)
        .map_err(|_| refuse("invalid_signature"))?;
    let namespace = match shared.namespace(&auth.namespace_id).await {
        Ok(Some(namespace)) => namespace,
        Ok(None) => return Err(refuse("not_found")),
        Err(_) => return Err(LetGo::Told(CloseCode::Internal, "internal")),
    };
    if !namespace.is_member(&auth.pubkey) {
        return Err(refuse("unauthorized"));
    }
    let now = Instant::now().into_std();
    namespace.count_open(now).map_err(|_| {
        shared.counts.limits.count(Limit::ConnectionsPerNamespace);
        refuse("rate_limited")
    })?;
    let side = Side {
        namespace: auth.namespace_id,
        connection: auth.connection_id,
        key: auth.pubkey,
        dest: auth.dest,
    };
    Ok((namespace, side))
}

/// Waits for the partner, answering pings and noticing when the side goes. Data that comes early stays with the
/// sender: it is not read before there is someone to take it.
async fn wait(
    shared: &Shared,
    socket: &mut Socket,
    ticket: &Ticket<'_>,
    mut partner: oneshot::Receiver<PipeEnd>,
    stop: &CancellationToken,
) -> Result<PipeEnd, LetGo> {
    let ttl = Duration::from_secs(shared.pipes.limits().pending_ttl_secs.into());
    let deadline = tokio::time::sleep(ttl);
    tokio::pin!(deadline);
    let mut reading = Reading::Control;
    socket.set_limit(shared.pipes.limits().max_frame_bytes as usize);
    loop {
        let ended = tokio::select! {
            partner = &mut partner => {
                // What is still to be written must leave before the stream changes hands.
                let partner = partner.map_err(|_| LetGo::Told(CloseCode::Policy, "the other side has gone"))?;
                tokio::time::timeout(PART, socket.flush()).await.ok().and_then(Result::ok).ok_or(LetGo::Gone)?;
                return Ok(partner);
            }
            () = ticket.ended() => LetGo::Told(CloseCode::Policy, NOT_TOGETHER),
            () = stop.cancelled() => LetGo::Told(CloseCode::GoingAway, "the relay is shutting down"),
            () = &mut deadline => LetGo::Told(CloseCode::Policy, NO_PARTNER),
            io = socket.next(reading, usize::MAX) => match io {
                Io::Data => {
                    reading = Reading::Paused;
                    continue;
                }
                Io::Message(Incoming::Close) => LetGo::Told(CloseCode::Normal, ""),
                Io::Message(_) | Io::Room => continue,
                Io::Broken(ws::DecodeError::TooLarge) => LetGo::Told(CloseCode::TooBig, "payload_too_large"),
                Io::Broken(ws::DecodeError::Violation(_)) => LetGo::Told(CloseCode::Protocol, ""),
                Io::Gone => LetGo::Gone,
            }
        };
        // Should the partner come at this very moment, it finds this side gone and goes as well.
        return Err(ended);
    }
}

async fn carry(
    shared: &Shared,
    ticket: Ticket<'_>,
    first: PipeEnd,
    second: PipeEnd,
    stop: &CancellationToken,
) {
    let started = Instant::now();
    let streaming = shared.counts.pipes.hold(PipeState::Streaming);
    let ended = async {
        tokio::select! {
            () = ticket.ended() => {}
            () = stop.cancelled() => {}
        }
    };
    let ends = ((first.stream, first.early), (second.stream, second.early));
    let outcome = splice(ends.0, ends.1, shared.pipes.limits(), &shared.counts, ended).await;
    drop(streaming);
    shared.counts.pipes_ended.count(match outcome {
        Outcome::Closed => Ended::Closed,
        Outcome::Idle => Ended::Idle,
        Outcome::Refused(_) => Ended::Refused,
        Outcome::Stopped => Ended::Stopped,
    });
    // The place is free only now: a pipe counts until both its sides are gone.
    drop(ticket);
    let seconds = started.elapsed().as_secs();
    match outcome {
        Outcome::Closed | Outcome::Stopped | Outcome::Idle => {
            tracing::debug!(?outcome, seconds, "a pipe ended")
        }
        Outcome::Refused(end) => tracing::debug!(?end, seconds, "a pipe was ended for what a side sent"),
    }
}
