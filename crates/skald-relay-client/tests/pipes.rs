//! Pipes over a real relay (pipe §8).

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::*;
use skald_relay_client::{PipeConnection, PipeError, PipeReceiver, PipeSender, SendError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A pipe that the device opened and the agent took up.
async fn pipe(c: &Couple) -> (PipeConnection, PipeConnection) {
    let mut incoming = c.agent.incoming_pipes();
    let owner = c.device.agent().unwrap();
    let headers = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    let responder = async {
        let invitation = incoming.recv().await.unwrap();
        assert_eq!((invitation.peer, invitation.stream_type.as_str()), (c.key, "test"));
        assert_eq!(invitation.headers.get("a").map(String::as_str), Some("1"));
        c.agent.accept_pipe(&invitation).await.unwrap()
    };
    let initiator = async { c.device.open_pipe(&owner, "test", headers.clone()).await.unwrap() };
    soon("a pipe", async { tokio::join!(initiator, responder) }).await
}

async fn read_exactly(receiver: &mut PipeReceiver, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        out.extend(receiver.recv().await.unwrap().expect("the stream goes on"));
    }
    out
}

async fn send_all(mut sender: PipeSender, data: Vec<u8>) -> PipeSender {
    sender.send(&data).await.unwrap();
    sender
}

#[tokio::test]
async fn two_hundred_kibibytes_pass_both_ways() {
    let c = couple().await;
    let (mut a, b) = pipe(&c).await;
    let there = blob(200 * 1_024, 1);
    a.send(&there).await.unwrap();
    let (b_send, mut b_recv) = b.split();
    assert_eq!(soon("there", read_exactly(&mut b_recv, there.len())).await, there);
    let back = blob(200 * 1_024, 2);
    let _b_send = send_all(b_send, back.clone()).await;
    let (_a_send, mut a_recv) = a.split();
    assert_eq!(soon("back", read_exactly(&mut a_recv, back.len())).await, back);
}

#[tokio::test]
async fn a_mebibyte_passes_each_way_at_once() {
    let c = couple().await;
    let (a, b) = pipe(&c).await;
    let ((a_send, mut a_recv), (b_send, mut b_recv)) = (a.split(), b.split());
    let (there, back) = (blob(1 << 20, 3), blob(1 << 20, 4));
    let all = async {
        tokio::join!(
            send_all(a_send, there.clone()),
            send_all(b_send, back.clone()),
            read_exactly(&mut b_recv, there.len()),
            read_exactly(&mut a_recv, back.len()),
        )
    };
    let (_a, _b, got_there, got_back) = soon("both ways", all).await;
    assert!(got_there == there && got_back == back);
}

#[tokio::test]
async fn a_stalled_direction_does_not_hold_up_the_other_and_memory_stays_bounded() {
    let c = couple().await;
    let (a, b) = pipe(&c).await;
    let (mut a_send, mut a_recv) = a.split();
    let (b_send, b_recv) = b.split();
    // Nobody reads at b: a's sender fills the line and its budget, then waits.
    let flood = tokio::spawn(async move {
        let piece = blob(1 << 20, 5);
        for _ in 0..64 {
            a_send.send(&piece).await.unwrap();
        }
        a_send
    });
    let back = blob(300_000, 6);
    let _b = send_all(b_send, back.clone()).await;
    assert_eq!(soon("the other direction", read_exactly(&mut a_recv, back.len())).await, back);
    assert!(!flood.is_finished(), "64 MiB fit nowhere");
    // Once b reads, all of it comes.
    let mut b_recv = b_recv;
    let got = soon("the flood", read_exactly(&mut b_recv, 64 << 20)).await;
    assert!(got.chunks(1 << 20).all(|piece| piece == blob(1 << 20, 5)));
    soon("the sender", flood).await.unwrap();
}

#[tokio::test]
async fn fault_16_a_send_that_is_cancelled_leaves_the_pipe_alive() {
    let c = couple().await;
    let (a, b) = pipe(&c).await;
    let (mut a_send, _a_recv) = a.split();
    let (_b_send, mut b_recv) = b.split();
    let piece = blob(64 * 1_024, 7);
    // Until the budget is used up, and then some: each of the last calls is dropped while it waits.
    let mut queued = 0;
    let mut cancelled = 0;
    while cancelled < 20 {
        let sent = a_send.send(&piece);
        tokio::pin!(sent);
        match futures_util::poll!(sent.as_mut()) {
            std::task::Poll::Ready(outcome) => {
                outcome.unwrap();
                queued += 1;
            }
            std::task::Poll::Pending => cancelled += 1,
        }
        tokio::task::yield_now().await;
    }
    for _ in 0..queued {
        assert!(soon("a piece", read_exactly(&mut b_recv, piece.len())).await == piece);
    }
    a_send.send(b"after").await.unwrap();
    assert_eq!(soon("after", b_recv.recv()).await.unwrap().unwrap(), b"after");
}

