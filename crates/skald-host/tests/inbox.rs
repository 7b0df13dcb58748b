//! The Inbox, behaviour by behaviour.

mod common;

use std::time::Duration;

use common::*;
use serde_json::json;
use skald_core_api::*;
use skald_host::*;

const SECS: Duration = Duration::from_secs(1);

#[tokio::test]
async fn what_is_asked_is_shown_whole() {
    let f = Fixture::new().await;
    let command = format!("cargo test {}", "--very-long-flag ".repeat(30));
    let new = NewApproval {
        arguments: Some(json!({"command": command, "n": [1, null]})),
        session: Some("s1".into()),
        expires_in: Some(60),
        ..bash(&command)
    };
    let source = token("claude").actor();
    let id = f.host.inbox().create_approval(&source, new).await.unwrap().request_id();
    let snapshot = f.host.inbox().snapshot().await.unwrap();
    let shown = &snapshot.approvals[0];
    assert_eq!((snapshot.badge(), shown.request_id), (1, id));
    assert_eq!(shown.arguments, Some(json!({"command": command, "n": [1, null]})));
    assert!(shown.summary.chars().count() <= 120);
    assert_eq!(shown.detail.as_deref(), Some(command.trim()));
    assert_eq!((shown.agent_label.as_str(), shown.created_at), ("claude", NOW));
    assert_eq!(shown.expires_at, Some(NOW + 60_000));
}

#[tokio::test]
async fn a_question_without_a_time_lapses_by_the_setting() {
    let f = Fixture::new().await;
    let update = SettingsUpdate { default_timeout_secs: Some(7), ..Default::default() };
    f.host.settings().update(update).await.unwrap();
    let new = NewClarification { question: "Which?".into(), ..Default::default() };
    f.host.inbox().create_clarification(&Actor::Owner, new).await.unwrap();
    let f = f.restart().await;
    assert_eq!(f.host.settings().current().default_timeout_secs, 7);
    let snapshot = f.host.inbox().snapshot().await.unwrap();
    assert_eq!(snapshot.clarifications[0].expires_at, Some(NOW + 7000));
}

#[tokio::test]
async fn every_field_is_checked_and_named() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let me = Actor::Owner;
    let bad = NewApproval {
        tool_name: " ".into(),
        summary: String::new(),
        agent_label: Some("a\u{202e}b".into()),
        session: Some("x".repeat(300)),
        blocks: Some(json!({"v": 2})),
        expires_in: Some(0),
        ..Default::default()
    };
    let named = fields(inbox.create_approval(&me, bad).await);
    for field in ["tool_name", "summary", "agent_label", "session", "blocks.v", "blocks.blocks", "expires_in"]
    {
        assert!(named.iter().any(|n| n == field), "{field} in {named:?}");
    }
    let huge = NewApproval { arguments: Some(json!("x".repeat(300 * 1024))), ..bash("x") };
    assert_eq!(fields(inbox.create_approval(&me, huge).await), [""]);
    let late = NewApproval { expires_in: Some(31 * 24 * 3600), ..bash("x") };
    assert_eq!(fields(inbox.create_approval(&me, late).await), ["expires_in"]);
    let many = NewClarification {
        question: "?".into(),
        suggested_answers: Some(vec!["a".into(); 51]),
        ..Default::default()
    };
    assert_eq!(fields(inbox.create_clarification(&me, many).await), ["suggested_answers"]);
    let nothing = NewElicitation { field_name: None, ..password() };
    assert_eq!(fields(inbox.create_elicitation(&me, nothing).await), ["field_name"]);
    let both = NewElicitation { is_confirmation: Some(true), ..password() };
    assert_eq!(fields(inbox.create_elicitation(&me, both).await), ["field_name"]);
    let other = json!({"type": "object", "properties": {"user": {"type": "string"}}});
    let other = NewElicitation { schema: Some(other), ..password() };
    assert_eq!(fields(inbox.create_elicitation(&me, other).await), ["field_name"]);
    assert_eq!(inbox.snapshot().await.unwrap().badge(), 0);
}

