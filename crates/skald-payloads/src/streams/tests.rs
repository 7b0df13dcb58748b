//! What the wire of the streams holds to.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_head_reads_back_or_is_refused_and_never_names_more_than_is_allowed(bytes: [u8; 5]) {
        if let Ok(head) = FrameHead::parse(bytes) {
            prop_assert!(head.len <= MAX_DATA);
            prop_assert_eq!(head.encode(), bytes);
        }
    }
}

#[test]
fn what_is_said_is_read_back() {
    let sha256 = Digest([7; 32]);
    let asked = FileRequest::Get { path: "a/b".into(), have: Some(Prefix { at: 5, sha256 }), range: None };
    let frame = say(&asked).unwrap();
    let head = FrameHead::parse(frame[..5].try_into().unwrap()).unwrap();
    assert_eq!((head.kind, head.len), (FrameKind::Say, frame.len() - 5));
    assert_eq!(read::<FileRequest>(&frame[5..]), Ok(asked));
    let fault = StreamFault { code: FaultCode::Exists, text: "It is there.".into() };
    for reply in [FileReply::Error(fault), FileReply::End { sha256: None, more: false }] {
        let frame = say(&reply).unwrap();
        assert_eq!(read::<FileReply>(&frame[5..]), Ok(reply));
    }
}

#[test]
fn what_a_newer_host_says_is_still_a_fault_and_an_entry() {
    let fault: StreamFault = read(br#"{"code":"from_the_future","text":"No."}"#).unwrap();
    assert_eq!(fault.code, FaultCode::BadRequest);
    let entry: Entry = read(br#"{"name":"a","kind":"wormhole"}"#).unwrap();
    assert_eq!(entry.kind, EntryKind::Other);
}

#[test]
fn too_much_is_never_written() {
    let long = "x".repeat(MAX_SAY);
    assert_eq!(
        say(&LogReply::Error(StreamFault { code: FaultCode::Failed, text: long })),
        Err(NotAFrame::Long)
    );
}
