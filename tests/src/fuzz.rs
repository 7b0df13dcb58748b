//! What is done with bytes from outside, one function a decoder. A function returns whatever it is given; it panics where
//! a decoder does, or where what was decoded does not survive being written and read again.
//!
//! `fuzz/` calls these with bytes that a fuzzer grows; `tests/fuzz_smoke.rs` calls them with seeded mutations of good
//! ones in every test run.

use skald_e2e::framing::{self, Framed};
use skald_e2e::qr::QrPayload;
use skald_e2e::signal::PipeSignal;
use skald_payloads::streams::{self, FileReply, FileRequest, FrameHead, LogReply, LogRequest, TcpReply};
use skald_payloads::{Blocks, Envelope, canonical, item_digest};
use skald_relay_common::frame::{FromPeer, FromRelay};
use skald_relay_common::pipe::{PipeAuth, PipeChallenge};

/// A decoder under test.
pub type Target = fn(&[u8]);

/// All of them by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("frame", frame),
    ("pipe_message", pipe_message),
    ("signal", signal),
    ("framing", frame_of_plaintext),
    ("qr", qr),
    ("payload", payload),
    ("stream", stream),
    ("websocket", skald_relay::compare_framing),
];

/// A WebSocket frame of the control connection, as the relay and as a peer read it.
pub fn frame(bytes: &[u8]) {
    if let Ok(Some(frame)) = FromPeer::parse(bytes.to_vec()) {
        let written = frame.encode();
        let again =
            FromPeer::parse(written.clone()).expect("what was written reads").expect("as the same kind");
        assert_eq!(again.encode(), written);
    }
    if let Ok(Some(frame)) = FromRelay::parse(bytes.to_vec()) {
        let written = frame.encode();
        let again =
            FromRelay::parse(written.clone()).expect("what was written reads").expect("as the same kind");
        assert_eq!(again.encode(), written);
    }
}

/// The two messages at the beginning of a pipe connection.
pub fn pipe_message(bytes: &[u8]) {
    if let Ok(message) = PipeChallenge::decode(bytes) {
        let written = message.encode();
        assert_eq!(PipeChallenge::decode(&written).expect("what was written reads").encode(), written);
    }
    if let Ok(message) = PipeAuth::decode(bytes) {
        let written = message.encode();
        assert_eq!(PipeAuth::decode(&written).expect("what was written reads").encode(), written);
    }
}

/// A pipe signal.
pub fn signal(bytes: &[u8]) {
    if let Ok(signal) = PipeSignal::decode(bytes) {
        let written = signal.encode();
        assert_eq!(PipeSignal::decode(&written).expect("what was written reads").encode(), written);
    }
}

/// What an envelope holds once it is open.
pub fn frame_of_plaintext(bytes: &[u8]) {
    match framing::decode(bytes.to_vec()) {
        Ok(Framed::Json(body)) => {
            let again = framing::decode(framing::encode_json(&body)).expect("what was framed reads");
            assert!(matches!(again, Framed::Json(same) if same == body));
        }
        Ok(Framed::Signal(signal)) => {
            assert!(matches!(framing::decode(framing::encode_signal(&signal)), Ok(Framed::Signal(_))));
        }
        Err(_) => {}
    }
}

/// The text of a QR.
pub fn qr(bytes: &[u8]) {
    if let Ok(payload) = QrPayload::parse(&String::from_utf8_lossy(bytes)) {
        let written = payload.to_json();
        assert_eq!(QrPayload::parse(&written).expect("what was written reads").to_json(), written);
    }
}

/// An end-to-end payload, its blocks and its digest.
pub fn payload(bytes: &[u8]) {
    // Some moment within the seven days that the seeds of the fuzzer bear.
    const NOW: i64 = 1_751_000_000_000;
    if let Ok(envelope) = Envelope::parse(bytes, NOW) {
        let written = envelope.encode();
        assert_eq!(Envelope::parse(&written, NOW).expect("what was written reads").encode(), written);
    }
    if let Ok(value) = serde_json::from_slice(bytes) {
        if let Some(blocks) = Blocks::read(&value) {
            assert!(Blocks::read(&blocks.to_value()).is_some());
        }
        if let Ok(text) = canonical(&value) {
            let again = serde_json::from_slice(&text).expect("canonical JSON is JSON");
            assert_eq!(canonical(&again).expect("and canonical again"), text);
        }
        let _digest = item_digest(&value).ok();
    }
}

/// What is said in a stream: a frame's head, and every kind of body.
pub fn stream(bytes: &[u8]) {
    if let Some((first, _)) = bytes.split_first_chunk::<{ FrameHead::LEN }>()
        && let Ok(head) = FrameHead::parse(*first)
    {
        assert_eq!(head.encode(), *first);
    }
    macro_rules! said {
        ($($kind:ty),*) => { $(
            if let Ok(said) = streams::read::<$kind>(bytes)
                && let Ok(frame) = streams::say(&said)
            {
                let again = streams::read::<$kind>(&frame[FrameHead::LEN..]);
                assert_eq!(again.expect("what was written reads"), said);
            }
        )* };
    }
    said!(FileRequest, FileReply, LogRequest, LogReply, TcpReply);
}
