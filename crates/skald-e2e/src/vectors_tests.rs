//! Every value of `proto/vectors/vectors.json` that concerns the ends, to the byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use skald_relay_common::ids::{ChallengeNonce, ConnectionId, PairingToken};

use crate::features::Features;
use crate::framing::{self, Framed};
use crate::pipe::{EphemeralKey, PipeRole};
use crate::signal::{Accept, CODEC_NONE, Handshake, Invite, PipeSignal, Reject, SUITE_X25519_SEALED};
use crate::*;

struct Vectors(Value);

impl Vectors {
    fn read() -> Self {
        Self(serde_json::from_str(include_str!("../../../proto/vectors/vectors.json")).unwrap())
    }

    fn text(&self, path: &str) -> &str {
        self.0.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("{path} is in the vectors"))
    }

    fn hex(&self, path: &str) -> Vec<u8> {
        hex::decode(self.text(path)).unwrap()
    }

    fn array(&self, path: &str) -> [u8; 32] {
        self.hex(path).try_into().unwrap()
    }

    fn agent(&self) -> Identity {
        Identity::from_seed(&Seed::take(&mut self.array("/inputs/seed_agent")))
    }

    fn client(&self) -> Identity {
        Identity::from_seed(&Seed::take(&mut self.array("/inputs/seed_client")))
    }
}

#[test]
fn a_seed_yields_the_two_key_pairs_and_the_namespace() {
    let v = Vectors::read();
    for (name, identity) in [("agent", v.agent()), ("client", v.client())] {
        let seed = v.array(&format!("/inputs/seed_{name}"));
        let derived = |info| *kdf::derive(&seed, kdf::KDF_SALT, info);
        assert_eq!(derived(kdf::KDF_INFO_X25519), v.array(&format!("/identity/{name}_x25519_private")));
        assert_eq!(derived(kdf::KDF_INFO_ED25519), v.array(&format!("/identity/{name}_ed25519_private")));
        assert_eq!(identity.x_public_key().as_bytes(), &v.array(&format!("/identity/{name}_x25519_public")));
        assert_eq!(identity.public_key().as_bytes(), &v.array(&format!("/identity/{name}_ed25519_public")));
    }
    assert_eq!(v.agent().namespace_id().as_bytes(), &v.array("/identity/namespace_id"));
}

#[test]
fn the_session_key_is_derived_from_both_sides_alike() {
    let v = Vectors::read();
    let secret = x25519_dalek::x25519(
        v.array("/identity/agent_x25519_private"),
        v.array("/identity/client_x25519_public"),
    );
    assert_eq!(secret, v.array("/session/shared_secret"));
    let key = kdf::derive(&secret, kdf::SESSION_SALT, kdf::SESSION_INFO);
    assert_eq!(*key, v.array("/session/aes_key"));
}

#[test]
fn messages_both_ways_are_sealed_to_the_byte() {
    let v = Vectors::read();
    let (agent, client) = (v.agent(), v.client());
    let namespace = agent.namespace_id();
    let cases = [
        ("a2c", Direction::AgentToClient, &agent, &client),
        ("c2a", Direction::ClientToAgent, &client, &agent),
    ];
    for (name, direction, from, to) in cases {
        let body = v.text(&format!("/inputs/plaintext_{name}")).as_bytes();
        let framed = framing::encode_json(body);
        assert_eq!(framed, v.hex(&format!("/envelope/framed_{name}")));
        let aad = Aad::new(&namespace, &from.public_key(), &to.public_key());
        assert_eq!(aad.as_bytes().as_slice(), v.hex(&format!("/envelope/aad_{name}")));

        let sealed = from.session(&to.x_public_key()).unwrap().seal(direction, 1, &aad, framed).unwrap();
        assert_eq!(sealed.nonce.as_slice(), v.hex(&format!("/envelope/nonce_{name}")));
        let expected = STANDARD.decode(v.text(&format!("/envelope/sealed_{name}_b64"))).unwrap();
        assert_eq!(sealed.ciphertext, expected);

        let key = to.session(&from.x_public_key()).unwrap();
        let (counter, plain) = key.open(direction, &sealed.nonce, &aad, &sealed.ciphertext).unwrap();
        assert_eq!(counter, 1);
        assert_eq!(framing::decode(plain).unwrap(), Framed::Json(body.to_vec()));
        assert_eq!(
            key.open(direction.reverse(), &sealed.nonce, &aad, &sealed.ciphertext),
            Err(OpenError),
            "the wrong direction is refused"
        );
    }
}

