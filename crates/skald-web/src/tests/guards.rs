use serde_json::json;

use super::{Ask, HERE, Home};
use crate::AllowedHost;

#[tokio::test]
async fn a_rebound_name_is_refused_even_for_pages_and_with_a_good_session() {
    let (home, token) = Home::with_token().await;
    let cookie = home.cookie().await;
    for host in [
        "evil.example",
        "evil.example:8787",
        "127.0.0.1.evil.example:8787",
        "localhost.evil.example:8787",
        "127.0.0.1:8788",
        "127.0.0.1",
        "127.0.0.2:8787",
        "localhost",
        "0.0.0.0:8787",
        "[::2]:8787",
    ] {
        for ask in [
            Ask::get("/"),
            Ask::get("/healthz"),
            Ask::get("/api/v1/inbox").token(&token),
            Ask::get("/api/v1/inbox").cookie(&cookie),
        ] {
            assert_eq!(home.send(ask.host(Some(host))).await.problem(421), "wrong_host", "{host}");
        }
    }
}

#[tokio::test]
async fn an_unreadable_host_is_refused() {
    let home = Home::open().await;
    for host in [None, Some(""), Some("user@127.0.0.1:8787"), Some("127.0.0.1:8787/x"), Some("a b")] {
        assert_eq!(home.send(Ask::get("/healthz").host(host)).await.problem(400), "bad_host", "{host:?}");
    }
    let twice = Ask::get("/healthz").header("host", HERE);
    assert_eq!(home.send(twice).await.problem(400), "bad_host");
    // The request line may name the server too, but no other.
    home.send(Ask::get(format!("http://{HERE}/healthz"))).await.expect(200);
    assert_eq!(home.send(Ask::get("http://evil.example/healthz")).await.problem(400), "bad_host");
}

#[tokio::test]
async fn the_own_address_and_the_loopback_names_are_let_in() {
    let home = Home::open().await;
    for host in [HERE, "localhost:8787", "LOCALHOST:8787", "[::1]:8787"] {
        home.send(Ask::get("/healthz").host(Some(host))).await.expect(200);
    }
}

#[tokio::test]
async fn a_configured_name_is_let_in_with_its_port_or_any() {
    let home = Home::with_names(&["skald.example.org", "other.example.org:8443"]).await;
    for host in ["skald.example.org", "Skald.Example.org", "skald.example.org:444", "other.example.org:8443"]
    {
        home.send(Ask::get("/healthz").host(Some(host))).await.expect(200);
    }
    for host in ["other.example.org", "other.example.org:1", "x.skald.example.org"] {
        assert_eq!(home.send(Ask::get("/healthz").host(Some(host))).await.problem(421), "wrong_host");
    }
    let cookie = home.cookie().await;
    let ask = Ask::new("POST", "/api/v1/session/links").cookie(&cookie).host(Some("skald.example.org"));
    home.send(ask.clone().header("origin", "https://skald.example.org")).await.expect(200);
    assert_eq!(home.send(ask.header("origin", "https://evil.example")).await.problem(403), "foreign_origin");
}

#[test]
fn only_names_can_be_allowed() {
    for name in ["", "*", "*.example.org", "http://a", "a/b", "u@a", "a:", "a:b", "a:99999"] {
        assert!(name.parse::<AllowedHost>().is_err(), "{name}");
    }
    for name in ["a", "a.example:80", "[::1]:80", "192.168.1.5"] {
        assert!(name.parse::<AllowedHost>().is_ok(), "{name}");
    }
}

#[tokio::test]
async fn a_change_by_cookie_must_prove_that_it_comes_from_our_own_page() {
    let home = Home::open().await;
    let cookie = home.cookie().await;
    let change = || Ask::post("/api/v1/notifications", &json!({"title": "t"})).cookie(&cookie);
    for foreign in [
        change(),
        change().header("origin", "http://evil.example"),
        change().header("origin", "null"),
        change().header("origin", "http://127.0.0.1:9999"),
        change().header("origin", "https://127.0.0.1:8787"),
        // The name is one of ours, but the page is not the one that this request is for.
        change().header("origin", "http://localhost:8787"),
        change().own().header("origin", "http://evil.example"),
        change().header("sec-fetch-site", "cross-site"),
        change().header("sec-fetch-site", "same-site"),
        change().header("sec-fetch-site", "none"),
        change().own().header("sec-fetch-site", "cross-site"),
        change().header("origin", "null").header("sec-fetch-site", "cross-site"),
        change().header("origin", "http://evil.example").header("sec-fetch-site", "same-origin"),
    ] {
        assert_eq!(home.send(foreign).await.problem(403), "foreign_origin");
    }
    home.send(change().own()).await.expect(201);
    home.send(change().header("sec-fetch-site", "same-origin")).await.expect(201);
    home.send(change().own().header("sec-fetch-site", "same-origin")).await.expect(201);
    home.send(change().header("origin", "null").header("sec-fetch-site", "same-origin")).await.expect(201);
}

