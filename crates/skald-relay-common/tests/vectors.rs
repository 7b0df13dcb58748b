//! The known answers of proto/vectors, reproduced to the byte.

use ed25519_dalek::SigningKey;
use serde_json::Value;
use skald_relay_common::challenge::{self, sign_auth, sign_pipe, verify_auth, verify_pipe};
use skald_relay_common::ids::{ChallengeNonce, ConnectionId, PublicKey};
use skald_relay_common::namespace_id;
use skald_relay_common::pipe::{PipeAuth, PipeChallenge};

fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/vectors/vectors.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors are there"))
        .expect("they are JSON")
}

fn text<'a>(v: &'a Value, path: &str) -> &'a str {
    v.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("{path} is in the vectors"))
}

fn bytes(v: &Value, path: &str) -> Vec<u8> {
    hex::decode(text(v, path)).expect("hex")
}

fn key(v: &Value, path: &str) -> SigningKey {
    SigningKey::from_bytes(&bytes(v, path).try_into().expect("32 bytes"))
}

#[test]
fn the_namespace_is_the_hash_of_the_agents_key() {
    let v = vectors();
    let agent: PublicKey = text(&v, "/identity/agent_ed25519_public").parse().unwrap();
    assert_eq!(namespace_id(&agent).to_hex(), text(&v, "/identity/namespace_id"));
}

#[test]
fn control_socket_signatures_match() {
    let v = vectors();
    let nonce: ChallengeNonce = text(&v, "/inputs/challenge_nonce").parse().unwrap();
    assert_eq!(challenge::auth_message(&nonce), bytes(&v, "/auth/message"));
    for who in ["agent", "client"] {
        let signature = sign_auth(&key(&v, &format!("/identity/{who}_ed25519_private")), &nonce);
        assert_eq!(signature.to_hex(), text(&v, &format!("/auth/signature_{who}")));
        let public: PublicKey = text(&v, &format!("/identity/{who}_ed25519_public")).parse().unwrap();
        assert_eq!(verify_auth(&public, &nonce, &signature), Ok(()));
    }
}

#[test]
fn pipe_messages_and_signatures_match() {
    let v = vectors();
    let nonce: ChallengeNonce = text(&v, "/inputs/pipe_challenge_nonce").parse().unwrap();
    let connection: ConnectionId = text(&v, "/inputs/pipe_connection_id").parse().unwrap();
    let client: PublicKey = text(&v, "/identity/client_ed25519_public").parse().unwrap();
    let agent: PublicKey = text(&v, "/identity/agent_ed25519_public").parse().unwrap();
    assert_eq!(challenge::pipe_auth_message(&nonce, &connection), bytes(&v, "/pipe/auth_message"));
    let signature = sign_pipe(&key(&v, "/identity/client_ed25519_private"), &nonce, &connection);
    assert_eq!(signature.to_hex(), text(&v, "/pipe/auth_signature_client"));
    assert_eq!(verify_pipe(&client, &nonce, &connection, &signature), Ok(()));

    assert_eq!(PipeChallenge { nonce }.encode(), bytes(&v, "/pipe/challenge_msgpack"));
    assert_eq!(PipeChallenge::decode(&bytes(&v, "/pipe/challenge_msgpack")), Ok(PipeChallenge { nonce }));
    let auth = PipeAuth {
        connection_id: connection,
        pubkey: client,
        dest: challenge::peer_hash(&agent),
        namespace_id: namespace_id(&agent),
        signature,
    };
    assert_eq!(auth.encode(), bytes(&v, "/pipe/auth_msgpack"));
    assert_eq!(PipeAuth::decode(&bytes(&v, "/pipe/auth_msgpack")), Ok(auth));
}