#[test]
fn challenges_are_signed_to_the_byte() {
    let v = Vectors::read();
    let nonce = ChallengeNonce::from(v.array("/inputs/challenge_nonce"));
    assert_eq!(v.client().sign_challenge(&nonce).as_bytes().as_slice(), v.hex("/auth/signature_client"));
    assert_eq!(v.agent().sign_challenge(&nonce).as_bytes().as_slice(), v.hex("/auth/signature_agent"));
    let nonce = ChallengeNonce::from(v.array("/inputs/pipe_challenge_nonce"));
    let id = ConnectionId::from(v.array("/inputs/pipe_connection_id"));
    let signature = v.client().sign_pipe_challenge(&nonce, &id);
    assert_eq!(signature.as_bytes().as_slice(), v.hex("/pipe/auth_signature_client"));
}

#[test]
fn a_pipe_agrees_and_seals_to_the_byte() {
    let v = Vectors::read();
    let id = ConnectionId::from(v.array("/inputs/pipe_connection_id"));
    let initiator = EphemeralKey::take(&mut v.array("/inputs/pipe_initiator_ephemeral_private"));
    let responder = EphemeralKey::take(&mut v.array("/inputs/pipe_responder_ephemeral_private"));
    let (i_pub, r_pub) = (initiator.public(), responder.public());
    assert_eq!(i_pub, v.array("/pipe/initiator_ephemeral_public"));
    assert_eq!(r_pub, v.array("/pipe/responder_ephemeral_public"));
    let (i_key, r_key) = (initiator.agree(&r_pub).unwrap(), responder.agree(&i_pub).unwrap());
    assert_eq!(i_key.expose(), &v.array("/pipe/pipe_key"));
    assert_eq!(r_key.expose(), &v.array("/pipe/pipe_key"));

    let (mut i_seal, mut i_open) = i_key.into_ciphers(PipeRole::Initiator, id);
    let (mut r_seal, mut r_open) = r_key.into_ciphers(PipeRole::Responder, id);
    let mut frame = v.hex("/pipe/frame_1_initiator_plaintext");
    i_seal.seal_in_place(&mut frame).unwrap();
    assert_eq!(frame, v.hex("/pipe/frame_1_initiator_sealed"));
    let n = r_open.open_in_place(&mut frame).unwrap();
    assert_eq!(frame[..n], v.hex("/pipe/frame_1_initiator_plaintext"));
    let mut second = Vec::new();
    i_seal.seal_in_place(&mut second).unwrap();
    assert_eq!(second, v.hex("/pipe/frame_2_initiator_sealed"));
    assert_eq!(r_open.open_in_place(&mut second), Ok(0));
    let mut back = v.hex("/pipe/frame_1_responder_plaintext");
    r_seal.seal_in_place(&mut back).unwrap();
    assert_eq!(back, v.hex("/pipe/frame_1_responder_sealed"));
    assert_eq!(i_open.open_in_place(&mut back), Ok(v.hex("/pipe/frame_1_responder_plaintext").len()));
}

#[test]
fn signals_are_written_and_read_to_the_byte() {
    let v = Vectors::read();
    let connection_id = ConnectionId::from(v.array("/inputs/pipe_connection_id"));
    let invite = PipeSignal::Invite(Invite {
        connection_id,
        suite: SUITE_X25519_SEALED.into(),
        handshake: Handshake::from_key(v.array("/pipe/initiator_ephemeral_public")),
        stream_type: "http-local-proxy".into(),
        compress: vec![CODEC_NONE.into()],
        headers: [("a".into(), "1".into()), ("b".into(), "2".into())].into(),
    });
    let accept = PipeSignal::Accept(Accept {
        connection_id,
        suite: SUITE_X25519_SEALED.into(),
        handshake: Handshake::from_key(v.array("/pipe/responder_ephemeral_public")),
        compress: CODEC_NONE.into(),
        headers: None,
    });
    let reject = PipeSignal::Reject(Reject { connection_id, reason: "unsupported stream_type".into() });
    for (name, signal) in [("invite", &invite), ("accept", &accept), ("reject", &reject)] {
        let bytes = v.hex(&format!("/pipe/{name}_msgpack"));
        assert_eq!(signal.encode(), bytes, "{name}");
        assert_eq!(&PipeSignal::decode(&bytes).unwrap(), signal, "{name}");
    }
    let framed = v.hex("/pipe/signal_framed_invite");
    assert_eq!(framing::encode_signal(&invite), framed);
    assert!(framing::is_pipe_signal(&framed));
    assert_eq!(framing::decode(framed).unwrap(), Framed::Signal(invite));
}

