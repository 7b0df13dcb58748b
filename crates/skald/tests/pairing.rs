//! `skald pair`, and answers that no host gives.

mod common;

use std::io::Cursor;

use common::fake::{FakeHost, Given};
use common::{refused, run, skald};
use serde_json::{Value, json};
use skald_testkit::{Program, Scratch};

const TOKEN: &str = "5d20c0ffee5d20c0ffee5d20c0ffee5d20c0ffee5d20c0ffee5d20c0ffee5d20";
const KEY: &str = "abababababababababababababababababababababababababababababababab";

fn picture() -> Vec<u8> {
    let content =
        json!({"v": 1, "relay_url": "wss://relay.example.org/v1/ws", "pairing_token": TOKEN}).to_string();
    let code = qrcode::QrCode::new(content).unwrap();
    let (width, scale) = (code.width(), 6);
    let colours = code.to_colors();
    let side = ((width + 8) * scale) as u32;
    let picture = image::GrayImage::from_fn(side, side, |x, y| {
        let (x, y) = ((x as usize / scale).wrapping_sub(4), (y as usize / scale).wrapping_sub(4));
        let dark = x < width && y < width && colours[y * width + x] == qrcode::Color::Dark;
        image::Luma([if dark { 0 } else { 255 }])
    });
    let mut png = Cursor::new(Vec::new());
    picture.write_to(&mut png, image::ImageFormat::Png).unwrap();
    png.into_inner()
}

fn json_of(value: &Value) -> Given {
    Some((200, "application/json", value.to_string().into_bytes()))
}

/// A connector whose window ends in `state`, with the device in `device_state`.
fn connector(state: &'static str, device_state: &'static str) -> FakeHost {
    let device = json!({"key": KEY, "name": "", "state": device_state, "platform": "ios",
        "device_info": {"device_name": "Ann's\u{1b}[2J phone"}, "verification_code": "123 456"});
    FakeHost::start(move |count, (method, path, _)| {
        let below = path.strip_prefix("/api/plugin/mobile-connector/").unwrap();
        match (method.as_str(), below) {
            ("POST", "pairing") => json_of(&json!({"code": "c1", "expires_at": 1,
                "qr_url": "/api/plugin/mobile-connector/pairingqrcode?code=c1"})),
            ("GET", "pairingqrcode?code=c1") => Some((200, "image/png", picture())),
            ("GET", "pairing/c1") if count <= 3 => json_of(&json!({"state": "open"})),
            ("GET", "pairing/c1") => json_of(&json!({"state": state, "device": device})),
            ("GET", "devices") => json_of(&json!([device])),
            ("POST" | "DELETE", _) => Some((204, "text/plain", vec![])),
            _ => None,
        }
    })
}

fn pair(host: &FakeHost, input: &str) -> skald_testkit::Finished {
    let scratch = Scratch::new().unwrap();
    let mut command = skald(&scratch);
    command.args(["pair", "--ttl", "2m", "--url", &host.url, "--token", "t"]);
    Program::run("skald pair", command, input).unwrap()
}

fn decided(host: &FakeHost) -> Vec<(String, String)> {
    let changes = host.asked().into_iter().filter(|(method, ..)| method != "GET").skip(1);
    changes.map(|(method, path, _)| (method, path)).collect()
}

#[test]
fn a_device_is_admitted_after_a_yes_alone() {
    let admitted = ("POST".to_owned(), format!("/api/plugin/mobile-connector/devices/{KEY}/authorize"));
    let refused = ("DELETE".to_owned(), format!("/api/plugin/mobile-connector/devices/{KEY}"));
    for (input, code, change) in [
        ("y\n", 0, vec![admitted.clone()]),
        ("Yes\n", 0, vec![admitted]),
        ("n\n", 1, vec![refused.clone()]),
        ("\n", 1, vec![refused.clone()]),
        ("yeah, sure\n", 1, vec![refused]),
        // Nobody there to decide: nothing is decided.
        ("", 3, vec![]),
    ] {
        let host = connector("paired", "pending");
        let finished = pair(&host, input);
        assert_eq!(finished.code, Some(code), "{input:?}: {}", finished.stderr);
        assert_eq!(decided(&host), change, "{input:?}");
        assert!(finished.stdout.contains("Verification code: 123 456"), "{}", finished.stdout);
        assert!(
            finished.stdout.contains("Ann's[2J phone wants"),
            "a device's name cannot drive the terminal"
        );
        assert!(finished.stdout.contains('█') && finished.stdout.contains('▀'));
        assert!(!finished.stdout.contains(TOKEN) && !finished.stderr.contains(TOKEN));
        assert_eq!(serde_json::from_str::<Value>(&host.asked()[0].2).unwrap(), json!({"ttl": 120}));
    }
}

#[test]
fn a_device_that_needs_no_confirmation_is_only_told() {
    let host = connector("paired", "authorized");
    let finished = pair(&host, "");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(decided(&host).is_empty());
    assert!(finished.stdout.contains("paired and admitted"));
}

#[test]
fn a_window_that_ends_without_a_device_is_exit_code_3() {
    for (state, word) in [("expired", "expired"), ("superseded", "another pairing")] {
        let finished = pair(&connector(state, "pending"), "");
        assert_eq!(finished.code, Some(3), "{}", finished.stderr);
        assert!(finished.stderr.contains(word), "{}", finished.stderr);
    }
}

#[test]
fn a_picture_that_cannot_be_read_is_told() {
    let host = FakeHost::start(|_, (method, ..)| match method.as_str() {
        "POST" => json_of(&json!({"code": "c1", "qr_url": "/q", "expires_at": 1})),
        _ => Some((200, "image/png", b"no picture".to_vec())),
    });
    refused(&pair(&host, ""), 1, "QR");
}

fn asks(host: &FakeHost) -> skald_testkit::Finished {
    let scratch = Scratch::new().unwrap();
    let mut command = skald(&scratch);
    command.env("SKALD_URL", &host.url).env("SKALD_TOKEN", "t");
    run(command, &["ask", "q"])
}

#[test]
fn a_question_whose_answer_was_lost_is_sent_again_under_the_same_key() {
    let host = FakeHost::start(|count, (method, ..)| match (method.as_str(), count) {
        ("POST", 1) => None,
        ("POST", _) => json_of(&json!({"request_id": "r1", "state": "resolved", "expires_at": 1})),
        _ => json_of(&json!({"state": "resolved", "outcome": {"answer": "yes"}})),
    });
    let finished = asks(&host);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), "yes\n"), "{}", finished.stderr);
    let keys: Vec<Value> = host
        .asked()
        .iter()
        .filter(|(method, ..)| method == "POST")
        .map(|(_, _, body)| serde_json::from_str::<Value>(body).unwrap()["idempotency_key"].clone())
        .collect();
    assert_eq!(keys.len(), 2);
    assert!(keys[0].as_str().is_some_and(|k| k.len() >= 32) && keys[0] == keys[1]);
}

#[test]
fn what_is_no_host_is_exit_code_4_and_never_a_no() {
    let answers: [fn() -> Given; 5] = [
        || Some((200, "text/html", b"<html>".to_vec())),
        || Some((200, "application/json", b"{}".to_vec())),
        || Some((500, "text/html", b"<html>".to_vec())),
        || Some((302, "text/html", vec![])),
        || None,
    ];
    for answer in answers {
        let host = FakeHost::start(move |_, _| answer());
        let finished = asks(&host);
        assert_eq!(finished.code, Some(4), "{}", finished.stderr);
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{}", finished.stderr);
    }
}
