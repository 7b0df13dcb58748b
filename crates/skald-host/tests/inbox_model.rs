//! Random lives of an Inbox against a model: the first answer wins, nothing is lost, nothing ends twice, and no
//! content reaches the disk, whatever is killed in between.

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::*;
use proptest::prelude::*;
use serde_json::json;
use skald_core_api::*;
use skald_host::*;

const CANARY: &str = "canary-7f3a-content";

#[derive(Debug, Clone)]
enum Op {
    Create { kind: u8, secs: u64 },
    Answer { item: usize, yes: bool, who: u8 },
    Wrong { item: usize },
    Withdraw { item: usize },
    Advance { secs: u64 },
    Jump { secs: i64 },
    Fetch { item: usize },
    Look,
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let item = 0usize..8;
    prop_oneof![
        4 => (0u8..3, 1u64..90).prop_map(|(kind, secs)| Op::Create { kind, secs }),
        5 => (item.clone(), any::<bool>(), 0u8..3).prop_map(|(item, yes, who)| Op::Answer { item, yes, who }),
        1 => item.clone().prop_map(|item| Op::Wrong { item }),
        1 => item.clone().prop_map(|item| Op::Withdraw { item }),
        2 => (1u64..60).prop_map(|secs| Op::Advance { secs }),
        3 => (-60i64..120).prop_map(|secs| Op::Jump { secs }),
        2 => item.prop_map(|item| Op::Fetch { item }),
        2 => Just(Op::Look),
        1 => Just(Op::Crash),
    ]
}

struct Item {
    id: RequestId,
    kind: ItemKind,
    state: ItemState,
    expires_at: i64,
    outcome: Option<Outcome>,
    by: Option<String>,
    late: usize,
    content: bool,
}

#[derive(Default)]
struct Model(Vec<Item>);

impl Model {
    fn lapse(&mut self, now: i64) {
        for item in self.0.iter_mut().filter(|i| i.state == ItemState::Pending && i.expires_at <= now) {
            item.state = ItemState::Expired;
            item.by = Some("timeout".into());
        }
    }
    fn pick(&mut self, index: usize) -> Option<&mut Item> {
        let len = self.0.len();
        if len == 0 { None } else { self.0.get_mut(index % len) }
    }
}

fn answer_to(kind: ItemKind, yes: bool) -> (Answer, Outcome) {
    match kind {
        ItemKind::Approval => {
            let decision = if yes { Decision::Approved } else { Decision::Rejected };
            (decide(decision), Outcome::Approval { decision, reason: None })
        }
        ItemKind::Clarification => {
            let answer = if yes { "this" } else { "that" }.to_owned();
            (Answer::Clarification { answer: answer.clone() }, Outcome::Clarification { answer })
        }
        ItemKind::Elicitation => {
            let (action, content) = if yes {
                (ElicitationAction::Accept, Some(json!({ "password": CANARY })))
            } else {
                (ElicitationAction::Decline, None)
            };
            (Answer::Elicitation { action, content }, Outcome::Elicitation { action })
        }
    }
}

fn actor(who: u8) -> Actor {
    match who {
        0 => Actor::Owner,
        1 => Actor::Token { name: "cli".into() },
        _ => device("phone"),
    }
}