#[tokio::test]
async fn a_receive_that_is_cancelled_loses_nothing() {
    let c = couple().await;
    let (a, b) = pipe(&c).await;
    let (a_send, _a_recv) = a.split();
    let (_b_send, mut b_recv) = b.split();
    let data = blob(2 << 20, 8);
    let sending = tokio::spawn(send_all(a_send, data.clone()));
    let mut got = Vec::new();
    soon("all of it", async {
        while got.len() < data.len() {
            tokio::select! {
                biased;
                piece = b_recv.recv() => got.extend(piece.unwrap().unwrap()),
                () = tokio::task::yield_now() => {}
            }
        }
    })
    .await;
    assert!(got == data);
    sending.await.unwrap();
}

#[tokio::test]
async fn closing_is_orderly_and_nothing_sent_before_it_is_lost() {
    let c = couple().await;
    let (mut a, b) = pipe(&c).await;
    let data = blob(3 << 20, 9);
    let reader = tokio::spawn(async move {
        let (_send, mut recv) = b.split();
        let mut got = Vec::new();
        while let Some(piece) = recv.recv().await.unwrap() {
            got.extend(piece);
        }
        assert!(recv.recv().await.unwrap().is_none(), "the end stays the end");
        got
    });
    a.send(&data).await.unwrap();
    soon("closing", a.close()).await.unwrap();
    assert!(soon("the rest", reader).await.unwrap() == data);
}

#[tokio::test]
async fn a_pipe_is_a_stream_for_whoever_wants_one() {
    let c = couple().await;
    let (mut a, mut b) = pipe(&c).await;
    let data = blob(500_000, 10);
    let echo = tokio::spawn(async move {
        let mut buffer = vec![0; 500_000];
        b.read_exact(&mut buffer).await.unwrap();
        b.write_all(&buffer).await.unwrap();
        b.flush().await.unwrap();
        b.shutdown().await.unwrap();
    });
    a.write_all(&data).await.unwrap();
    let mut back = Vec::new();
    soon("the echo", a.read_to_end(&mut back)).await.unwrap();
    assert!(back == data);
    soon("the echo's end", echo).await.unwrap();
}

#[tokio::test]
async fn an_end_that_finished_sending_still_receives() {
    let c = couple().await;
    let (mut a, mut b) = pipe(&c).await;
    assert!(a.half_closes() && b.half_closes());
    let (asked, answer) = (blob(200_000, 11), blob(3 << 20, 12));
    let host = async {
        let mut got = Vec::new();
        b.read_to_end(&mut got).await.unwrap();
        b.write_all(&answer).await.unwrap();
        b.shutdown().await.unwrap();
        got
    };
    let device = async {
        a.write_all(&asked).await.unwrap();
        a.shutdown().await.unwrap();
        let mut got = Vec::new();
        a.read_to_end(&mut got).await.unwrap();
        got
    };
    let (at_host, at_device) = soon("both ways", async { tokio::join!(host, device) }).await;
    assert!(at_host == asked && at_device == answer);
}

#[tokio::test]
async fn an_end_that_vanishes_is_no_end_of_the_stream() {
    let c = couple().await;
    let (mut a, b) = pipe(&c).await;
    a.send(b"half a file").await.unwrap();
    let (_send, mut recv) = b.split();
    assert_eq!(soon("the half", recv.recv()).await.unwrap().unwrap(), b"half a file");
    drop(a);
    assert!(matches!(soon("the cut", recv.recv()).await, Err(PipeError::Truncated)));
}