#[tokio::test]
async fn fault_23_the_first_answer_wins_and_later_ones_are_kept_as_late() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox().clone();
    let id = inbox.create_approval(&token("s").actor(), bash("ls")).await.unwrap().request_id();
    let answers: Vec<_> = (0..24)
        .map(|i| {
            let (inbox, decision) =
                (inbox.clone(), if i % 2 == 0 { Decision::Approved } else { Decision::Rejected });
            tokio::spawn(async move {
                let by = if i % 3 == 0 { Actor::Owner } else { device(&format!("phone {i}")) };
                (decision, inbox.answer(id, decide(decision), &by).await.unwrap())
            })
        })
        .collect();
    let mut won = Vec::new();
    let mut standing = Vec::new();
    for answer in answers {
        match answer.await.unwrap() {
            (decision, AnswerOutcome::Resolved) => won.push(decision),
            (_, AnswerOutcome::Late { standing: s, state }) => {
                assert_eq!(state, "resolved");
                standing.push(s.unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    let outcome = Outcome::Approval { decision: won[0], reason: None };
    assert_eq!((won.len(), standing.len()), (1, 23));
    assert!(standing.iter().all(|s| *s == outcome));
    let status = inbox.status(id, &token("s")).await.unwrap();
    assert_eq!((status.outcome, status.late_answers.len()), (Some(outcome), 23));
    assert_eq!(inbox.snapshot().await.unwrap().badge(), 0, "no ghost card");
}

#[tokio::test]
async fn the_same_answer_delivered_again_to_a_device_is_not_a_second_answer() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let id = inbox.create_approval(&Actor::Owner, bash("ls")).await.unwrap().request_id();
    for _ in 0..3 {
        inbox.answer(id, decide(Decision::Approved), &device("phone")).await.unwrap();
    }
    assert!(inbox.get(id).await.unwrap().late_answers.is_empty());
    inbox.answer(id, decide(Decision::Rejected), &device("phone")).await.unwrap();
    assert_eq!(inbox.get(id).await.unwrap().late_answers.len(), 1);
}

#[tokio::test]
async fn fault_24_a_timeout_is_expired_and_never_a_no() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox().clone();
    let new = NewApproval { expires_in: Some(60), ..bash("ls") };
    let id = inbox.create_approval(&token("s").actor(), new).await.unwrap().request_id();
    let waiter = {
        let inbox = inbox.clone();
        tokio::spawn(async move { inbox.wait(id, &token("s"), 3600 * SECS).await.unwrap() })
    };
    f.clock.advance(60 * SECS);
    let status = soon(waiter).await.unwrap();
    assert_eq!((status.state, status.outcome), (ItemState::Expired, None));
    assert_eq!(status.resolved_by.as_deref(), Some("timeout"));
    let late = inbox.answer(id, decide(Decision::Approved), &device("phone")).await.unwrap();
    assert_eq!(late, AnswerOutcome::Late { standing: None, state: "expired".into() });
    let status = inbox.status(id, &token("s")).await.unwrap();
    assert_eq!((status.state, status.late_answers[0].by.as_str()), (ItemState::Expired, "device:phone"));
}

#[tokio::test]
async fn items_lapse_by_themselves_and_the_earliest_deadline_counts() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let mut revisions = inbox.revisions();
    for secs in [3600, 5] {
        let new = NewApproval { expires_in: Some(secs), ..bash("ls") };
        inbox.create_approval(&Actor::Owner, new).await.unwrap();
    }
    revisions.borrow_and_update();
    f.clock.advance(5 * SECS);
    soon(revisions.changed()).await.unwrap();
    assert_eq!(inbox.history(None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_wall_clock_set_forward_is_noticed_and_one_set_back_revives_nothing() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let new = NewApproval { expires_in: Some(3600), ..bash("ls") };
    let id = inbox.create_approval(&Actor::Owner, new.clone()).await.unwrap().request_id();
    let mut revisions = inbox.revisions();
    revisions.borrow_and_update();
    f.clock.set_wall(NOW + 3_600_000);
    f.clock.advance(31 * SECS);
    soon(revisions.changed()).await.unwrap();
    f.clock.set_wall(NOW);
    assert_eq!(inbox.get(id).await.unwrap().state, ItemState::Expired);
    // Set back while it waits: it waits until the wall clock says so.
    let id = inbox.create_approval(&Actor::Owner, new).await.unwrap().request_id();
    f.clock.set_wall(NOW - 86_400_000);
    f.clock.advance(3600 * SECS);
    assert_eq!(inbox.status(id, &Principal::Owner).await.unwrap().state, ItemState::Pending);
}

#[tokio::test]
async fn an_answer_after_the_deadline_is_late_even_if_nobody_noticed_the_deadline() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let new = NewApproval { expires_in: Some(60), ..bash("ls") };
    let id = inbox.create_approval(&Actor::Owner, new).await.unwrap().request_id();
    // The wall clock alone: the clockwork still sleeps.
    f.clock.set_wall(NOW + 60_000);
    let late = inbox.answer(id, decide(Decision::Approved), &Actor::Owner).await.unwrap();
    assert_eq!(late, AnswerOutcome::Late { standing: None, state: "expired".into() });
}

#[tokio::test]
async fn questions_and_answers_survive_a_crash() {
    let f = Fixture::new().await;
    let source = token("s").actor();
    let answered = f.host.inbox().create_approval(&source, bash("a")).await.unwrap().request_id();
    let open = f.host.inbox().create_approval(&source, bash("b")).await.unwrap().request_id();
    f.host.inbox().answer(answered, decide(Decision::Rejected), &device("p")).await.unwrap();
    let before = f.host.inbox().snapshot().await.unwrap();
    let f = f.crash().await;
    let inbox = f.host.inbox().clone();
    assert_eq!(inbox.snapshot().await.unwrap(), before);
    assert_eq!(*inbox.revisions().borrow(), before.revision);
    let status = inbox.wait(answered, &token("s"), SECS).await.unwrap();
    assert_eq!(status.outcome, Some(Outcome::Approval { decision: Decision::Rejected, reason: None }));
    let waiter = {
        let inbox = inbox.clone();
        tokio::spawn(async move { inbox.wait(open, &token("s"), 60 * SECS).await.unwrap() })
    };
    inbox.answer(open, decide(Decision::Approved), &Actor::Owner).await.unwrap();
    assert_eq!(soon(waiter).await.unwrap().state, ItemState::Resolved);
}

#[tokio::test]
async fn an_answer_of_another_kind_is_refused_and_changes_nothing() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let id = inbox.create_approval(&Actor::Owner, bash("ls")).await.unwrap().request_id();
    for wrong in [
        Answer::Clarification { answer: "yes".into() },
        accept(json!({})),
        Answer::Approval { decision: Decision::Rejected, reason: None, bypass_secs: Some(900), proof: None },
        Answer::Approval {
            decision: Decision::Approved,
            reason: Some("x".repeat(20_000)),
            bypass_secs: None,
            proof: None,
        },
    ] {
        assert!(matches!(inbox.answer(id, wrong, &Actor::Owner).await, Err(InboxError::Invalid(_))));
    }
    assert_eq!(inbox.snapshot().await.unwrap().badge(), 1);
    let unknown = RequestId("00000000-0000-4000-8000-000000000000".parse().unwrap());
    let answer = inbox.answer(unknown, decide(Decision::Approved), &Actor::Owner).await.unwrap();
    assert_eq!(answer, AnswerOutcome::Unknown);
}