async fn step(mut f: Fixture, model: &mut Model, op: Op) -> Fixture {
    let source = token("source");
    let inbox = f.host.inbox().clone();
    match op {
        Op::Create { kind, secs } => {
            let (by, expires_in) = (source.actor(), Some(secs));
            let created = match kind {
                0 => inbox.create_approval(&by, NewApproval { expires_in, ..bash("ls") }).await,
                1 => {
                    let new = NewClarification { question: "?".into(), expires_in, ..Default::default() };
                    inbox.create_clarification(&by, new).await
                }
                _ => inbox.create_elicitation(&by, NewElicitation { expires_in, ..password() }).await,
            };
            let kind =
                [ItemKind::Approval, ItemKind::Clarification, ItemKind::Elicitation][usize::from(kind)];
            model.0.push(Item {
                id: created.unwrap().request_id(),
                kind,
                state: ItemState::Pending,
                expires_at: f.clock.now_ms() + i64::try_from(secs).unwrap() * 1000,
                outcome: None,
                by: None,
                late: 0,
                content: false,
            });
        }
        Op::Answer { item, yes, who } => {
            let Some(item) = model.pick(item) else { return f };
            let (answer, outcome) = answer_to(item.kind, yes);
            let by = actor(who);
            let got = inbox.answer(item.id, answer, &by).await.unwrap();
            if item.state == ItemState::Pending {
                assert_eq!(got, AnswerOutcome::Resolved);
                item.state = ItemState::Resolved;
                item.content = item.kind == ItemKind::Elicitation && yes;
                item.outcome = Some(outcome);
                item.by = Some(by.to_string());
            } else {
                let state = item.state.as_str().to_owned();
                assert_eq!(got, AnswerOutcome::Late { standing: item.outcome.clone(), state });
                let again = who == 2
                    && item.by.as_deref() == Some("device:phone")
                    && item.outcome.as_ref() == Some(&outcome);
                item.late += usize::from(!again);
            }
        }
        Op::Wrong { item } => {
            let Some(item) = model.pick(item) else { return f };
            let answer = match item.kind {
                ItemKind::Approval => Answer::Clarification { answer: "x".into() },
                _ => decide(Decision::Approved),
            };
            assert!(inbox.answer(item.id, answer, &Actor::Owner).await.is_err());
        }
        Op::Withdraw { item } => {
            let Some(item) = model.pick(item) else { return f };
            let got = inbox.withdraw(item.id, &source).await;
            match item.state {
                ItemState::Pending => {
                    got.unwrap();
                    item.state = ItemState::Cancelled;
                    item.by = Some("token:source".into());
                }
                ItemState::Cancelled => got.unwrap(),
                _ => assert!(got.is_err()),
            }
        }
        Op::Advance { secs } => {
            f.clock.advance(Duration::from_secs(secs));
            model.lapse(f.clock.now_ms());
        }
        Op::Jump { secs } => {
            f.clock.set_wall(f.clock.now_ms() + secs * 1000);
            model.lapse(f.clock.now_ms());
        }
        Op::Fetch { item } => {
            let Some(item) = model.pick(item) else { return f };
            let status = inbox.status(item.id, &source).await.unwrap();
            let accepted = item.outcome == Some(Outcome::Elicitation { action: ElicitationAction::Accept });
            // Time and crashes may have taken the content; nobody gets it twice, and nobody is told nothing.
            assert_eq!(status.content.is_some() || status.content_gone, accepted);
            if status.content.is_some() {
                assert!(item.content, "content was given twice");
                item.content = false;
            }
        }
        Op::Look => verify(&f, model).await,
        Op::Crash => {
            f = f.crash().await;
            model.0.iter_mut().for_each(|i| i.content = false);
        }
    }
    f
}

async fn verify(f: &Fixture, model: &Model) {
    let snapshot = f.host.inbox().snapshot().await.unwrap();
    let mut shown: Vec<RequestId> = snapshot.approvals.iter().map(|i| i.request_id).collect();
    shown.extend(snapshot.clarifications.iter().map(|i| i.request_id));
    shown.extend(snapshot.elicitations.iter().map(|i| i.request_id));
    shown.sort();
    let mut pending: Vec<RequestId> =
        model.0.iter().filter(|i| i.state == ItemState::Pending).map(|i| i.id).collect();
    pending.sort();
    assert_eq!(shown, pending);
    for item in &model.0 {
        let got = f.host.inbox().status(item.id, &Principal::Owner).await.unwrap();
        assert_eq!((got.state, &got.outcome, &got.resolved_by), (item.state, &item.outcome, &item.by));
        assert_eq!(got.late_answers.len(), item.late);
        assert!(got.content.is_none());
    }
    let history = f.host.inbox().history(None, 200).await.unwrap();
    assert_eq!(history.items.len(), model.0.len() - pending.len());
}

async fn live(ops: Vec<Op>) {
    let mut f = Fixture::new().await;
    let mut model = Model::default();
    for op in ops {
        // What lapsed unseen before the clock was set back may or may not have been noticed: look first.
        if matches!(op, Op::Jump { secs } if secs < 0) {
            verify(&f, &model).await;
        }
        f = step(f, &mut model, op).await;
        assert!(!on_disk(f.dir.path(), CANARY));
    }
    verify(&f, &model).await;
    let mut ends: HashMap<RequestId, usize> = HashMap::new();
    for line in f.host.audit().list(None, 1000).await.unwrap() {
        if let (Some(id), true) = (line.request_id, line.action != "late") {
            *ends.entry(id).or_default() += 1;
        }
    }
    for item in &model.0 {
        let once = usize::from(item.state != ItemState::Pending);
        assert_eq!(ends.get(&item.id).copied().unwrap_or(0), once, "an item ends once");
    }
    f.host.shutdown().await;
    assert!(!on_disk(f.dir.path(), CANARY));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_life_of_an_inbox_agrees_with_the_model(ops in prop::collection::vec(op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(live(ops));
    }
}
