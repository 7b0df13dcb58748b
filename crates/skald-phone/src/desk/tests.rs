use super::*;
use serde_json::json;

const NOW: i64 = 1_750_000_000_000;

fn update(ids: &[&str]) -> Value {
    let list: Vec<_> = ids.iter().map(|id| json!({"request_id": id, "summary": id})).collect();
    json!({"badge": ids.len(), "approvals": list, "clarifications": [], "elicitations": []})
}

fn yes() -> Draft {
    Draft::Approval { approved: true, reason: None, bypass_secs: None }
}

fn desk(ids: &[&str]) -> Desk {
    let mut desk = Desk::default();
    desk.snapshot(&update(ids), true, NOW);
    desk
}

fn answer(desk: &mut Desk, id: &str, left: bool) {
    let item = desk.check(id, None, &yes()).expect("allowed").expect("new").clone();
    let digest = item.digest().map(|d| d.to_string());
    desk.take(Entry {
        token: id.into(),
        request_id: id.into(),
        draft: yes(),
        digest,
        payload: String::new(),
        title: title(&item),
        expires_at: item.time("expires_at"),
        left,
    });
}

fn verdict(desk: &Desk) -> Option<Verdict> {
    desk.concluded.back().map(|c| c.verdict)
}

#[test]
fn an_answer_is_kept_until_a_snapshot_without_its_item() {
    let mut desk = desk(&["a", "b"]);
    answer(&mut desk, "a", true);
    assert_eq!(desk.snapshot(&update(&["a", "b"]), true, NOW).over, Vec::<String>::new());
    assert_eq!(desk.outbox.len(), 1);
    assert_eq!(desk.snapshot(&update(&["b"]), false, NOW).over, ["a"]);
    assert_eq!((desk.outbox.len(), verdict(&desk)), (0, Some(Verdict::Done)));
}

#[test]
fn an_answer_that_the_host_read_and_did_not_take_makes_room_for_another() {
    let mut desk = desk(&["a"]);
    answer(&mut desk, "a", true);
    let made = |at: i64| {
        let mut update = update(&["a"]);
        update["ts"] = at.into();
        update
    };
    assert!(desk.read("a", NOW) && !desk.read("another", NOW));
    // Made before the host acted, or not an answer to a question of now: neither proves anything.
    assert!(desk.snapshot(&made(NOW), true, NOW).over.is_empty());
    assert!(desk.snapshot(&made(NOW + 1), false, NOW).over.is_empty());
    assert_eq!(desk.snapshot(&made(NOW + 1), true, NOW).over, ["a"]);
    assert_eq!((desk.outbox.len(), verdict(&desk)), (0, Some(Verdict::Refused)));
    answer(&mut desk, "a", true);
    assert!(desk.snapshot(&made(NOW + 2), true, NOW).over.is_empty(), "the other answer was not read yet");
}

#[test]
fn an_answer_that_never_left_was_ended_elsewhere() {
    let mut desk = desk(&["a"]);
    answer(&mut desk, "a", false);
    desk.snapshot(&update(&[]), true, NOW);
    assert_eq!(verdict(&desk), Some(Verdict::Elsewhere));
}

#[test]
fn an_item_that_lapsed_meanwhile_is_not_called_done() {
    let mut desk = Desk::default();
    desk.snapshot(
        &json!({"badge": 1, "approvals": [{"request_id": "a", "expires_at": NOW + 10}]}),
        true,
        NOW,
    );
    answer(&mut desk, "a", true);
    desk.snapshot(&update(&[]), true, NOW + 11);
    assert_eq!(verdict(&desk), Some(Verdict::Lapsed));
}

#[test]
fn a_changed_item_ends_the_answer_to_what_it_was() {
    let mut desk = desk(&["a"]);
    answer(&mut desk, "a", true);
    let other = json!({"badge": 1, "approvals": [{"request_id": "a", "summary": "another"}]});
    desk.snapshot(&other, true, NOW);
    assert_eq!((desk.outbox.len(), verdict(&desk)), (0, Some(Verdict::Changed)));
}

#[test]
fn absence_from_a_shortened_snapshot_proves_nothing() {
    let mut desk = desk(&["a"]);
    answer(&mut desk, "a", true);
    let mut short = update(&[]);
    short["badge"] = 1.into();
    assert!(desk.snapshot(&short, false, NOW).ask_again);
    assert_eq!((desk.outbox.len(), verdict(&desk)), (1, None));
}

#[test]
fn a_second_answer_never_replaces_one_that_may_have_left() {
    let mut desk = desk(&["a"]);
    let no = Draft::Approval { approved: false, reason: None, bypass_secs: None };
    answer(&mut desk, "a", false);
    assert!(desk.check("a", None, &no).is_ok_and(|i| i.is_some()), "not sent yet: one may change one's mind");
    desk.outbox[0].left = true;
    assert!(desk.check("a", None, &yes()).is_ok_and(|i| i.is_none()), "the same again waits with the first");
    assert_eq!(desk.check("a", None, &no).expect_err("refused").code.exit(), 1);
}

#[test]
fn answers_to_what_is_gone_changed_or_of_another_kind_are_refused() {
    let desk = desk(&["a"]);
    assert_eq!(desk.check("z", None, &yes()).expect_err("gone").code.exit(), 1);
    assert_eq!(desk.check("a", Some("00"), &yes()).expect_err("changed").code.exit(), 1);
    let text = Draft::Clarification { answer: "x".into() };
    assert_eq!(desk.check("a", None, &text).expect_err("kind").code.exit(), 2);
}

#[test]
fn what_changed_after_it_was_shown_is_known() {
    let mut desk = desk(&["a", "b"]);
    let digests: BTreeMap<_, _> = desk.inbox.as_ref().map_or_else(BTreeMap::new, |i| {
        i.items.iter().filter_map(|i| Some((i.id.clone(), i.digest()?.to_string()))).collect()
    });
    assert!(desk.shown(&digests, 0) && !desk.shown(&digests, 0));
    assert!(desk.changed_since_shown().is_empty());
    desk.snapshot(&json!({"badge": 1, "approvals": [{"request_id": "a", "summary": "x"}]}), false, NOW);
    assert_eq!(desk.changed_since_shown(), ["a"]);
    assert_eq!(desk.memory.shown.len(), 1, "what is gone is forgotten");
}

#[test]
fn notes_stay_until_they_were_shown_and_are_bounded() {
    let mut desk = Desk::default();
    for n in 0..MAX_NOTES + 5 {
        desk.note(&n.to_string(), "", NOW);
    }
    assert_eq!(desk.memory.notes.len(), MAX_NOTES);
    desk.shown(&BTreeMap::new(), desk.memory.next_note);
    assert!(desk.memory.notes.is_empty());
}
