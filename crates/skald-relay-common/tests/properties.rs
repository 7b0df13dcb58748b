//! Frames and pipe messages survive the wire, and no bytes make a parser panic.

use bytes::Bytes;
use proptest::prelude::*;
use skald_relay_common::frame::{
    Auth, AuthClient, AuthOk, AuthPairing, ClientPaired, FrameError, FromPeer, FromRelay, Message, Platform,
    Refusal, RelayInfo, Role,
};
use skald_relay_common::ids::*;
use skald_relay_common::pipe::{PipeAuth, PipeChallenge};
use skald_relay_common::{ErrorCode, pb};

fn b32() -> impl Strategy<Value = [u8; 32]> {
    any::<[u8; 32]>()
}

fn key() -> impl Strategy<Value = PublicKey> {
    b32().prop_map(PublicKey::from_bytes)
}

fn signature() -> impl Strategy<Value = Signature> {
    (b32(), b32()).prop_map(|(a, b)| {
        let mut all = [0; 64];
        all[..32].copy_from_slice(&a);
        all[32..].copy_from_slice(&b);
        Signature::from_bytes(all)
    })
}

fn platform() -> impl Strategy<Value = Platform> {
    any::<i32>().prop_filter_map("0 is no platform", Platform::from_code)
}

fn message() -> impl Strategy<Value = Message> {
    (key(), any::<[u8; 12]>(), prop::collection::vec(any::<u8>(), 1..600), any::<bool>()).prop_map(
        |(peer, nonce, body, live)| Message {
            peer,
            nonce: MessageNonce::from_bytes(nonce),
            ciphertext: Bytes::from(body),
            live,
        },
    )
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        key().prop_map(Role::Agent),
        (b32(), key(), ".{0,40}", platform()).prop_map(|(ns, key, device_token, platform)| Role::Client(
            AuthClient { namespace: ns.into(), key, device_token, platform }
        )),
        (b32(), key(), b32(), b32(), ".{0,40}", platform()).prop_map(
            |(ns, key, x, token, device_token, platform)| {
                Role::Pairing(AuthPairing {
                    namespace: ns.into(),
                    key,
                    x_key: x.into(),
                    token: token.into(),
                    device_token,
                    platform,
                })
            }
        ),
    ]
}

