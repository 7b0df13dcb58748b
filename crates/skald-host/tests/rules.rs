//! Bypasses and the record of decisions.

mod common;

use std::time::Duration;

use common::*;
use skald_core_api::*;
use skald_host::*;

async fn ask(f: &Fixture, source: &str, new: NewApproval) -> Created {
    f.host.inbox().create_approval(&token(source).actor(), new).await.unwrap()
}

async fn approve(f: &Fixture, id: RequestId, secs: u64) {
    let answer =
        Answer::Approval { decision: Decision::Approved, reason: None, bypass_secs: Some(secs), proof: None };
    let got = f.host.inbox().answer(id, answer, &device("phone")).await.unwrap();
    assert_eq!(got, AnswerOutcome::Resolved);
}

fn in_session(session: &str) -> NewApproval {
    NewApproval { session: Some(session.into()), ..bash("ls") }
}

#[tokio::test]
async fn a_timed_bypass_lets_the_same_calls_through_and_nothing_else() {
    let f = Fixture::new().await;
    let id = ask(&f, "s", bash("ls")).await.request_id();
    approve(&f, id, 900).await;
    let decided = ask(&f, "s", bash("pwd")).await;
    let Created::Decided { request_id, decision: Decision::Approved, resolved_by } = decided else {
        panic!("{decided:?}")
    };
    assert!(resolved_by.starts_with("rule:bypass"));
    let entry = f.host.inbox().get(request_id).await.unwrap();
    assert_eq!((entry.state, entry.resolved_by), (ItemState::Resolved, Some(resolved_by)));
    let other_tool = NewApproval { tool_name: "Write".into(), ..bash("x") };
    let other_label = NewApproval { agent_label: Some("other".into()), ..bash("x") };
    for (source, new) in [("t", bash("ls")), ("s", other_tool), ("s", other_label), ("s", in_session("1"))] {
        assert!(matches!(ask(&f, source, new).await, Created::Pending { .. }));
    }
    let listed = f.host.rules().list().await.unwrap();
    assert_eq!((listed.len(), listed[0].uses, listed[0].created_by.as_str()), (1, 1, "device:phone"));
    assert_eq!(listed[0].expires_at, Some(NOW + 900_000));
    f.clock.advance(Duration::from_secs(900));
    assert!(matches!(ask(&f, "s", bash("ls")).await, Created::Pending { .. }));
    assert!(f.host.rules().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_session_bypass_is_bound_to_its_session_and_survives_a_restart() {
    let f = Fixture::new().await;
    approve(&f, ask(&f, "s", in_session("one")).await.request_id(), 0).await;
    let f = f.restart().await;
    f.clock.advance(Duration::from_secs(6 * 24 * 3600));
    assert!(matches!(ask(&f, "s", in_session("one")).await, Created::Decided { .. }));
    assert!(matches!(ask(&f, "s", in_session("two")).await, Created::Pending { .. }));
    assert!(matches!(ask(&f, "s", bash("ls")).await, Created::Pending { .. }));
    // A week without use: the session is over.
    f.clock.advance(Duration::from_secs(8 * 24 * 3600));
    assert!(matches!(ask(&f, "s", in_session("one")).await, Created::Pending { .. }));
}

#[tokio::test]
async fn for_the_session_of_a_source_without_one_ends_when_the_host_stops() {
    let f = Fixture::new().await;
    approve(&f, ask(&f, "s", bash("ls")).await.request_id(), 0).await;
    assert!(matches!(ask(&f, "s", bash("ls")).await, Created::Decided { .. }));
    let f = f.crash().await;
    assert!(matches!(ask(&f, "s", bash("ls")).await, Created::Pending { .. }));
    assert!(f.host.rules().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_bypass_ends_when_told_with_its_token_or_by_a_clock_set_back() {
    let f = Fixture::new().await;
    f.host.access().create_token("s").await.unwrap();
    approve(&f, ask(&f, "s", bash("ls")).await.request_id(), 900).await;
    let rules = f.host.rules();
    let found = rules.decide(&token("s").actor(), "Bash", "s", None).await.unwrap().unwrap();
    assert_eq!(found.uses, 0);
    f.clock.set_wall(NOW - 3_600_000);
    assert!(rules.decide(&token("s").actor(), "Bash", "s", None).await.unwrap().is_none());
    f.clock.set_wall(NOW);
    rules.end(found.id, &Actor::Owner).await.unwrap();
    assert!(matches!(rules.end(found.id, &Actor::Owner).await, Err(Error::NotFound(_))));
    let id = ask(&f, "s", bash("ls")).await;
    assert!(matches!(id, Created::Pending { .. }));
    approve(&f, id.request_id(), 900).await;
    f.host.access().revoke_token("s").await.unwrap();
    assert!(matches!(ask(&f, "s", bash("ls")).await, Created::Pending { .. }));
}

#[tokio::test]
async fn the_record_names_who_and_keeps_the_proof_but_no_answer() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let id = ask(&f, "s", bash("ls")).await.request_id();
    let proof = DecisionProof { digest: "1a".repeat(32), sig: "2b".repeat(64) };
    let answer = |proof: DecisionProof| Answer::Approval {
        decision: Decision::Approved,
        reason: Some("canary-reason".into()),
        bypass_secs: None,
        proof: Some(proof),
    };
    let broken = DecisionProof { sig: "zz".into(), ..proof.clone() };
    assert!(inbox.answer(id, answer(broken), &device("phone")).await.is_err());
    inbox.answer(id, answer(proof.clone()), &device("phone")).await.unwrap();
    let new = NewClarification { question: "?".into(), ..Default::default() };
    let question = inbox.create_clarification(&Actor::Owner, new).await.unwrap().request_id();
    let text = Answer::Clarification { answer: "canary-answer".into() };
    inbox.answer(question, text, &Actor::Owner).await.unwrap();
    let record = f.host.audit().list(None, 10).await.unwrap();
    assert_eq!(record.iter().map(|e| e.action.as_str()).collect::<Vec<_>>(), ["answered", "approved"]);
    assert_eq!(record[1].actor, device("phone"));
    assert_eq!((record[1].digest.as_ref(), record[1].sig.as_ref()), (Some(&proof.digest), Some(&proof.sig)));
    assert!(!format!("{record:?}").contains("canary"));
    let older = f.host.audit().list(Some(record[0].seq), 10).await.unwrap();
    assert_eq!(older.len(), 1);
}

#[tokio::test]
async fn the_record_cannot_be_changed_and_an_item_cannot_end_twice_even_by_hand() {
    let f = Fixture::new().await;
    let id = ask(&f, "s", bash("ls")).await.request_id();
    f.host.inbox().answer(id, decide(Decision::Rejected), &Actor::Owner).await.unwrap();
    let url = format!("sqlite://{}", f.dir.path().join("skald.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    for statement in [
        "UPDATE audit SET action = 'approved'",
        "DELETE FROM audit",
        "UPDATE items SET outcome = '{\"decision\":\"approved\"}'",
        "UPDATE items SET state = 'expired', outcome = NULL",
    ] {
        assert!(sqlx::raw_sql(statement).execute(&pool).await.is_err(), "{statement}");
    }
}
