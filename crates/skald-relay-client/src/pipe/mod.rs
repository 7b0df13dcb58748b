//! Pipes: encrypted byte streams between two members of a namespace, spliced by the relay (pipe §§2–6).

mod connection;
mod frame;
mod join;
mod reader;
mod streams;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;

use skald_e2e::features::Features;
use skald_e2e::pipe::{EphemeralKey, PipeRole};
use skald_e2e::signal::{Accept, CODEC_NONE, Handshake, Invite, PipeSignal, Reject, SUITE_X25519_SEALED};
use skald_relay_common::ids::{ConnectionId, PublicKey};
use tokio::sync::{mpsc, oneshot};

use crate::client::Shared;
use crate::engine::Command;
use crate::error::{PipeError, SendError};
use crate::util;

pub use connection::{PipeConnection, PipeReceiver, PipeSender};
pub use streams::{MAX_STREAMS, PipeStream, PipeStreams};

/// An invitation to a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingPipe {
    /// Who invites.
    pub peer: PublicKey,
    /// Names the pipe; random and used once.
    pub connection_id: ConnectionId,
    /// What it is for.
    pub stream_type: String,
    /// The application's own.
    pub headers: BTreeMap<String, String>,
    /// What the initiator can beyond the first form.
    pub(crate) offered: Features,
    /// The initiator's ephemeral key.
    pub(crate) handshake: [u8; 32],
}

impl IncomingPipe {
    /// Whether the initiator would have the pipe carry many streams ([`RelayClient::accept_streams`]).
    ///
    /// [`RelayClient::accept_streams`]: crate::RelayClient::accept_streams
    pub fn offers_streams(&self) -> bool {
        self.offered.streams
    }
}

/// A pipe to a peer that was offered many streams.
#[derive(Debug)]
pub enum Opened {
    /// The peer takes them.
    Streams(PipeStreams),
    /// The peer knows the plain form alone: this pipe is one stream.
    Plain(Box<PipeConnection>),
}

/// What every pipe is opened with, and what is taken of another's offer.
const ONE: Features = Features { half_close: true, streams: false };
/// The same where many streams are wanted. They end by themselves already; the mark at the pipe's own end does no harm.
const MANY: Features = Features { half_close: true, streams: true };

fn ephemeral() -> Result<EphemeralKey, PipeError> {
    let mut random = util::random().map_err(|_| PipeError::Signal(SendError::Random))?;
    Ok(EphemeralKey::take(&mut random))
}

async fn ask<T>(
    commands: &mpsc::Sender<Command>,
    command: impl FnOnce(oneshot::Sender<Result<T, PipeError>>) -> Command,
) -> Result<T, PipeError> {
    let (reply, answer) = oneshot::channel();
    let stopped = || PipeError::Signal(SendError::Stopped);
    commands.send(command(reply)).await.map_err(|_| stopped())?;
    answer.await.map_err(|_| stopped())?
}

pub(crate) async fn open(
    shared: &Arc<Shared>,
    commands: &mpsc::Sender<Command>,
    peer: PublicKey,
    stream_type: &str,
    headers: BTreeMap<String, String>,
) -> Result<PipeConnection, PipeError> {
    let (pipe, _) = invite(shared, commands, peer, stream_type, headers, ONE).await?;
    Ok(pipe)
}

pub(crate) async fn open_streams(
    shared: &Arc<Shared>,
    commands: &mpsc::Sender<Command>,
    peer: PublicKey,
    stream_type: &str,
    headers: BTreeMap<String, String>,
) -> Result<Opened, PipeError> {
    let (pipe, agreed) = invite(shared, commands, peer, stream_type, headers, MANY).await?;
    Ok(if agreed.streams {
        Opened::Streams(PipeStreams::start(pipe, true, &shared.tasks))
    } else {
        Opened::Plain(Box::new(pipe))
    })
}

async fn invite(
    shared: &Arc<Shared>,
    commands: &mpsc::Sender<Command>,
    peer: PublicKey,
    stream_type: &str,
    mut headers: BTreeMap<String, String>,
    offered: Features,
) -> Result<(PipeConnection, Features), PipeError> {
    offered.put_offer(&mut headers);
    let key = ephemeral()?;
    let id = util::random().map_err(|_| PipeError::Signal(SendError::Random))?;
    let connection_id = ConnectionId::from_bytes(id);
    let invite = Invite {
        connection_id,
        suite: SUITE_X25519_SEALED.to_owned(),
        handshake: Handshake::from_key(key.public()),
        stream_type: stream_type.to_owned(),
        compress: vec![CODEC_NONE.to_owned()],
        headers,
    };
    let accept: Accept = ask(commands, |reply| Command::Invite { peer, invite, reply }).await?;
    let agreed = offered
        .taken(accept.headers.as_ref())
        .map_err(|_| PipeError::Rejected("it took what was not offered".into()))?;
    let theirs = accept.handshake.as_key().ok_or(PipeError::Cipher)?;
    let key = key.agree(&theirs).map_err(|_| PipeError::Cipher)?;
    let ciphers = key.into_ciphers(PipeRole::Initiator, connection_id);
    Ok((join::join(shared, peer, connection_id, ciphers, agreed).await?, agreed))
}

pub(crate) async fn accept(
    shared: &Arc<Shared>,
    commands: &mpsc::Sender<Command>,
    invitation: &IncomingPipe,
) -> Result<PipeConnection, PipeError> {
    take(shared, commands, invitation, ONE.and(invitation.offered)).await
}

pub(crate) async fn accept_streams(
    shared: &Arc<Shared>,
    commands: &mpsc::Sender<Command>,
    invitation: &IncomingPipe,
) -> Result<PipeStreams, PipeError> {
    if !invitation.offered.streams {
        return Err(PipeError::NotOffered);
    }
    let pipe = take(shared, commands, invitation, MANY.and(invitation.offered)).await?;
    Ok(PipeStreams::start(pipe, false, &shared.tasks))
}

async fn take(
    shared: &Arc<Shared>,
    commands: &mpsc::Sender<Command>,
    invitation: &IncomingPipe,
    agreed: Features,
) -> Result<PipeConnection, PipeError> {
    let (peer, connection_id) = (invitation.peer, invitation.connection_id);
    let key = ephemeral()?;
    let handshake = Handshake::from_key(key.public());
    let key = key.agree(&invitation.handshake).map_err(|_| PipeError::Cipher)?;
    let ciphers = key.into_ciphers(PipeRole::Responder, connection_id);
    let answer = PipeSignal::Accept(Accept {
        connection_id,
        suite: SUITE_X25519_SEALED.to_owned(),
        handshake,
        compress: CODEC_NONE.to_owned(),
        headers: agreed.answer(),
    });
    ask(commands, |reply| Command::Answer { peer, answer, reply }).await?;
    join::join(shared, peer, connection_id, ciphers, agreed).await
}

pub(crate) async fn reject(
    commands: &mpsc::Sender<Command>,
    invitation: &IncomingPipe,
    reason: &str,
) -> Result<(), PipeError> {
    let (peer, connection_id) = (invitation.peer, invitation.connection_id);
    let answer = PipeSignal::Reject(Reject { connection_id, reason: reason.to_owned() });
    ask(commands, |reply| Command::Answer { peer, answer, reply }).await
}
