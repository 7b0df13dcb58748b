//! A short fuzz of every decoder of bytes from outside: good ones, then many seeded mutations of them.

use serde_json::{Value, json};
use skald_testkit::Rng;
use skald_tests::fuzz::TARGETS;

const ROUNDS: usize = 30_000;

/// Good bytes for the decoders to begin with: every byte string of the known answers, and a payload of each kind.
fn good() -> Vec<Vec<u8>> {
    let vectors: Value =
        serde_json::from_str(include_str!("../../proto/vectors/vectors.json")).expect("the vectors");
    let mut found = Vec::new();
    collect(&vectors, &mut found);
    assert!(found.len() > 30, "the vectors hold fewer byte strings than they should");
    let head = json!({ "v": 1, "id": "3f2b8c1e-5d2a-4f0e-9a55-0c6f6f1f6f10", "ts": 1_751_000_000_000_i64 });
    let item = json!({ "request_id": "r", "tool_name": "t", "agent_label": "a", "summary": "s", "created_at": 1,
        "arguments": { "x": [1.5, "ü", null] },
        "blocks": { "v": 1, "summary": "s", "blocks": [{ "type": "field", "label": "l", "value": "v", "value_type": "diff" }] } });
    for more in [
        json!({ "kind": "inbox_update", "badge": 1, "approvals": [item], "clarifications": [], "elicitations": [] }),
        json!({ "kind": "notification", "title": "t", "body": "b" }),
        json!({ "kind": "hello", "device_info": { "platform": "cli" } }),
        json!({ "kind": "inbox_request" }),
        json!({ "kind": "approval_response", "request_id": "r", "decision": "approved", "bypass_secs": 900 }),
        json!({ "kind": "clarification_response", "request_id": "r", "answer": "yes" }),
        json!({ "kind": "elicitation_response", "request_id": "r", "action": "accept", "content": { "a": 1 } }),
        json!({ "kind": "logout" }),
        json!({ "kind": "ack", "ref_id": "3f2b8c1e-5d2a-4f0e-9a55-0c6f6f1f6f10" }),
    ] {
        let mut payload = head.clone();
        if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
            payload.extend(more);
        }
        let text = payload.to_string().into_bytes();
        skald_payloads::Envelope::parse(&text, 1_751_000_000_000).expect("a good payload");
        found.push([b"\x01\x00", text.as_slice()].concat());
        found.push(text);
    }
    let hash = "ab".repeat(32);
    for said in [
        json!({ "op": "get", "path": "photos/a", "have": { "at": 5, "sha256": hash }, "range": { "at": 1, "len": 2 } }),
        json!({ "op": "put", "path": "inbox/a", "size": 5, "sha256": hash, "overwrite": true }),
        json!({ "re": "entries", "entries": [{ "name": "a", "kind": "file", "size": 1, "modified": 2 }] }),
        json!({ "re": "file", "size": 9, "at": 1, "len": 8, "modified": 2 }),
        json!({ "re": "error", "code": "exists", "text": "No." }),
        json!({ "re": "line", "seq": 1, "at": 2, "level": "warn", "target": "t", "text": "x" }),
        json!({ "lines": 3, "follow": true, "level": "debug" }),
    ] {
        found.push([b"j\0\0\0\x40", said.to_string().as_bytes()].concat());
        found.push(said.to_string().into_bytes());
    }
    // A client's WebSocket frames, whole, fragmented and with control frames between; the first byte says how many cuts
    // come before them.
    let frames = [
        &b"\x82\x85\x01\x02\x03\x04"[..],
        b"hello",
        b"\x02\x81\x09\x09\x09\x09a",
        b"\x89\x80\0\0\0\0",
        b"\x80\xfe\0\x80abcd",
    ];
    found.push(
        [&b"\x03\x01\x00\x07"[..], &frames.concat(), &[7; 128], b"\x88\x82\x05\x05\x05\x05xy"].concat(),
    );
    found
}

fn collect(value: &Value, found: &mut Vec<Vec<u8>>) {
    match value {
        Value::String(text) => {
            let bytes = (0..text.len() / 2)
                .map(|at| text.get(2 * at..2 * at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()));
            found.extend(bytes.collect::<Option<Vec<u8>>>().filter(|bytes| !bytes.is_empty()));
            found.push(text.clone().into_bytes());
        }
        Value::Object(fields) => {
            found.push(value.to_string().into_bytes());
            fields.values().for_each(|field| collect(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

fn mutated(rng: &mut Rng, good: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = rng.pick(good).cloned().unwrap_or_default();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        match rng.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.next_u64() as u8),
            2 => {
                let more = rng.pick(good).cloned().unwrap_or_default();
                let from = rng.below(more.len() + 1);
                bytes.splice(at..at, more[from..].iter().copied().take(64));
            }
            3 if at < bytes.len() => {
                // The lengths and marks that decoders trip over.
                bytes[at] = *rng.pick(&[0x00, 0x7f, 0x80, 0xff, 0xc4, 0xdf, b'"', b'{']).unwrap_or(&0);
            }
            4 if at < bytes.len() => drop(bytes.remove(at)),
            _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            _ => {}
        }
    }
    bytes
}

#[test]
fn no_decoder_panics_and_what_it_takes_survives_being_written_again() {
    let good = good();
    let mut rng = Rng::from_env(20_260_701);
    for (name, target) in TARGETS {
        println!("{name}, seed {}", rng.seed());
        good.iter().for_each(|bytes| target(bytes));
        for _ in 0..ROUNDS {
            target(&mutated(&mut rng, &good));
        }
    }
}
