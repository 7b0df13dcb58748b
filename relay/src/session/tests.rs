//! The session's rules, event by event in virtual time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use skald_relay_common::challenge::{self, namespace_id};
use skald_relay_common::frame::{
    Auth, AuthClient, AuthPairing, FromPeer, FromRelay, Message, Platform, Refusal, Role,
};
use skald_relay_common::ids::{ChallengeNonce, PublicKey};
use skald_relay_common::limits::{Limits, PipeLimits};
use skald_relay_common::{ErrorCode, pb};

use super::machine::{Answer, Effect, Event, Refused, Request, Session, Welcome};
use super::rules::Rules;
use crate::hub::Denied;
use crate::hub::outbox::Eviction;
use crate::store::{Paired, Queued};
use crate::ws::DecodeError;

const NONCE: ChallengeNonce = ChallengeNonce::from_bytes([3; 32]);

struct Peer {
    session: Session,
    key: SigningKey,
    now: Instant,
}

impl Peer {
    fn new() -> Self {
        let rules = Arc::new(Rules::new(&Limits::default(), &PipeLimits::default()));
        let now = Instant::now();
        let (session, first) = Session::start(now, rules, NONCE);
        assert_eq!(first, [Effect::Send(FromRelay::Challenge(NONCE))]);
        Self { session, key: SigningKey::from_bytes(&[7; 32]), now }
    }

    fn public(&self) -> PublicKey {
        PublicKey::from_bytes(self.key.verifying_key().to_bytes())
    }

    fn on(&mut self, event: Event) -> Vec<Effect> {
        self.session.handle(self.now, event)
    }

    fn frame(&mut self, frame: FromPeer) -> Vec<Effect> {
        self.on(Event::Binary(frame.encode().into()))
    }

    fn auth(&mut self, role: Role) -> Vec<Effect> {
        let signature = challenge::sign_auth(&self.key, &NONCE);
        self.frame(FromPeer::Auth(Auth { role, signature }))
    }

    fn online(role: fn(PublicKey) -> Role) -> Self {
        let mut peer = Self::new();
        let role = role(peer.public());
        assert_eq!(peer.auth(role.clone()), [Effect::Admit(role)]);
        assert!(!peer.session.is_reading(), "nothing is read while it is found out who may enter");
        let welcome = Welcome { namespace: namespace_id(&peer.public()), pending: Vec::new(), announced: 5 };
        let effects = peer.on(Event::Admitted(Ok(welcome)));
        assert!(matches!(
            effects[..],
            [Effect::RaiseLimit, Effect::Send(FromRelay::AuthOk(_)), Effect::Read(0, 5)]
        ));
        peer.on(Event::Batch(Vec::new(), false));
        peer
    }

    fn agent() -> Self {
        Self::online(Role::Agent)
    }

    fn device() -> Self {
        Self::online(client)
    }

    fn pass(&mut self, secs: u64) {
        self.now += Duration::from_secs(secs);
    }
}

fn client(key: PublicKey) -> Role {
    Role::Client(AuthClient {
        namespace: [1; 32].into(),
        key,
        device_token: String::new(),
        platform: Platform::IOS,
    })
}

fn pairing(key: PublicKey) -> AuthPairing {
    AuthPairing {
        namespace: [1; 32].into(),
        key,
        x_key: [2; 32].into(),
        token: [3; 32].into(),
        device_token: String::new(),
        platform: Platform::IOS,
    }
}

fn message(live: bool, len: usize) -> Message {
    Message { peer: [9; 32].into(), nonce: [0; 12].into(), ciphertext: Bytes::from(vec![1; len]), live }
}

/// The code of the refusal among these effects, and whether the connection ends with it.
fn refusal(effects: &[Effect]) -> (Option<ErrorCode>, bool) {
    let code = |refusal: &Refusal| refusal.code();
    let found = effects.iter().find_map(|effect| match effect {
        Effect::Send(FromRelay::Error(refusal) | FromRelay::AuthError(refusal)) => code(refusal),
        _ => None,
    });
    (found, effects.iter().any(|effect| matches!(effect, Effect::Close(..))))
}

#[test]
fn only_an_auth_is_accepted_before_auth_ok() {
    for event in [
        Event::Text,
        Event::Binary(FromPeer::PresenceRequest.encode().into()),
        Event::Binary(Bytes::from_static(&[0xff; 40])),
        Event::Binary(Bytes::new()),
    ] {
        assert_eq!(refusal(&Peer::new().on(event)), (Some(ErrorCode::BadRequest), true));
    }
}

#[test]
fn fault_12_an_oversize_frame_is_answered_with_its_own_code() {
    let large = || Event::Broken(DecodeError::TooLarge);
    let effects = Peer::new().on(large());
    assert!(matches!(effects[0], Effect::Send(FromRelay::AuthError(_))));
    assert_eq!(refusal(&effects), (Some(ErrorCode::PayloadTooLarge), true));
    assert_eq!(refusal(&Peer::agent().on(large())), (Some(ErrorCode::PayloadTooLarge), true));
    // Within the limit of live messages, yet too large for anything else.
    let stored = Peer::agent().frame(FromPeer::Message(message(false, 64 * 1024)));
    assert_eq!(refusal(&stored), (Some(ErrorCode::PayloadTooLarge), true));
    let list = FromPeer::Authorize(vec![[1; 32].into(); 3000]);
    assert_eq!(refusal(&Peer::agent().frame(list)), (Some(ErrorCode::PayloadTooLarge), true));
    let live = Peer::agent().frame(FromPeer::Message(message(true, 64 * 1024)));
    assert!(matches!(live[..], [Effect::Route(_)]));
}

