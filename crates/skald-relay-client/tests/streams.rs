//! Many streams in one pipe, over a real relay.

mod common;

use std::collections::BTreeMap;

use common::*;
use skald_relay_client::{MAX_STREAMS, Opened, PipeError, PipeStream, PipeStreams};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

/// A pipe of many streams that the device opened and the agent took up.
async fn many(c: &Couple) -> (PipeStreams, PipeStreams) {
    let mut incoming = c.agent.incoming_pipes();
    let owner = c.device.agent().unwrap();
    let responder = async {
        let invitation = incoming.recv().await.unwrap();
        assert!(invitation.offers_streams());
        assert!(invitation.headers.is_empty(), "the application sees its own headers alone");
        c.agent.accept_streams(&invitation).await.unwrap()
    };
    let initiator = async { c.device.open_streams(&owner, "test", BTreeMap::new()).await.unwrap() };
    let (opened, theirs) = soon("a pipe", async { tokio::join!(initiator, responder) }).await;
    let Opened::Streams(ours) = opened else { panic!("the plain form") };
    (ours, theirs)
}

/// Gives every stream back what it sends, until it ends.
fn echo(mut streams: PipeStreams) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut serving = JoinSet::new();
        while let Some(stream) = streams.accept().await {
            serving.spawn(async move {
                let (mut read, mut write) = tokio::io::split(stream);
                tokio::io::copy(&mut read, &mut write).await.unwrap();
                write.shutdown().await.unwrap();
            });
        }
    })
}

