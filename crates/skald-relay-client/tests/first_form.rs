//! A peer of the first form answers, byte for byte: it knows of no features, and the pipe is as it ever was.

mod common;

use std::collections::BTreeMap;

use common::puppet::{Keys, Puppet, identity, with_device};
use common::*;
use futures_util::{SinkExt as _, StreamExt as _};
use skald_e2e::framing::{self, Framed};
use skald_e2e::pipe::{EphemeralKey, PipeRole};
use skald_e2e::signal::PipeSignal;
use skald_relay_common::ids::ChallengeNonce;
use skald_relay_common::pipe::PipeChallenge;
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::tungstenite::Message as Ws;

/// The recorded Accept with these two values in their places.
fn recorded_accept(connection_id: &[u8; 32], handshake: &[u8; 32]) -> Vec<u8> {
    fn text(out: &mut Vec<u8>, text: &str) {
        out.push(0xa0 | text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    fn bytes(out: &mut Vec<u8>, bytes: &[u8; 32]) {
        out.extend_from_slice(&[0xdc, 0, 32]);
        for byte in bytes {
            if *byte > 0x7f {
                out.push(0xcc);
            }
            out.push(*byte);
        }
    }
    let mut out = vec![0x81];
    text(&mut out, "Accept");
    out.push(0x84);
    text(&mut out, "connection_id");
    bytes(&mut out, connection_id);
    text(&mut out, "suite");
    text(&mut out, "x25519-sealed");
    text(&mut out, "handshake");
    bytes(&mut out, handshake);
    text(&mut out, "compress");
    text(&mut out, "none");
    out
}

#[tokio::test]
async fn an_answer_of_the_first_form_makes_a_pipe_of_the_first_form() {
    let (place, puppet, keys) = (Place::new(), Puppet::new().await, Keys::new(1));
    let (agent, _events, mut session) = with_device(&place, &puppet, &keys).await;
    let identity = identity(&place.path("agent"));
    let opening = tokio::spawn({
        let (agent, peer) = (agent.clone(), keys.0.public_key());
        let headers = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        async move { agent.open_pipe(&peer, "test", headers).await.unwrap() }
    });
    let message = session.message().await;
    let Framed::Signal(PipeSignal::Invite(invite)) =
        framing::decode(keys.open(&identity, &message).1).unwrap()
    else {
        panic!("an Invite was awaited")
    };
    assert_eq!(invite.headers["skald-features"], "half-close");
    assert_eq!(invite.headers["a"], "1");

    let ephemeral = EphemeralKey::take(&mut [7; 32]);
    let accept = recorded_accept(invite.connection_id.as_bytes(), &ephemeral.public());
    let framed = [&[2, 0][..], &accept].concat();
    session.send(keys.seal_framed(&identity, 1, framed, true)).await;
    let key = ephemeral.agree(&invite.handshake.as_key().unwrap()).unwrap();
    let (mut sealer, mut opener) = key.into_ciphers(PipeRole::Responder, invite.connection_id);

    // From here on the puppet is the relay's splice and the peer behind it.
    let mut socket = puppet.accept().await;
    let challenge = PipeChallenge { nonce: ChallengeNonce::from_bytes([9; 32]) };
    socket.send(Ws::Binary(challenge.encode().into())).await.unwrap();
    assert!(matches!(soon("the authentication", socket.next()).await, Some(Ok(Ws::Binary(_)))));
    let mut pipe = soon("the pipe", opening).await.unwrap();
    assert!(!pipe.half_closes());
    for text in ["", "hello"] {
        let mut sealed = text.as_bytes().to_vec();
        sealer.seal_in_place(&mut sealed).unwrap();
        socket.send(Ws::Binary(sealed.into())).await.unwrap();
    }
    assert_eq!(soon("hello", pipe.recv()).await.unwrap().unwrap(), b"hello", "an empty piece says nothing");
    pipe.send(b"bye").await.unwrap();
    let ended = tokio::spawn(async move {
        pipe.shutdown().await.unwrap();
        pipe
    });
    let Some(Ok(Ws::Binary(sealed))) = soon("bye", socket.next()).await else { panic!("data was awaited") };
    let mut sealed = sealed.to_vec();
    let len = opener.open_in_place(&mut sealed).unwrap();
    assert_eq!(&sealed[..len], b"bye");
    assert!(
        matches!(soon("the goodbye", socket.next()).await, Some(Ok(Ws::Close(_)))),
        "and no mark before it"
    );
    soon("the end", ended).await.unwrap();
}