#[tokio::test]
async fn the_agent_opens_pipes_too() {
    let c = couple().await;
    let mut incoming = c.device.incoming_pipes();
    let responder = async {
        let invitation = incoming.recv().await.unwrap();
        c.device.accept_pipe(&invitation).await.unwrap()
    };
    let initiator = async { c.agent.open_pipe(&c.key, "test", BTreeMap::new()).await.unwrap() };
    let (mut a, b) = soon("a pipe", async { tokio::join!(initiator, responder) }).await;
    a.send(b"hello").await.unwrap();
    let (_send, mut recv) = b.split();
    assert_eq!(soon("hello", recv.recv()).await.unwrap().unwrap(), b"hello");
}

#[tokio::test]
async fn refusals_are_told_with_their_reason() {
    let c = couple().await;
    let owner = c.device.agent().unwrap();
    let nobody = soon("an answer", c.device.open_pipe(&owner, "x", BTreeMap::new())).await.unwrap_err();
    assert!(matches!(nobody, PipeError::Rejected(_)), "{nobody}");

    let mut incoming = c.agent.incoming_pipes();
    let responder = async {
        let invitation = incoming.recv().await.unwrap();
        c.agent.reject_pipe(&invitation, "unsupported stream_type").await.unwrap();
        assert!(matches!(c.agent.accept_pipe(&invitation).await, Err(PipeError::Expired)), "it was answered");
    };
    let (refused, ()) = soon("an answer", async {
        tokio::join!(c.device.open_pipe(&owner, "x", BTreeMap::new()), responder)
    })
    .await;
    assert!(
        matches!(refused.unwrap_err(), PipeError::Rejected(reason) if reason == "unsupported stream_type")
    );

    let stranger = skald_relay_common::ids::PublicKey::from_bytes([9; 32]);
    let unknown = c.device.open_pipe(&stranger, "x", BTreeMap::new()).await.unwrap_err();
    assert!(matches!(unknown, PipeError::Signal(SendError::UnknownPeer)));
    c.device.shutdown().await;
    let gone = c.device.open_pipe(&owner, "x", BTreeMap::new()).await.unwrap_err();
    assert!(matches!(gone, PipeError::Signal(SendError::Stopped)));
}

#[tokio::test]
async fn fault_09_revoking_a_device_ends_its_pipes() {
    let c = couple().await;
    let (a, b) = pipe(&c).await;
    let (_b_send, mut b_recv) = b.split();
    let (_a_send, mut a_recv) = a.split();
    c.agent.revoke(&c.key).await.unwrap();
    assert!(!matches!(soon("the agent's end", b_recv.recv()).await, Ok(Some(_))));
    let device_end = soon("the device's end", a_recv.recv()).await;
    assert!(!matches!(device_end, Ok(Some(_))));
}

#[tokio::test]
async fn shutting_down_ends_pipes_and_joins_their_tasks() {
    let c = couple().await;
    let (a, b) = pipe(&c).await;
    let (_b_send, mut b_recv) = b.split();
    soon("the shutdown", c.agent.shutdown()).await;
    // The relay's goodbye may be there already, and is as good an end.
    assert!(matches!(soon("the end", b_recv.recv()).await, Err(PipeError::Closed | PipeError::Truncated)));
    let (_a_send, mut a_recv) = a.split();
    assert!(!matches!(soon("the other end", a_recv.recv()).await, Ok(Some(_))));
}

#[tokio::test]
async fn fault_19_opening_a_pipe_is_bounded_in_time_and_says_what_is_in_the_way() {
    let mut c = couple().await;
    let owner = c.device.agent().unwrap();
    // A device that paced itself out of every message: its quota is a few, and they are spent.
    c.device.shutdown().await;
    c.relay.shutdown().await;
    reaches(&c.agent, skald_relay_client::LinkState::Waiting).await;
    let port = c.url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
    c.relay = relay_on(&c.place.path("relay"), port, |s| s.limits.messages_per_minute = 3).await;
    reaches(&c.agent, skald_relay_client::LinkState::Connected).await;
    let mut options = device_options(&c.place.path("device"));
    options.timings.pipe_answer = Duration::from_millis(300);
    let (device, _events) = skald_relay_client::device::start(options).await.unwrap();
    sees(&device, &owner).await;
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        outcomes.push(soon("an answer", device.open_pipe(&owner, "x", BTreeMap::new())).await.unwrap_err());
    }
    assert!(outcomes.iter().any(|e| matches!(e, PipeError::Paced)), "{outcomes:?}");
    assert_eq!(
        device.status().borrow().state,
        skald_relay_client::LinkState::Connected,
        "nobody was cut off"
    );
}