async fn there_and_back(stream: PipeStream, data: Vec<u8>) {
    let (mut read, mut write) = tokio::io::split(stream);
    let sending = async {
        write.write_all(&data).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    let (_, read) = tokio::join!(sending, read.read_to_end(&mut got));
    read.unwrap();
    assert!(got == data, "{} bytes came back of {}", got.len(), data.len());
}

#[tokio::test]
async fn more_streams_than_may_be_open_at_once_each_get_their_own_bytes_back() {
    let c = couple().await;
    let (ours, theirs) = many(&c).await;
    let serving = echo(theirs);
    let ours = std::sync::Arc::new(ours);
    let mut streams = JoinSet::new();
    for number in 0..3 * MAX_STREAMS {
        let ours = ours.clone();
        streams.spawn(async move {
            let stream = ours.open().await.unwrap();
            there_and_back(stream, blob(1 + number * 997, number as u64)).await;
        });
    }
    soon("every stream", async { while streams.join_next().await.transpose().unwrap().is_some() {} }).await;
    drop(ours);
    soon("the end", serving).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_nobody_reads_does_not_hold_up_another() {
    let c = couple().await;
    let (ours, mut theirs) = many(&c).await;
    let mut stalled = ours.open().await.unwrap();
    let flood = tokio::spawn(async move {
        let data = blob(1 << 20, 1);
        while stalled.write_all(&data).await.is_ok() {}
    });
    let unread = soon("the stalled stream", theirs.accept()).await.unwrap();
    let serving = echo(theirs);
    for number in 0..5 {
        let stream = ours.open().await.unwrap();
        soon("a click", there_and_back(stream, blob(200_000, number))).await;
    }
    drop(unread);
    soon("the stalled stream's end", flood).await.unwrap();
    drop(ours);
    soon("the end", serving).await.unwrap();
}

#[tokio::test]
async fn one_direction_of_a_stream_ends_and_the_other_goes_on() {
    let c = couple().await;
    let (ours, mut theirs) = many(&c).await;
    let mut asks = ours.open().await.unwrap();
    asks.write_all(b"how much?").await.unwrap();
    asks.shutdown().await.unwrap();
    let mut answers = soon("the stream", theirs.accept()).await.unwrap();
    let mut question = String::new();
    soon("the question", answers.read_to_string(&mut question)).await.unwrap();
    answers.write_all(question.len().to_string().as_bytes()).await.unwrap();
    answers.shutdown().await.unwrap();
    let mut answer = String::new();
    soon("the answer", asks.read_to_string(&mut answer)).await.unwrap();
    assert_eq!((question.as_str(), answer.as_str()), ("how much?", "9"));
}

#[tokio::test]
async fn the_end_that_was_asked_may_speak_first() {
    let c = couple().await;
    let (ours, mut theirs) = many(&c).await;
    let mut asks = ours.open().await.unwrap();
    let mut speaks = soon("the stream", theirs.accept()).await.unwrap();
    speaks.write_all(b"open").await.unwrap();
    let mut said = [0; 4];
    soon("the first word", asks.read_exact(&mut said)).await.unwrap();
    asks.write_all(b"well").await.unwrap();
    asks.shutdown().await.unwrap();
    let mut heard = String::new();
    soon("the answer", speaks.read_to_string(&mut heard)).await.unwrap();
    assert_eq!((&said, heard.as_str()), (b"open", "well"));
}

#[tokio::test]
async fn revoking_the_device_cuts_every_stream_short_and_says_so() {
    let c = couple().await;
    let (ours, mut theirs) = many(&c).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = ours.open().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        let mut other = soon("the stream", theirs.accept()).await.unwrap();
        other.read_exact(&mut [0]).await.unwrap();
        open.push((stream, other));
    }
    c.agent.revoke(&c.key).await.unwrap();
    soon("the end here", ours.over()).await;
    soon("the end there", theirs.over()).await;
    for (mut stream, mut other) in open {
        for end in [&mut stream, &mut other] {
            let error = soon("an error", end.read(&mut [0; 8])).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        }
    }
    assert!(matches!(ours.open().await, Err(PipeError::Closed)));
    assert!(theirs.accept().await.is_none());
}

#[tokio::test]
async fn a_peer_that_goes_away_ends_its_streams_at_the_other_end() {
    let c = couple().await;
    let (ours, mut theirs) = many(&c).await;
    let mut stream = ours.open().await.unwrap();
    stream.write_all(b"x").await.unwrap();
    let mut other = soon("the stream", theirs.accept()).await.unwrap();
    other.read_exact(&mut [0]).await.unwrap();
    c.device.shutdown().await;
    soon("an error", other.read(&mut [0; 8])).await.unwrap_err();
    soon("the end", theirs.over()).await;
}

#[tokio::test]
async fn a_peer_that_takes_the_plain_form_gets_one_stream() {
    let c = couple().await;
    let mut incoming = c.agent.incoming_pipes();
    let owner = c.device.agent().unwrap();
    let responder = async {
        let invitation = incoming.recv().await.unwrap();
        c.agent.accept_pipe(&invitation).await.unwrap()
    };
    let initiator = async { c.device.open_streams(&owner, "test", BTreeMap::new()).await.unwrap() };
    let (opened, mut plain) = soon("a pipe", async { tokio::join!(initiator, responder) }).await;
    let Opened::Plain(mut pipe) = opened else { panic!("many streams") };
    pipe.send(b"hello").await.unwrap();
    assert_eq!(soon("the bytes", plain.recv()).await.unwrap().unwrap(), b"hello");
}

#[tokio::test]
async fn who_was_not_offered_many_streams_cannot_take_them() {
    let c = couple().await;
    let mut incoming = c.agent.incoming_pipes();
    let owner = c.device.agent().unwrap();
    let responder = async {
        let invitation = incoming.recv().await.unwrap();
        assert!(matches!(c.agent.accept_streams(&invitation).await, Err(PipeError::NotOffered)));
        c.agent.reject_pipe(&invitation, "no").await.unwrap();
    };
    let initiator = c.device.open_pipe(&owner, "test", BTreeMap::new());
    let (opened, ()) = soon("an answer", async { tokio::join!(initiator, responder) }).await;
    assert!(matches!(opened, Err(PipeError::Rejected(why)) if why == "no"));
}