/// An Accept as peers of the first form declare it.
#[derive(serde::Deserialize)]
enum FirstForm {
    Accept { suite: String, compress: String },
}

#[test]
fn peers_of_the_first_form_pass_over_what_an_answer_took() {
    let v = Vectors::read();
    let first = PipeSignal::decode(&v.hex("/pipe/accept_msgpack")).unwrap();
    let PipeSignal::Accept(accept) = first else { panic!("an Accept") };
    assert_eq!(accept.headers, None);
    let taken = Features { half_close: true, streams: true };
    let later = PipeSignal::Accept(Accept { headers: taken.answer(), ..accept }).encode();
    // Five fields in place of four; all before the fifth as ever.
    let mut start = v.hex("/pipe/accept_msgpack");
    let map = start.iter().position(|b| *b == 0x84).unwrap();
    start[map] = 0x85;
    assert!(later.starts_with(&start));
    let FirstForm::Accept { suite, compress } = rmp_serde::from_slice(&later).unwrap();
    assert_eq!((suite.as_str(), compress.as_str()), (SUITE_X25519_SEALED, CODEC_NONE));
    let Ok(PipeSignal::Accept(read)) = PipeSignal::decode(&later) else { panic!("an Accept") };
    assert_eq!(taken.taken(read.headers.as_ref()), Ok(taken));
}

#[test]
fn the_qr_is_written_and_read_to_the_byte() {
    let v = Vectors::read();
    let agent = v.agent();
    let payload = QrPayload {
        relay_url: v.text("/qr/relay_url").into(),
        namespace_id: agent.namespace_id(),
        agent_ed25519_pub: agent.public_key(),
        agent_x25519_pub: agent.x_public_key(),
        pairing_token: PairingToken::from(v.array("/qr/pairing_token")),
    };
    assert_eq!(payload.to_json(), v.text("/qr/json"));
    let read = QrPayload::parse(v.text("/qr/json")).unwrap();
    assert_eq!(read.to_json(), v.text("/qr/json"));
}

#[test]
fn the_verification_code_is_the_known_one() {
    let v = Vectors::read();
    let (a, c) = (v.agent(), v.client());
    let (ns, keys) = (a.namespace_id(), (a.public_key(), a.x_public_key(), c.public_key(), c.x_public_key()));
    let digest = verify::digest(&ns, &keys.0, &keys.1, &keys.2, &keys.3);
    assert_eq!(digest.as_slice(), v.hex("/verification_code/digest"));
    let code = verification_code(&ns, &keys.0, &keys.1, &keys.2, &keys.3);
    assert_eq!(code.digits(), v.text("/verification_code/code"));
    assert_eq!(code.to_string(), "288 445");
}

#[test]
fn a_decision_is_signed_to_the_byte_and_nothing_else_verifies() {
    let v = Vectors::read();
    let digest = v.array("/decision/digest");
    let id = v.text("/decision/item/request_id");
    let (ns, client) = (v.agent().namespace_id(), v.client());
    assert_eq!(decision::message(&ns, id, &digest, true), v.hex("/decision/message"));
    let signature = decision::sign(&client, &ns, id, &digest, true);
    assert_eq!(signature.as_bytes().as_slice(), v.hex("/decision/signature_client_approved"));
    let key = client.public_key();
    assert!(decision::verify(&key, &ns, id, &digest, true, &signature));
    assert!(!decision::verify(&key, &ns, id, &digest, false, &signature));
    assert!(!decision::verify(&key, &ns, "another", &digest, true, &signature));
    assert!(!decision::verify(&key, &ns, id, &[0; 32], true, &signature));
    assert!(!decision::verify(&v.agent().public_key(), &ns, id, &digest, true, &signature));
}
