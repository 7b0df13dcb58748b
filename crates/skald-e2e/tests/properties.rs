//! What must hold for any input.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;

use proptest::prelude::*;
use skald_e2e::counter::{SendCounter, Take};
use skald_e2e::framing::{self, Framed, FramingError, MAX_INFLATED};
use skald_e2e::pipe::{EphemeralKey, PipeCipherError, PipeRole};
use skald_e2e::signal::{Accept, Handshake, Invite, PipeSignal, Reject};
use skald_e2e::{Aad, Direction, Identity, OpenError, QrError, QrPayload, ReplayWindow, Seed};
use skald_relay_common::ids::{ConnectionId, PairingToken};

fn identity(byte: u8) -> Identity {
    Identity::from_seed(&Seed::take(&mut [byte; 32]))
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(vec![1, 1], flate2::Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

proptest! {
    #[test]
    fn any_body_comes_back_from_its_frame(body in proptest::collection::vec(any::<u8>(), 0..5_000), repeat in 1usize..6) {
        let body = body.repeat(repeat);
        let framed = framing::encode_json(&body);
        prop_assert!(framed.len() <= body.len() + 2);
        prop_assert!(body.len() > framing::COMPRESS_ABOVE || framed[1] == 0);
        prop_assert_eq!(framing::decode(framed).unwrap(), Framed::Json(body));
    }

    #[test]
    fn no_plaintext_makes_the_decoder_panic(version in 0u8..4, comp in 0u8..3, body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = vec![version, comp];
        bytes.extend(body);
        let _ = framing::decode(bytes.clone());
        let _ = framing::decode(bytes.split_off(1));
    }

    #[test]
    fn damaged_compression_never_panics_nor_passes_for_whole(cut in 3usize..200, flip in any::<u8>()) {
        let body: Vec<u8> = (0..3_000u32).flat_map(|n| n.to_le_bytes()).collect();
        let whole = zlib(&body);
        let cut_off = whole[..whole.len() - cut.min(whole.len() - 3)].to_vec();
        prop_assert_eq!(framing::decode(cut_off), Err(FramingError::Damaged));
        let mut flipped = whole.clone();
        let at = 2 + cut % (whole.len() - 2);
        flipped[at] ^= flip;
        if let Ok(framed) = framing::decode(flipped) {
            prop_assert_eq!(framed, Framed::Json(body));
        }
    }

    #[test]
    fn signals_come_back_and_noise_never_panics(
        id in any::<[u8; 32]>(), key in any::<[u8; 32]>(), suite in "[a-z0-9-]{0,20}", stream in ".{0,40}",
        headers in proptest::collection::btree_map(".{0,8}", ".{0,20}", 0..5),
        noise in proptest::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let connection_id = ConnectionId::from(id);
        let headers: BTreeMap<String, String> = headers;
        let handshake = Handshake::from_key(key);
        let signals = [
            PipeSignal::Invite(Invite { connection_id, suite: suite.clone(), handshake: handshake.clone(),
                stream_type: stream.clone(), compress: vec!["none".into(), "zlib".into()], headers: headers.clone() }),
            PipeSignal::Accept(Accept { connection_id, suite: suite.clone(), handshake: handshake.clone(),
                compress: "none".into(), headers: None }),
            PipeSignal::Accept(Accept { connection_id, suite, handshake, compress: "none".into(),
                headers: Some(headers) }),
            PipeSignal::Reject(Reject { connection_id, reason: stream }),
        ];
        for signal in signals {
            let mut bytes = signal.encode();
            prop_assert_eq!(&PipeSignal::decode(&bytes).unwrap(), &signal);
            let i = at.index(bytes.len());
            bytes[i] = with;
            let _ = PipeSignal::decode(&bytes);
        }
        let _ = PipeSignal::decode(&noise);
    }

    #[test]
    fn whatever_a_relay_changes_the_envelope_does_not_open(
        body in proptest::collection::vec(any::<u8>(), 0..200), counter in 1u64..=u64::MAX,
        at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let (agent, device, other) = (identity(1), identity(2), identity(3));
        let ns = agent.namespace_id();
        let aad = Aad::new(&ns, &agent.public_key(), &device.public_key());
        let d = Direction::AgentToClient;
        let sealed = agent.session(&device.x_public_key()).unwrap().seal(d, counter, &aad, body.clone()).unwrap();
        let key = device.session(&agent.x_public_key()).unwrap();
        prop_assert_eq!(key.open(d, &sealed.nonce, &aad, &sealed.ciphertext), Ok((counter, body)));

        let mut broken = sealed.ciphertext.clone();
        let i = at.index(broken.len());
        broken[i] ^= 1 << bit;
        prop_assert_eq!(key.open(d, &sealed.nonce, &aad, &broken), Err(OpenError));
        let mut nonce = sealed.nonce;
        nonce[at.index(12)] ^= 1 << bit;
        prop_assert_eq!(key.open(d, &nonce, &aad, &sealed.ciphertext), Err(OpenError));
        let relabelled = Aad::new(&ns, &other.public_key(), &device.public_key());
        prop_assert_eq!(key.open(d, &sealed.nonce, &relabelled, &sealed.ciphertext), Err(OpenError));
        prop_assert_eq!(key.open(d, &sealed.nonce[..11], &aad, &sealed.ciphertext), Err(OpenError));
        prop_assert_eq!(key.open(d, &sealed.nonce, &aad, &sealed.ciphertext[..i.min(15)]), Err(OpenError));
    }

    #[test]
    fn no_text_makes_the_qr_reader_panic(text in ".{0,200}", field in any::<prop::sample::Index>(), with in any::<char>()) {
        let _ = QrPayload::parse(&text);
        let good = qr().to_json();
        let mut chars: Vec<char> = good.chars().collect();
        let i = field.index(chars.len());
        chars[i] = with;
        let _ = QrPayload::parse(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn a_receiver_takes_every_counter_at_most_once(counters in proptest::collection::vec(1u64..50, 0..200)) {
        let mut window = ReplayWindow::default();
        let mut taken = Vec::new();
        for counter in counters {
            if window.accept(counter).is_ok() {
                taken.push(counter);
            }
        }
        prop_assert!(taken.windows(2).all(|w| w[0] < w[1]));
        prop_assert_eq!(window.high(), taken.last().copied().unwrap_or(0));
    }
}

/// What can happen to a sender's data folder.
#[derive(Debug, Clone)]
enum Event {
    Send,
    /// The write of a reservation reached the disk, but the program died before it knew.
    CrashAfterWrite,
    Restart,
    Backup,
    RestoreBackup,
    /// The same device pairs again: same keys, so the counter goes on.
    PairAgainSameKey,
    /// Another X25519 key: another session, whose counter may begin anew.
    PairAgainOtherKey,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => Just(Event::Send),
        1 => Just(Event::CrashAfterWrite),
        2 => Just(Event::Restart),
        1 => Just(Event::Backup),
        1 => Just(Event::RestoreBackup),
        1 => Just(Event::PairAgainSameKey),
        1 => Just(Event::PairAgainOtherKey),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn fault_13_no_key_and_nonce_repeat_whatever_happens(events in proptest::collection::vec((event(), 1u64..100), 1..300)) {
        let mut now = 1_750_000_000_000u64;
        // What the disk holds: which key, and the bound reserved under it.
        let mut disk = (0u32, 0u64);
        let mut backup = disk;
        let mut keys = 1u32;
        let mut counter = SendCounter::start(disk.1, now);
        let mut used = HashSet::new();
        for (event, ms) in events {
            now += ms;
            match event {
                Event::Send => {
                    let number = match counter.take() {
                        Take::Use(n) => n,
                        Take::Reserve(bound) => {
                            disk.1 = bound;
                            counter.reserved(bound);
                            let Take::Use(n) = counter.take() else { panic!("a reserved number is given") };
                            n
                        }
                        Take::Exhausted => panic!("not in this century"),
                    };
                    prop_assert!(used.insert((disk.0, number)), "({}, {number}) was used before", disk.0);
                    prop_assert!(number <= disk.1, "the number was durable before it was used");
                }
                Event::CrashAfterWrite => {
                    if let Take::Reserve(bound) = counter.take() {
                        disk.1 = bound;
                    }
                    counter = SendCounter::start(disk.1, now);
                }
                Event::Restart => counter = SendCounter::start(disk.1, now),
                Event::Backup => backup = disk,
                Event::RestoreBackup => {
                    disk = backup;
                    counter = SendCounter::start(disk.1, now);
                }
                Event::PairAgainSameKey => {}
                Event::PairAgainOtherKey => {
                    disk = (keys, 0);
                    keys += 1;
                    counter = SendCounter::start(0, now);
                }
            }
        }
    }
}

#[test]
fn a_counter_beyond_what_is_durable_is_never_given() {
    let mut counter = SendCounter::start(10, 0);
    let Take::Reserve(bound) = counter.take() else { panic!() };
    assert_eq!(counter.take(), Take::Reserve(bound), "asking again changes nothing");
    counter.reserved(bound);
    for expected in 11..=bound {
        assert_eq!(counter.take(), Take::Use(expected));
    }
    assert!(matches!(counter.take(), Take::Reserve(_)));
    assert_eq!(SendCounter::start(u64::MAX, 0).take(), Take::Exhausted);
}

#[test]
fn an_inflation_bomb_is_found_out_within_bounds() {
    let at_limit = zlib(&vec![b'x'; MAX_INFLATED]);
    assert!(matches!(framing::decode(at_limit), Ok(Framed::Json(body)) if body.len() == MAX_INFLATED));
    assert_eq!(framing::decode(zlib(&vec![b'x'; MAX_INFLATED + 1])), Err(FramingError::TooLarge));
    let mut trailing = zlib(b"{}");
    trailing.push(0);
    assert_eq!(framing::decode(trailing), Err(FramingError::Damaged));
}

#[test]
fn unknown_framing_is_named_without_content() {
    assert_eq!(framing::decode(vec![1]), Err(FramingError::Short));
    assert_eq!(framing::decode(vec![3, 0, 1]), Err(FramingError::Version(3)));
    assert_eq!(framing::decode(vec![1, 2, 1]), Err(FramingError::Compression(2)));
    assert_eq!(framing::decode(vec![2, 1, 1]), Err(FramingError::Compression(1)));
}

#[test]
fn byte_strings_are_read_as_bin_too_and_wrong_lengths_refuse() {
    let write = |id: &[u8], handshake: &[u8], suite: &str| {
        let mut out = vec![0x81, 0xa6];
        out.extend(b"Accept");
        out.extend([0x85, 0xad]);
        out.extend(b"connection_id");
        out.extend([0xc4, id.len() as u8]);
        out.extend(id);
        out.push(0xa5);
        out.extend(b"suite");
        out.push(0xa0 | suite.len() as u8);
        out.extend(suite.as_bytes());
        out.push(0xa9);
        out.extend(b"handshake");
        out.extend([0xc4, handshake.len() as u8]);
        out.extend(handshake);
        out.push(0xa8);
        out.extend(b"compress");
        out.push(0xa4);
        out.extend(b"none");
        out.push(0xa5);
        out.extend(b"later");
        out.push(0xc0);
        out
    };
    assert!(
        PipeSignal::decode(&write(&[1; 32], &[2; 32], "x25519-sealed")).is_ok(),
        "unknown keys are ignored"
    );
    assert!(PipeSignal::decode(&write(&[1; 31], &[2; 32], "x25519-sealed")).is_err());
    assert!(PipeSignal::decode(&write(&[1; 32], &[2; 33], "x25519-sealed")).is_err());
    assert!(
        PipeSignal::decode(&write(&[1; 32], &[2; 48], "noise")).is_ok(),
        "another suite is answered, not refused"
    );
}

fn qr() -> QrPayload {
    let agent = identity(7);
    QrPayload {
        relay_url: "wss://relay.example/v1/ws".into(),
        namespace_id: agent.namespace_id(),
        agent_ed25519_pub: agent.public_key(),
        agent_x25519_pub: agent.x_public_key(),
        pairing_token: PairingToken::from([9; 32]),
    }
}

#[test]
fn a_qr_is_checked_before_it_is_trusted() {
    let json = qr().to_json();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let edited = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut v = value.clone();
        edit(&mut v);
        QrPayload::parse(&v.to_string())
    };
    let upper = edited(&|v| {
        let key = v["agent_x25519_pub"].as_str().unwrap().to_uppercase();
        v["agent_x25519_pub"] = key.into();
        v["later"] = 1.into();
    });
    assert_eq!(upper.unwrap().to_json(), json, "uppercase is read, lowercase written");
    assert_eq!(edited(&|v| v["v"] = 2.into()).unwrap_err(), QrError::Version(2));
    assert_eq!(edited(&|v| v["v"] = "1".into()).unwrap_err(), QrError::NotOurs);
    assert_eq!(edited(&|v| v["namespace_id"] = "00".repeat(32).into()).unwrap_err(), QrError::Namespace);
    assert_eq!(edited(&|v| v["pairing_token"] = "00".into()).unwrap_err(), QrError::Field("pairing_token"));
    assert_eq!(edited(&|v| v["relay_url"] = "https://x".into()).unwrap_err(), QrError::Field("relay_url"));
    assert_eq!(QrPayload::parse("hello").unwrap_err(), QrError::NotOurs);
}

#[test]
fn secrets_do_not_print() {
    let seed = Seed::take(&mut [0xab; 32]);
    let identity = Identity::from_seed(&seed);
    let ephemeral = EphemeralKey::take(&mut [0xcd; 32]);
    let shown = format!("{seed:?} {identity:?} {ephemeral:?} {:?}", qr());
    for secret in ["abab", "171", "cdcd", "205", "0909"] {
        assert!(!shown.contains(secret), "{secret} is in {shown}");
    }
}

#[test]
fn degenerate_keys_agree_on_nothing() {
    assert!(identity(1).session(&[0; 32].into()).is_err());
    let mut one = [0; 32];
    one[0] = 1;
    assert!(EphemeralKey::take(&mut [3; 32]).agree(&one).is_err());
}

#[test]
fn a_pipe_frame_that_does_not_open_ends_the_pipe() {
    let id = ConnectionId::from([5; 32]);
    let pair = |a: u8, b: u8| {
        let (a, b) = (EphemeralKey::take(&mut [a; 32]), EphemeralKey::take(&mut [b; 32]));
        let (a_pub, b_pub) = (a.public(), b.public());
        (a.agree(&b_pub).unwrap(), b.agree(&a_pub).unwrap())
    };
    let (i, r) = pair(1, 2);
    let (mut seal, _) = i.into_ciphers(PipeRole::Initiator, id);
    let (_, mut open) = r.into_ciphers(PipeRole::Responder, id);
    let frames: Vec<Vec<u8>> = (0..3u8)
        .map(|n| {
            let mut frame = vec![n; 10];
            seal.seal_in_place(&mut frame).unwrap();
            frame
        })
        .collect();
    assert_eq!(open.open_in_place(&mut frames[0].clone()), Ok(10));
    assert_eq!(open.open_in_place(&mut frames[2].clone()), Err(PipeCipherError), "a frame is missing");
    assert_eq!(open.open_in_place(&mut frames[1].clone()), Err(PipeCipherError), "and nothing heals that");
    let (_, wrong) = pair(1, 3);
    let (_, mut open) = wrong.into_ciphers(PipeRole::Responder, id);
    assert_eq!(open.open_in_place(&mut frames[0].clone()), Err(PipeCipherError));
}
