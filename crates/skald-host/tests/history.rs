//! History, notifications and bounds.

mod common;

use std::time::Duration;

use common::*;
use skald_core_api::*;
use skald_host::*;

const SECS: Duration = Duration::from_secs(1);

#[tokio::test]
async fn history_pages_newest_first_without_gaps_or_doubles_and_ends_by_its_setting() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let mut ended = Vec::new();
    for i in 0..7 {
        let id = inbox.create_approval(&Actor::Owner, bash(&format!("c{i}"))).await.unwrap().request_id();
        inbox.answer(id, decide(Decision::Approved), &Actor::Owner).await.unwrap();
        ended.insert(0, id);
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = inbox.history(before, 3).await.unwrap();
        seen.extend(page.items.iter().map(|e| e.request_id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, ended);
    let mut events = f.host.events().subscribe();
    // Four days pass hour by hour; the clock never jumps.
    f.host.settings().update(SettingsUpdate { history_days: Some(3), ..Default::default() }).await.unwrap();
    let tidied = async {
        while !inbox.history(None, 10).await.unwrap().items.is_empty() {
            f.clock.advance(Duration::from_secs(1800));
            tokio::task::yield_now().await;
        }
    };
    soon(tidied).await;
    assert_eq!(soon(events.next()).await, Some(Event::Inbox));
    assert!(f.clock.now_ms() >= NOW + 3 * 86_400_000);
}

#[tokio::test]
async fn history_is_not_lost_to_a_clock_that_was_wrong_for_a_moment() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let id = inbox.create_approval(&Actor::Owner, bash("ls")).await.unwrap().request_id();
    inbox.answer(id, decide(Decision::Approved), &Actor::Owner).await.unwrap();
    f.clock.set_wall(NOW + 400 * 86_400_000);
    f.clock.advance(61 * SECS);
    // The round begins, and stopping waits for what it does.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    f.host.shutdown().await;
    f.clock.set_wall(NOW);
    let f = f.restart().await;
    assert_eq!(f.host.inbox().history(None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn notifications_are_numbered_without_reuse() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    let mut head = inbox.notification_head();
    assert_eq!(*head.borrow_and_update(), 0);
    let first = inbox.notify(&Actor::Owner, "Done", "all of it").await.unwrap();
    soon(head.changed()).await.unwrap();
    let second = inbox.notify(&Actor::Owner, "Done again", "").await.unwrap();
    assert_eq!(inbox.notifications_after(first.seq, 10).await.unwrap(), std::slice::from_ref(&second));
    assert_eq!(fields(inbox.notify(&Actor::Owner, "a\nb", "").await), ["title"]);
    let f = f.crash().await;
    assert_eq!(*f.host.inbox().notification_head().borrow(), second.seq);
}

#[tokio::test]
async fn an_overfull_inbox_says_so_and_keeps_what_it_has() {
    let f = Fixture::new().await;
    let inbox = f.host.inbox();
    for _ in 0..limits::PENDING {
        inbox.create_approval(&Actor::Owner, bash("ls")).await.unwrap();
    }
    let refused = inbox.create_approval(&Actor::Owner, bash("ls")).await;
    assert!(matches!(refused, Err(Error::Conflict(text)) if text.contains("1000")));
    assert_eq!(inbox.snapshot().await.unwrap().badge(), 1000);
}