#[test]
fn the_signature_is_judged_before_anything_else() {
    let mut peer = Peer::new();
    let role = client(peer.public());
    let other = SigningKey::from_bytes(&[8; 32]);
    let auth = Auth { role, signature: challenge::sign_auth(&other, &NONCE) };
    assert_eq!(refusal(&peer.frame(FromPeer::Auth(auth))), (Some(ErrorCode::InvalidSignature), true));
    assert!(peer.session.is_closed());
}

#[test]
fn the_challenge_expires() {
    let mut peer = Peer::new();
    peer.pass(29);
    assert!(peer.on(Event::Tick).is_empty());
    peer.pass(1);
    assert_eq!(peer.session.deadline(), Some(peer.now));
    assert_eq!(refusal(&peer.on(Event::Tick)), (Some(ErrorCode::ChallengeTimeout), true));
}

#[test]
fn each_cause_of_refusal_has_its_code() {
    for (refused, code) in [
        (Refused::NoNamespace, ErrorCode::NotFound),
        (Refused::Denied(Denied::Unauthorized), ErrorCode::Unauthorized),
        (Refused::Denied(Denied::TooMany), ErrorCode::RateLimited),
        (Refused::Failed, ErrorCode::Internal),
    ] {
        let mut peer = Peer::new();
        peer.auth(client(peer.public()));
        assert_eq!(refusal(&peer.on(Event::Admitted(Err(refused)))), (Some(code), true));
    }
}

#[test]
fn a_pairing_device_gets_its_answer_and_may_do_nothing_more() {
    let mut peer = Peer::new();
    let claim = pairing(peer.public());
    assert_eq!(peer.auth(Role::Pairing(claim.clone())), [Effect::Pair(claim)]);
    let effects = peer.on(Event::Paired(Ok(Paired::Registered)));
    assert!(matches!(effects[..], [Effect::Send(FromRelay::AuthOk(_))]));
    assert_eq!(refusal(&peer.frame(FromPeer::PresenceRequest)), (Some(ErrorCode::BadRequest), true));

    let mut late = Peer::new();
    late.auth(Role::Pairing(pairing(late.public())));
    assert_eq!(refusal(&late.on(Event::Paired(Ok(Paired::Closed)))), (Some(ErrorCode::PairingClosed), true));
}

#[test]
fn fault_11_a_window_without_a_ttl_is_open_for_five_minutes() {
    for (asked, given) in [(0, 300), (1, 1), (120, 120), (600, 600), (100_000, 600)] {
        let mut agent = Peer::agent();
        let token = [4; 32].into();
        let effects = agent.frame(FromPeer::PairingStart { token, ttl: asked });
        assert_eq!(effects, [Effect::Ask(Request::StartPairing(token, given))]);
    }
}

#[test]
fn a_device_may_not_administer_and_stays_connected() {
    for frame in [
        FromPeer::Authorize(Vec::new()),
        FromPeer::PairingStart { token: [4; 32].into(), ttl: 1 },
        FromPeer::PairingStop,
    ] {
        assert_eq!(refusal(&Peer::device().frame(frame)), (Some(ErrorCode::BadRequest), false));
    }
}

#[test]
fn the_next_frame_waits_until_the_store_has_answered() {
    let mut agent = Peer::agent();
    let stored = message(false, 10);
    assert_eq!(agent.frame(FromPeer::Message(stored.clone())), [Effect::Ask(Request::Enqueue(stored))]);
    assert!(!agent.session.is_reading());
    assert!(agent.on(Event::Answered(Answer::Queued(Queued::Durable))).is_empty());
    assert!(agent.session.is_reading());
    for (queued, code) in [(Queued::NotFound, ErrorCode::NotFound), (Queued::Full, ErrorCode::QueueFull)] {
        agent.frame(FromPeer::Message(message(false, 10)));
        assert_eq!(refusal(&agent.on(Event::Answered(Answer::Queued(queued)))), (Some(code), false));
    }
    agent.frame(FromPeer::Message(message(false, 10)));
    assert_eq!(refusal(&agent.on(Event::Answered(Answer::Failed))), (Some(ErrorCode::Internal), true));
}

#[test]
fn sixty_messages_a_minute_pass_and_a_flood_ends_the_connection() {
    let mut device = Peer::device();
    let send = |device: &mut Peer| device.frame(FromPeer::Message(message(true, 10)));
    for _ in 0..60 {
        assert!(matches!(send(&mut device)[..], [Effect::Route(_)]));
    }
    assert_eq!(refusal(&send(&mut device)), (Some(ErrorCode::RateLimited), false));
    assert_eq!(refusal(&device.frame(FromPeer::PresenceRequest)), (Some(ErrorCode::RateLimited), false));
    device.pass(1);
    device.now += Duration::from_millis(50);
    assert!(matches!(send(&mut device)[..], [Effect::Route(_)]));
    let refused =
        (0..1000).take_while(|_| refusal(&send(&mut device)) == (Some(ErrorCode::RateLimited), false));
    assert!(refused.count() < 100);
    assert!(device.session.is_closed());
}

