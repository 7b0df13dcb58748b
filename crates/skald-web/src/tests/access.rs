use serde_json::{Value, json};

use super::{Ask, Home};

/// Every operation that the description names, as a request that reaches it.
fn operations(document: &Value) -> Vec<(&'static str, String)> {
    let mut found = vec![];
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = path
            .replace("{id}", "1b4e28ba-2fa1-41d2-883f-0016d3cca427")
            .replace("{name}", "nobody")
            .replace("{key}", "abab");
        for method in ["get", "put", "post", "delete"] {
            if item.get(method).is_some() {
                let method = match method {
                    "get" => "GET",
                    "put" => "PUT",
                    "post" => "POST",
                    _ => "DELETE",
                };
                found.push((method, path.clone()));
            }
        }
    }
    assert!(found.len() > 25, "the description is empty: {found:?}");
    found
}

async fn description(home: &Home, token: &str) -> Value {
    home.send(Ask::get("/api/v1/openapi.json").token(token)).await.expect(200)
}

#[tokio::test]
async fn nothing_below_api_is_answered_without_a_principal() {
    let (home, token) = Home::with_token().await;
    for (method, path) in operations(&description(&home, &token).await) {
        if path == "/healthz" || (method == "POST" && path == "/api/v1/session") {
            continue;
        }
        let answer = home.send(Ask::new(method, &path).json(&json!({}))).await;
        assert_eq!(answer.problem(401), "not_signed_in", "{method} {path}");
        assert!(answer.headers.contains_key("www-authenticate"));
    }
    for path in ["/api", "/api/", "/api/v1/nothing", "/api/plugin/echo/", "/api/plugin"] {
        assert_eq!(home.send(Ask::get(path)).await.problem(401), "not_signed_in", "{path}");
    }
    home.send(Ask::get("/healthz")).await.expect(200);
}

#[tokio::test]
async fn a_device_may_read_and_answer_and_nothing_else() {
    let (home, token) = Home::with_token().await;
    home.host.plugins().update("echo", Some(true), None).await.unwrap();
    let allowed = [
        ("GET", "/healthz"),
        ("GET", "/api/v1/openapi.json"),
        ("GET", "/api/v1/session"),
        ("GET", "/api/v1/inbox"),
        ("GET", "/api/v1/inbox/history"),
        ("GET", "/api/v1/inbox/requests/1b4e28ba-2fa1-41d2-883f-0016d3cca427"),
        ("POST", "/api/v1/inbox/requests/1b4e28ba-2fa1-41d2-883f-0016d3cca427/answer"),
        ("GET", "/api/v1/rules/bypasses"),
        ("GET", "/api/v1/plugins"),
        ("GET", "/api/v1/plugins/1b4e28ba-2fa1-41d2-883f-0016d3cca427"),
        ("GET", "/api/v1/settings"),
        ("GET", "/api/plugin/echo/things/abab"),
    ];
    for (method, path) in operations(&description(&home, &token).await) {
        if path == "/api/v1/events" {
            continue;
        }
        let answer =
            home.send(Ask::new(method, &path).json(&json!({"decision": "approved"})).by_device()).await;
        if allowed.contains(&(method, path.as_str())) {
            assert_ne!(answer.status, 403, "{method} {path}");
            assert_ne!(answer.status, 401, "{method} {path}");
        } else {
            assert_eq!(answer.problem(403), "not_from_a_device", "{method} {path}");
        }
    }
    let who = home.send(Ask::get("/api/v1/session").by_device()).await.expect(200);
    assert_eq!(who["principal"], json!({"kind": "device", "name": "Phone", "key": "ab".repeat(32)}));
    assert_eq!(who["permissions"], json!(["read", "answer"]));
}

#[tokio::test]
async fn what_a_device_sends_along_makes_it_no_more_than_a_device() {
    let (home, token) = Home::with_token().await;
    let cookie = home.cookie().await;
    let ask = Ask::post("/api/v1/tokens", &json!({"name": "mine"})).by_device().token(&token).cookie(&cookie);
    assert_eq!(home.send(ask).await.problem(403), "not_from_a_device");
    let link = home.host.access().create_link().await.unwrap();
    let ask = Ask::post("/api/v1/session", &json!({"token": link.token.expose()})).by_device();
    assert_eq!(home.send(ask).await.problem(403), "not_from_a_device");
    assert!(
        home.host.access().redeem_link(link.token.expose()).await.unwrap().is_some(),
        "the link is still good"
    );
}

