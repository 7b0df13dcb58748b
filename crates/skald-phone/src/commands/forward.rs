//! `forward`: serves a port of the host's machine on this computer. Every TCP connection becomes one stream.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skald_payloads::streams::{FrameHead, FrameKind, NAME, TCP, TcpReply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::session::Session;
use crate::streams::{self, Incoming, Outgoing, Trouble, words};
use crate::text::one_line;

/// They share one pipe, and leave room in it: whoever serves ports knows pipes of many streams.
const MAX_STREAMS: usize = 32;
/// Local connections beyond this are not taken until others end.
const MAX_CONNECTIONS: usize = 128;
const CHUNK: usize = 64 * 1024;

pub async fn run(session: &Session, json: bool, args: cli::Forward) -> Outcome<()> {
    let listener = super::proxy::listen(args.listen).await?;
    let address = listener.local_addr().map_err(|_| Failure::refused("The address cannot be read back."))?;
    // Not paired, or a home that cannot be used, is said now and not to a program later.
    drop(session.converse().await?);
    if json {
        out::json(&json!({ "listen": address.to_string(), "name": args.name }))?;
    } else {
        out::line(&format!("{} is at {address} until you press Ctrl-C.", one_line(&args.name)))?;
    }
    let name: Arc<str> = args.name.into();
    let turns = Arc::new(Semaphore::new(MAX_STREAMS));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, session.clone(), name.clone(), turns.clone()));
                }
                // Out of file descriptors, most likely: waiting for one to come back is all that helps.
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(local: TcpStream, session: Session, name: Arc<str>, turns: Arc<Semaphore>) {
    let _ = local.set_nodelay(true);
    // A closed semaphore does not happen: nobody closes it.
    let Ok(_turn) = turns.acquire().await else { return };
    match open(&session, &name).await {
        Ok((from, to)) => join(local, from, to).await,
        Err(failure) => out::aside(&failure.sentence),
    }
}

async fn open(session: &Session, name: &str) -> Outcome<(Incoming, Outgoing)> {
    let (mut from, to) = streams::open(session, TCP, &[(NAME, name)]).await?;
    match from.hear().await {
        Ok(TcpReply::Open) => Ok((from, to)),
        Ok(TcpReply::Error(fault)) | Err(Trouble::Fault(fault)) => Err(words::failure(&fault, name)),
        Err(Trouble::Failure(failure)) => Err(failure),
        Err(Trouble::Broken) => Err(Failure::unreachable("The connection to your host broke; try again.")),
    }
}

struct Broken;

/// Carries bytes until both directions have ended or one end is gone.
async fn join(local: TcpStream, from: Incoming, to: Outgoing) {
    let (local_in, local_out) = local.into_split();
    // A direction that broke ends both: who is cut off must not take it for an orderly end.
    let _ = tokio::try_join!(up(local_in, to), down(from, local_out));
}

/// Gives the host's end back, for closing it would end the other direction as well.
async fn up(mut from: OwnedReadHalf, mut to: Outgoing) -> Result<Outgoing, Broken> {
    let mut buffer = vec![0; FrameHead::LEN + CHUNK];
    loop {
        match from.read(&mut buffer[FrameHead::LEN..]).await.map_err(|_| Broken)? {
            0 => {
                streams::end(&mut to).await.map_err(|_| Broken)?;
                return Ok(to);
            }
            read => streams::send(&mut to, &mut buffer, read).await.map_err(|_| Broken)?,
        }
    }
}

async fn down(mut from: Incoming, mut to: OwnedWriteHalf) -> Result<(), Broken> {
    loop {
        match from.next().await {
            Ok(Some(FrameKind::Data)) => to.write_all(from.body()).await.map_err(|_| Broken)?,
            Ok(Some(FrameKind::End)) => return to.shutdown().await.map_err(|_| Broken),
            _ => return Err(Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, UnixStream};

    #[tokio::test]
    async fn a_client_that_has_finished_speaking_still_gets_its_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("address")).await.expect("connected");
        let (local, _) = listener.accept().await.expect("accepted");
        let (near, mut host) = UnixStream::pair().expect("pair");
        let (reader, writer) = crate::wire::Conversation::new(near).split();
        let joined = tokio::spawn(join(local, Incoming::new(reader), writer));
        client.write_all(b"ask").await.expect("written");
        client.shutdown().await.expect("finished");
        let mut asked = [0; 13];
        host.read_exact(&mut asked).await.expect("asked");
        assert_eq!(&asked, b"d\0\0\0\x03aske\0\0\0\0");
        host.write_all(b"d\0\0\0\x06answere\0\0\0\0").await.expect("answered");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("read");
        assert_eq!(answer, "answer");
        joined.await.expect("ended");
    }
}