#[test]
fn administration_does_not_spend_the_quota_of_messages() {
    let mut agent = Peer::agent();
    for _ in 0..60 {
        agent.frame(FromPeer::PairingStop);
        agent.on(Event::Answered(Answer::PairingStopped));
    }
    assert_eq!(refusal(&agent.frame(FromPeer::PairingStop)), (Some(ErrorCode::RateLimited), false));
    assert_eq!(agent.frame(FromPeer::PresenceRequest), [Effect::ListPresence]);
}

#[test]
fn malformed_frames_are_answered_and_unknown_ones_passed_over() {
    let mut agent = Peer::agent();
    let malformed = agent.on(Event::Binary(Bytes::from_static(&[0xff; 40])));
    assert_eq!(refusal(&malformed), (Some(ErrorCode::BadRequest), false));
    assert_eq!(refusal(&agent.on(Event::Text)), (Some(ErrorCode::BadRequest), false));
    assert!(agent.on(Event::Binary(Bytes::from_static(&[0xfa, 7, 3, 0x61, 0x62, 0x63]))).is_empty());
    let role = Role::Agent([8; 32].into());
    assert_eq!(refusal(&agent.auth(role)), (Some(ErrorCode::BadRequest), false));
}

#[test]
fn the_relay_pings_every_thirty_seconds_and_bears_two_minutes_of_silence() {
    let mut agent = Peer::agent();
    agent.on(Event::Batch(Vec::new(), false));
    for _ in 0..3 {
        agent.pass(30);
        assert_eq!(agent.session.deadline(), Some(agent.now));
        assert_eq!(agent.on(Event::Tick), [Effect::Ping(0)]);
    }
    agent.pass(29);
    agent.session.heard(agent.now);
    agent.pass(119);
    assert!(!agent.on(Event::Tick).iter().any(|effect| matches!(effect, Effect::Close(..))));
    agent.pass(1);
    assert_eq!(refusal(&agent.on(Event::Tick)), (None, true), "silence is answered with silence");
}

#[test]
fn every_ping_bears_the_position_for_a_peer_may_answer_only_the_last() {
    let mut device = Peer::device();
    let item = crate::hub::outbox::Item::Stored(41, Bytes::from_static(b"x"));
    device.on(Event::Taken(crate::hub::outbox::Taken { items: vec![item], behind: None }));
    device.pass(30);
    let effects = device.on(Event::Tick);
    assert_eq!(effects, [Effect::Ping(41), Effect::Suspect(true)]);
    assert_eq!(
        device.on(Event::Pong(Bytes::copy_from_slice(&41u64.to_be_bytes()))),
        [Effect::Confirm(41), Effect::Suspect(false)]
    );
}

#[test]
fn the_hub_can_end_a_connection_at_any_time() {
    let revoked = Peer::device().on(Event::Evicted(Eviction::Revoked));
    assert_eq!(refusal(&revoked), (Some(ErrorCode::Unauthorized), true));
    for why in [Eviction::Displaced, Eviction::Overflow, Eviction::Shutdown] {
        assert_eq!(refusal(&Peer::device().on(Event::Evicted(why))), (None, true));
        assert_eq!(refusal(&Peer::new().on(Event::Evicted(why))), (None, true));
    }
}

#[test]
fn a_closed_session_does_nothing_whatever_happens() {
    let mut peer = Peer::new();
    peer.on(Event::Text);
    for event in [Event::Tick, Event::Text, Event::Failed, Event::Evicted(Eviction::Revoked)] {
        assert!(peer.on(event).is_empty());
    }
    assert_eq!(peer.session.deadline(), None);
    assert!(!peer.session.is_reading());
}

#[test]
fn an_unknown_platform_number_is_admitted_and_only_zero_is_refused() {
    use prost::Message as _;
    let auth = |peer: &Peer, platform| {
        let client = pb::AuthClient {
            namespace_id: vec![1; 32].into(),
            client_ed25519_pub: peer.public().to_wire(),
            device_token: String::new(),
            platform,
        };
        let signature = challenge::sign_auth(&peer.key, &NONCE).to_wire();
        let auth = pb::Auth { role: Some(pb::auth::Role::Client(client)), signature };
        let frame = pb::RelayFrame { frame: Some(pb::relay_frame::Frame::Auth(auth)) };
        Event::Binary(frame.encode_to_vec().into())
    };
    let mut peer = Peer::new();
    let event = auth(&peer, 4711);
    assert!(matches!(peer.on(event)[..], [Effect::Admit(_)]));
    let mut peer = Peer::new();
    let event = auth(&peer, 0);
    assert_eq!(refusal(&peer.on(event)), (Some(ErrorCode::BadRequest), true));
}