#[tokio::test]
async fn only_the_source_or_the_owner_withdraws() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox().clone();
    let id = inbox.create_approval(&token("s").actor(), bash("ls")).await.unwrap().request_id();
    assert!(matches!(inbox.withdraw(id, &token("t")).await, Err(Error::NotFound(_))));
    let waiter = {
        let inbox = inbox.clone();
        tokio::spawn(async move { inbox.wait(id, &token("s"), 60 * SECS).await.unwrap() })
    };
    inbox.withdraw(id, &token("s")).await.unwrap();
    assert_eq!(soon(waiter).await.unwrap().state, ItemState::Cancelled);
    inbox.withdraw(id, &token("s")).await.unwrap();
    let late = inbox.answer(id, decide(Decision::Approved), &Actor::Owner).await.unwrap();
    assert_eq!(late, AnswerOutcome::Late { standing: None, state: "cancelled".into() });
    let id = inbox.create_approval(&token("s").actor(), bash("ls")).await.unwrap().request_id();
    inbox.answer(id, decide(Decision::Approved), &Actor::Owner).await.unwrap();
    assert!(matches!(inbox.withdraw(id, &Principal::Owner).await, Err(Error::Conflict(_))));
}

#[tokio::test]
async fn an_idempotency_key_makes_one_item_of_two_calls() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let s = token("s").actor();
    let new = |summary: &str| NewApproval { idempotency_key: Some("k1".into()), ..bash(summary) };
    let first = inbox.create_approval(&s, new("ls")).await.unwrap();
    let again = inbox.create_approval(&s, new("ls")).await.unwrap();
    assert_eq!(first.request_id(), again.request_id());
    assert!(matches!(again, Created::Pending { existing: true, .. }));
    assert!(matches!(inbox.create_approval(&s, new("rm")).await, Err(Error::Conflict(_))));
    let other = inbox.create_approval(&token("t").actor(), new("ls")).await.unwrap();
    assert_ne!(first.request_id(), other.request_id());
    inbox.answer(first.request_id(), decide(Decision::Rejected), &Actor::Owner).await.unwrap();
    let decided = inbox.create_approval(&s, new("ls")).await.unwrap();
    assert!(matches!(decided, Created::Decided { decision: Decision::Rejected, .. }));
}

#[tokio::test]
async fn a_wait_ends_when_the_host_stops_or_its_time_is_up() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox().clone();
    let id = inbox.create_approval(&Actor::Owner, bash("ls")).await.unwrap().request_id();
    let status = inbox.wait(id, &Principal::Owner, Duration::ZERO).await.unwrap();
    assert_eq!(status.state, ItemState::Pending);
    let wait = |limit| {
        let inbox = inbox.clone();
        tokio::spawn(async move { inbox.wait(id, &Principal::Owner, limit).await })
    };
    let (short, long) = (wait(10 * SECS), wait(1000 * SECS));
    soon(async {
        while inbox.waited_for() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    f.clock.advance(10 * SECS);
    f.clock.advance(10 * SECS);
    drop(short);
    f.host.shutdown().await;
    // Pending, or refused where the database closed first: either way it is over.
    let _ = soon(long).await.unwrap();
}
