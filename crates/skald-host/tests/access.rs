//! Sign-in links, sessions and API tokens.

mod common;

use std::time::Duration;

use common::*;
use skald_core_api::*;
use skald_host::*;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn a_link_signs_in_once_and_within_ten_minutes() {
    let f = Fixture::new().await;
    let access = f.host.access();
    let link = access.create_link().await.unwrap();
    assert_eq!(link.expires_at, NOW + 600_000);
    let (a, b) =
        tokio::join!(access.redeem_link(link.token.expose()), access.redeem_link(link.token.expose()));
    let mut sessions: Vec<NewSession> = [a, b].into_iter().filter_map(|r| r.unwrap()).collect();
    let session = sessions.pop().expect("one of the two signed in");
    assert!(sessions.is_empty(), "a link was used twice");
    let (principal, info) = access.by_cookie(session.cookie.expose()).await.unwrap().unwrap();
    assert_eq!((principal, info.id.as_str()), (Principal::Owner, session.id.as_str()));
    let late = access.create_link().await.unwrap();
    f.clock.advance(10 * MINUTE);
    assert!(access.redeem_link(late.token.expose()).await.unwrap().is_none());
    assert!(access.redeem_link("").await.unwrap().is_none());
}

#[tokio::test]
async fn a_link_does_not_outlive_a_clock_that_was_set_back() {
    let f = Fixture::new().await;
    let link = f.host.access().create_link().await.unwrap();
    f.clock.set_wall(NOW - 3_600_000);
    assert!(f.host.access().redeem_link(link.token.expose()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_session_lasts_while_it_is_used_and_ends_when_told() {
    let f = Fixture::new().await;
    let access = f.host.access().clone();
    let link = access.create_link().await.unwrap();
    let session = access.redeem_link(link.token.expose()).await.unwrap().unwrap();
    for _ in 0..3 {
        f.clock.advance(20 * DAY);
        assert!(access.by_cookie(session.cookie.expose()).await.unwrap().is_some());
    }
    assert_eq!(access.sessions().await.unwrap()[0].last_used, NOW + 60 * 86_400_000);
    let mut revocations = access.revocations();
    access.end_session(&session.id).await.unwrap();
    soon(revocations.changed()).await.unwrap();
    assert!(access.by_cookie(session.cookie.expose()).await.unwrap().is_none());
    assert!(matches!(access.end_session(&session.id).await, Err(Error::NotFound(_))));
    let link = access.create_link().await.unwrap();
    let unused = access.redeem_link(link.token.expose()).await.unwrap().unwrap();
    f.clock.advance(30 * DAY);
    assert!(access.by_cookie(unused.cookie.expose()).await.unwrap().is_none());
    assert!(access.sessions().await.unwrap().is_empty());
}

#[tokio::test]
async fn tokens_are_shown_once_named_once_and_revoked_at_once() {
    let f = Fixture::new().await;
    let access = f.host.access();
    let secret = access.create_token("claude").await.unwrap();
    assert!(matches!(access.create_token("claude").await, Err(Error::Conflict(_))));
    for bad in ["", "a b", "../x", "ü", ".hidden", &"x".repeat(65)] {
        assert_eq!(fields(access.create_token(bad).await), ["name"], "{bad}");
    }
    assert_eq!(access.tokens().await.unwrap()[0].last_used, None);
    assert_eq!(access.by_token(secret.expose()).await.unwrap(), Some(token("claude")));
    assert_eq!(access.tokens().await.unwrap()[0].last_used, Some(NOW));
    let other = secret.expose().to_uppercase();
    assert_eq!(access.by_token(&other).await.unwrap(), None);
    access.revoke_token("claude").await.unwrap();
    assert_eq!(access.by_token(secret.expose()).await.unwrap(), None);
    assert!(matches!(access.revoke_token("claude").await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn rotating_a_token_retires_the_secret_it_had() {
    let f = Fixture::new().await;
    let access = f.host.access();
    let first = access.rotate_token("cli").await.unwrap();
    let second = access.rotate_token("cli").await.unwrap();
    assert_eq!(access.by_token(first.expose()).await.unwrap(), None);
    assert_eq!(access.by_token(second.expose()).await.unwrap(), Some(token("cli")));
    assert_eq!(access.tokens().await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_hashes_reach_the_disk() {
    let f = Fixture::new().await;
    let access = f.host.access();
    let link = access.create_link().await.unwrap();
    let unused = access.create_link().await.unwrap();
    let session = access.redeem_link(link.token.expose()).await.unwrap().unwrap();
    let secret = access.create_token("s").await.unwrap();
    access.by_token(secret.expose()).await.unwrap();
    f.host.shutdown().await;
    for s in [&link.token, &unused.token, &session.cookie, &secret] {
        assert!(!on_disk(f.dir.path(), s.expose()));
    }
    let f = f.restart().await;
    assert_eq!(f.host.access().by_token(secret.expose()).await.unwrap(), Some(token("s")));
    assert!(f.host.access().by_cookie(session.cookie.expose()).await.unwrap().is_some());
}