#[tokio::test]
async fn another_sites_page_reads_nothing_and_never_gets_leave_to() {
    let (home, token) = Home::with_token().await;
    let cookie = home.cookie().await;
    let read = Ask::get("/api/v1/inbox").cookie(&cookie);
    assert_eq!(
        home.send(read.clone().header("sec-fetch-site", "cross-site")).await.problem(403),
        "foreign_origin"
    );
    assert_eq!(home.send(read.header("origin", "http://evil.example")).await.problem(403), "foreign_origin");
    let preflight = Ask::new("OPTIONS", "/api/v1/inbox")
        .header("origin", "http://evil.example")
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", "authorization");
    let with_token = Ask::get("/api/v1/inbox").token(&token).header("origin", "http://evil.example");
    for ask in [preflight.clone(), preflight.token(&token), with_token] {
        let answer = home.send(ask).await;
        assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")));
    }
}

#[tokio::test]
async fn a_token_needs_no_origin() {
    let (home, token) = Home::with_token().await;
    home.send(Ask::post("/api/v1/notifications", &json!({"title": "t"})).token(&token)).await.expect(201);
}

#[tokio::test]
async fn signing_in_from_another_sites_page_is_refused() {
    let home = Home::open().await;
    let ask = Ask::post("/api/v1/session", &json!({"token": "x"}));
    for foreign in [
        ask.clone().header("origin", "http://evil.example"),
        ask.clone().header("sec-fetch-site", "cross-site"),
    ] {
        assert_eq!(home.send(foreign).await.problem(403), "foreign_origin");
    }
    assert_eq!(home.send(ask).await.problem(401), "link_not_valid");
}

#[tokio::test]
async fn a_devices_own_loopback_listener_is_let_in_and_only_for_its_own_page() {
    let home = Home::open().await;
    for host in ["127.0.0.1:50001", "localhost:1", "localhost", "[::1]:50001", "127.9.9.9:80"] {
        home.send(Ask::get("/api/v1/inbox").by_device().host(Some(host))).await.expect(200);
        let origin = format!("http://{host}");
        home.send(Ask::get("/api/v1/inbox").by_device().host(Some(host)).header("origin", &origin))
            .await
            .expect(200);
    }
    for host in ["evil.example:50001", "192.168.1.5:50001", "localhost.evil.example"] {
        assert_eq!(
            home.send(Ask::get("/api/v1/inbox").by_device().host(Some(host))).await.problem(421),
            "wrong_host"
        );
    }
    let answer = |ask: Ask| ask.json(&json!({"decision": "approved"})).by_device();
    let path = "/api/v1/inbox/requests/1b4e28ba-2fa1-41d2-883f-0016d3cca427/answer";
    for origin in ["http://evil.example", "null", "http://127.0.0.1:50002", "https://127.0.0.1:50001"] {
        let ask = answer(Ask::new("POST", path)).header("origin", origin);
        assert_eq!(home.send(ask).await.problem(403), "foreign_origin", "{origin}");
    }
    let ask = answer(Ask::new("POST", path)).header("origin", "http://127.0.0.1:50001");
    assert_eq!(home.send(ask).await.problem(404), "not_found");
    let ask = Ask::get("/api/v1/inbox").by_device().header("sec-fetch-site", "cross-site");
    assert_eq!(home.send(ask).await.problem(403), "foreign_origin");
}

#[tokio::test]
async fn a_devices_listener_is_a_stranger_on_the_network() {
    let (home, token) = Home::with_token().await;
    let ask = Ask::get("/api/v1/inbox").token(&token).host(Some("127.0.0.1:50001"));
    assert_eq!(home.send(ask).await.problem(421), "wrong_host");
}

#[tokio::test]
async fn every_answer_bears_the_headers_that_keep_it_safe() {
    let (home, token) = Home::with_token().await;
    for (ask, api) in [
        (Ask::get("/"), false),
        (Ask::get("/nothing.js"), false),
        (Ask::get("/api/v1/inbox"), true),
        (Ask::get("/api/v1/inbox").token(&token), true),
        (Ask::get("/api/v1/nothing").token(&token), true),
        (Ask::get("/").host(Some("evil.example")), false),
    ] {
        let answer = home.send(ask).await;
        let text = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        assert_eq!(text("x-content-type-options"), "nosniff");
        assert_eq!(text("referrer-policy"), "no-referrer");
        let policy = text("content-security-policy");
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        if api {
            assert_eq!(text("cache-control"), "no-store");
        }
    }
}

#[tokio::test]
async fn a_page_that_has_not_changed_keeps_the_policy_it_came_with() {
    let (home, _token) = Home::with_token().await;
    let page = home.send(Ask::get("/")).await;
    let Some(tag) = page.headers.get("etag").and_then(|tag| tag.to_str().ok()) else {
        // This build has no page.
        return;
    };
    let again = home.send(Ask::get("/").header("if-none-match", tag)).await;
    assert_eq!(again.status, 304);
    // A browser lays these headers over the ones it has: another policy here would forbid the page its own scripts.
    assert!(!again.headers.contains_key("content-security-policy"));
}