fn from_peer() -> impl Strategy<Value = FromPeer> {
    prop_oneof![
        (role(), signature()).prop_map(|(role, signature)| FromPeer::Auth(Auth { role, signature })),
        prop::collection::vec(key(), 0..5).prop_map(FromPeer::Authorize),
        (b32(), any::<u32>()).prop_map(|(token, ttl)| FromPeer::PairingStart { token: token.into(), ttl }),
        Just(FromPeer::PairingStop),
        message().prop_map(FromPeer::Message),
        Just(FromPeer::PresenceRequest),
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    (prop::sample::select(ErrorCode::ALL.to_vec()), ".{0,40}")
        .prop_map(|(code, text)| Refusal::new(code, text))
}

fn from_relay() -> impl Strategy<Value = FromRelay> {
    prop_oneof![
        b32().prop_map(|n| FromRelay::Challenge(n.into())),
        (b32(), any::<[u32; 8]>(), prop::collection::vec(any::<u8>(), 0..65)).prop_map(|(ns, n, vapid)| {
            let [a, b, c, d, e, f, g, h] = n;
            FromRelay::AuthOk(AuthOk {
                namespace: ns.into(),
                info: RelayInfo {
                    max_frame_bytes: a,
                    max_live_frame_bytes: b,
                    messages_per_minute: c,
                    queue_per_client: d,
                    ping_interval_secs: e,
                    idle_timeout_secs: f,
                    pipes_per_namespace: g,
                    pipe_max_frame_bytes: h,
                    vapid_public_key: vapid.into(),
                },
            })
        }),
        refusal().prop_map(FromRelay::AuthError),
        any::<u32>().prop_map(FromRelay::AuthorizeOk),
        any::<u32>().prop_map(FromRelay::PairingReady),
        Just(FromRelay::PairingStopOk),
        (key(), b32(), platform()).prop_map(|(key, x, platform)| FromRelay::ClientPaired(ClientPaired {
            key,
            x_key: x.into(),
            platform
        })),
        message().prop_map(FromRelay::Message),
        key().prop_map(FromRelay::PeerOffline),
        prop::collection::vec(key(), 0..5).prop_map(FromRelay::PresenceList),
        (key(), any::<bool>()).prop_map(|(peer, online)| FromRelay::PresenceEvent { peer, online }),
        refusal().prop_map(FromRelay::Error),
    ]
}

proptest! {
    #[test]
    fn what_a_peer_says_survives_the_wire(frame in from_peer()) {
        prop_assert_eq!(FromPeer::parse(frame.encode()), Ok(Some(frame)));
    }

    #[test]
    fn what_the_relay_says_survives_the_wire(frame in from_relay()) {
        prop_assert_eq!(FromRelay::parse(frame.encode()), Ok(Some(frame)));
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = FromPeer::parse(bytes.clone());
        let _ = FromRelay::parse(bytes.clone());
        let _ = PipeAuth::decode(&bytes);
        let _ = PipeChallenge::decode(&bytes);
    }

    #[test]
    fn damaged_frames_never_panic(frame in from_peer(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut bytes = frame.encode();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = with;
            let _ = FromPeer::parse(bytes.clone());
            bytes.truncate(at);
            let _ = FromPeer::parse(bytes);
        }
    }

    #[test]
    fn pipe_messages_survive_the_wire(a in b32(), b in b32(), c in b32(), d in b32(), signature in signature()) {
        let auth = PipeAuth {
            connection_id: a.into(), pubkey: b.into(), dest: c.into(), namespace_id: d.into(), signature,
        };
        prop_assert_eq!(PipeAuth::decode(&auth.encode()), Ok(auth));
        let challenge = PipeChallenge { nonce: a.into() };
        prop_assert_eq!(PipeChallenge::decode(&challenge.encode()), Ok(challenge));
    }
}

/// A map of byte strings in MsgPack, each written by `form`.
fn msgpack_map(fields: &[(&str, &[u8])], form: fn(&mut Vec<u8>, &[u8])) -> Vec<u8> {
    let mut out = vec![0x80 | fields.len() as u8];
    for (name, value) in fields {
        out.push(0xa0 | name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        form(&mut out, value);
    }
    out
}

fn as_bin(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&[0xc4, value.len() as u8]);
    out.extend_from_slice(value);
}

#[test]
fn pipe_messages_are_read_from_bin_too() {
    let bin = msgpack_map(&[("nonce", &[7; 32])], as_bin);
    assert_eq!(PipeChallenge::decode(&bin), Ok(PipeChallenge { nonce: [7; 32].into() }));
}

#[test]
fn unknown_keys_in_a_pipe_message_are_skipped() {
    let more = msgpack_map(&[("novelty", b"x"), ("nonce", &[7; 32])], as_bin);
    assert_eq!(PipeChallenge::decode(&more), Ok(PipeChallenge { nonce: [7; 32].into() }));
}

#[test]
fn a_wrong_length_refuses_the_whole_pipe_message() {
    for len in [0, 31, 33, 64, 65, 200] {
        let wrong = msgpack_map(&[("nonce", &vec![7; len])], as_bin);
        assert!(PipeChallenge::decode(&wrong).is_err(), "{len} bytes were taken");
    }
}

#[test]
fn a_frame_of_an_unknown_kind_is_nothing_and_no_error() {
    // Field 127, length-delimited.
    assert_eq!(FromPeer::parse(hex::decode("fa0703616263").unwrap()), Ok(None));
    assert_eq!(FromRelay::parse(Bytes::new()), Ok(None));
}

#[test]
fn absent_fields_are_refused() {
    use pb::relay_frame::Frame;
    use prost::Message as _;
    let parse = |frame| FromPeer::parse(pb::RelayFrame { frame: Some(frame) }.encode_to_vec());
    assert_eq!(parse(Frame::Auth(pb::Auth::default())), Err(FrameError::NoRole));
    let client = pb::AuthClient {
        namespace_id: vec![1; 32].into(),
        client_ed25519_pub: vec![1; 32].into(),
        ..Default::default()
    };
    let role = Some(pb::auth::Role::Client(client));
    let auth = pb::Auth { role, signature: vec![0; 64].into() };
    assert_eq!(parse(Frame::Auth(auth)), Err(FrameError::NoPlatform));
    let message = pb::Message { nonce: vec![0; 12].into(), peer: vec![0; 32].into(), ..Default::default() };
    assert_eq!(parse(Frame::Message(message)), Err(FrameError::NoCiphertext));
    assert_eq!(parse(Frame::AuthorizeOk(pb::AuthorizeOk { authorized: 1 })), Err(FrameError::WrongDirection));
}

#[test]
fn an_unknown_platform_is_kept_and_only_zero_is_refused() {
    assert_eq!(Platform::from_code(4711).map(Platform::code), Some(4711));
    assert_eq!(Platform::from_code(0), None);
    assert_eq!(Platform::WEB.code(), 3);
    assert_eq!(Platform::DESKTOP.code(), 4);
}

#[test]
fn debug_output_shows_neither_ciphertext_nor_tokens() {
    let message = Message {
        peer: [1; 32].into(),
        nonce: [0xee; 12].into(),
        ciphertext: Bytes::from_static(b"CANARY-ciphertext"),
        live: false,
    };
    let client = AuthClient {
        namespace: [1; 32].into(),
        key: [1; 32].into(),
        device_token: "CANARY-token".into(),
        platform: Platform::IOS,
    };
    let auth = FromPeer::Auth(Auth { role: Role::Client(client), signature: [0; 64].into() });
    let raw = FromRelay::Message(message.clone()).to_pb();
    for shown in [format!("{message:?}"), format!("{auth:?}"), format!("{raw:?}")] {
        assert!(!shown.contains("CANARY") && !shown.contains("238, 238"), "{shown}");
    }
}