#[tokio::test]
async fn a_link_signs_in_once_and_the_session_ends_when_told() {
    let (home, token) = Home::with_token().await;
    let link = home.send(Ask::new("POST", "/api/v1/session/links").token(&token)).await.expect(200);
    let url = link["url"].as_str().unwrap();
    let secret = url.strip_prefix("http://127.0.0.1:8787/#signin=").unwrap().to_owned();
    assert!(link["expires_at"].as_i64().unwrap() > 0);

    let sign_in = Ask::post("/api/v1/session", &json!({"token": secret})).own();
    let answer = home.send(sign_in.clone()).await;
    answer.expect(204);
    let set = answer.headers["set-cookie"].to_str().unwrap();
    let (cookie, flags) = set.split_once("; ").unwrap();
    for flag in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(flags.contains(flag), "{flags}");
    }
    assert!(!flags.contains("Secure"), "plain http would lose the cookie");
    assert_eq!(home.send(sign_in).await.problem(401), "link_not_valid");

    let who = home.send(Ask::get("/api/v1/session").cookie(cookie)).await.expect(200);
    assert_eq!(who["principal"], json!({"kind": "owner"}));
    assert_eq!(who["permissions"], json!(["read", "answer", "ask", "administer"]));
    assert_eq!(who["version"], env!("CARGO_PKG_VERSION"));

    let other = home.cookie().await;
    let sessions = home.send(Ask::get("/api/v1/sessions").cookie(cookie)).await.expect(200);
    let current: Vec<_> =
        sessions.as_array().unwrap().iter().map(|s| s["current"].as_bool().unwrap()).collect();
    assert_eq!(current.iter().filter(|c| **c).count(), 1);
    assert_eq!(current.len(), 2);
    let id = sessions.as_array().unwrap().iter().find(|s| s["current"] == false).unwrap()["id"].to_string();
    let place = format!("/api/v1/sessions/{}", id.trim_matches('"'));
    home.send(Ask::new("DELETE", &place).cookie(cookie).own()).await.expect(204);
    assert_eq!(home.send(Ask::new("DELETE", &place).cookie(cookie).own()).await.problem(404), "not_found");
    assert_eq!(home.send(Ask::get("/api/v1/inbox").cookie(&other)).await.problem(401), "not_signed_in");

    let out = home.send(Ask::new("DELETE", "/api/v1/session").cookie(cookie).own()).await;
    out.expect(204);
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(home.send(Ask::get("/api/v1/session").cookie(cookie)).await.problem(401), "not_signed_in");
    let ask = Ask::new("DELETE", "/api/v1/session").token(&token);
    assert_eq!(home.send(ask).await.problem(409), "no_session");
}

#[tokio::test]
async fn a_cookie_behind_a_proxy_with_tls_is_for_tls_alone() {
    let home = Home::with_names(&["skald.example.org"]).await;
    let link = home.host.access().create_link().await.unwrap();
    let ask = Ask::post("/api/v1/session", &json!({"token": link.token.expose()}))
        .host(Some("skald.example.org"))
        .header("origin", "https://skald.example.org");
    let answer = home.send(ask).await;
    answer.expect(204);
    assert!(answer.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"));
}

#[tokio::test]
async fn failed_sign_ins_are_slowed_down_and_good_tokens_are_not() {
    let (home, token) = Home::with_token().await;
    let wrong = Ask::post("/api/v1/session", &json!({"token": "0".repeat(64)})).own();
    for _ in 0..10 {
        assert_eq!(home.send(wrong.clone()).await.problem(401), "link_not_valid");
    }
    let answer = home.send(wrong).await;
    assert_eq!(answer.problem(429), "too_many_attempts");
    let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    home.send(Ask::get("/api/v1/inbox").token(&token)).await.expect(200);
}

#[tokio::test]
async fn tokens_are_shown_once_named_uniquely_and_end_at_once() {
    let (home, token) = Home::with_token().await;
    let made =
        home.send(Ask::post("/api/v1/tokens", &json!({"name": "build"})).token(&token)).await.expect(201);
    let fresh = made["token"].as_str().unwrap();
    let who = home.send(Ask::get("/api/v1/session").token(fresh)).await.expect(200);
    assert_eq!(who["principal"], json!({"kind": "token", "name": "build"}));
    let again = home.send(Ask::post("/api/v1/tokens", &json!({"name": "build"})).token(&token)).await;
    assert_eq!(again.problem(409), "conflict");
    let listed = home.send(Ask::get("/api/v1/tokens").token(&token)).await;
    let names: Vec<_> =
        listed.expect(200).as_array().unwrap().iter().map(|t| t["name"].to_string()).collect();
    assert_eq!(names, [r#""build""#, r#""script""#]);
    assert!(!String::from_utf8_lossy(&listed.body).contains(fresh));
    home.send(Ask::new("DELETE", "/api/v1/tokens/build").token(&token)).await.expect(204);
    assert_eq!(
        home.send(Ask::new("DELETE", "/api/v1/tokens/build").token(&token)).await.problem(404),
        "not_found"
    );
    assert_eq!(home.send(Ask::get("/api/v1/inbox").token(fresh)).await.problem(401), "not_signed_in");
}

#[tokio::test]
async fn a_wrong_credential_is_never_rescued_by_a_right_one() {
    let home = Home::open().await;
    let cookie = home.cookie().await;
    for wrong in ["Bearer nonsense", "Bearer", "Basic YTpi", "Bearer \t", ""] {
        let ask = Ask::get("/api/v1/inbox").header("authorization", wrong).cookie(&cookie);
        assert_eq!(home.send(ask).await.problem(401), "not_signed_in", "{wrong:?}");
    }
    for wrong in ["skald_session=", "skald_session=x", "other=1", "skald_session"] {
        let ask = Ask::get("/api/v1/inbox").cookie(wrong);
        assert_eq!(home.send(ask).await.problem(401), "not_signed_in", "{wrong:?}");
    }
    let ask = Ask::get("/api/v1/inbox").cookie(&format!("theme=dark; {cookie}; x=y"));
    home.send(ask).await.expect(200);
}
