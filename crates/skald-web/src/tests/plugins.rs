use serde_json::{Value, json};

use super::{Ask, Home};
use crate::extract::MAX_BODY;

#[tokio::test]
async fn plugins_are_listed_switched_and_configured() {
    let (home, token) = Home::with_token().await;
    let listed = home.send(Ask::get("/api/v1/plugins").token(&token)).await.expect(200);
    assert_eq!((&listed[0]["id"], &listed[0]["enabled"]), (&json!("echo"), &json!(false)));
    assert_eq!(listed[0]["status"]["state"], "disabled");
    assert_eq!(listed[0]["config"]["greeting"], "hello");
    assert!(listed[0]["schema"]["properties"]["greeting"].is_object());
    let put = |body: Value| Ask::new("PUT", "/api/v1/plugins/echo").json(&body).token(&token);
    let on = home.send(put(json!({"enabled": true}))).await.expect(200);
    assert_eq!(on["status"]["state"], "running");
    let one = home.send(Ask::get("/api/v1/plugins/echo").token(&token)).await.expect(200);
    assert_eq!(one["enabled"], true);

    for (body, field) in [
        (json!({"config": {"times": "often"}}), "times"),
        (json!({"config": {"times": 0}}), "times"),
        (json!({"config": {"greting": "x"}}), "greting"),
    ] {
        let answer = home.send(put(body.clone())).await;
        answer.problem(422);
        assert!(answer.json()["errors"][0]["field"].as_str().unwrap().contains(field), "{body}");
    }
    assert_eq!(home.send(put(json!({"enable": true}))).await.problem(422), "bad_fields");
    let failed = home.send(put(json!({"config": {"greeting": "fail"}}))).await.expect(200);
    assert_eq!(failed["status"]["state"], "failed");
    assert!(failed["status"]["message"].as_str().unwrap().contains("told to fail"));
    for ask in [
        Ask::get("/api/v1/plugins/none"),
        Ask::new("PUT", "/api/v1/plugins/none").json(&json!({"enabled": true})),
    ] {
        assert_eq!(home.send(ask.token(&token)).await.problem(404), "not_found");
    }
}

#[tokio::test]
async fn a_plugins_routes_get_the_request_as_it_was_made() {
    let (home, token) = Home::with_token().await;
    home.host.plugins().update("echo", Some(true), None).await.unwrap();
    let ask = Ask::new("PUT", "/api/plugin/echo/a%2Fb/c%20d/?x=1%202&y=").raw("raw").token(&token);
    let answer = home.send(ask).await;
    let told = answer.expect(200);
    assert_eq!(told["method"], "PUT");
    assert_eq!(told["path"], json!(["a/b", "c d", ""]));
    assert_eq!(told["query"], json!({"x": "1 2", "y": ""}));
    assert_eq!(told["body"], "raw");
    assert_eq!(told["by"], "token:script");
    assert_eq!(answer.headers["cache-control"], "no-store");
    let told = home.send(Ask::get("/api/plugin/echo/x").by_device()).await.expect(200);
    assert_eq!(told["by"], "device:Phone");
}

#[tokio::test]
async fn what_a_plugin_cannot_answer_is_a_problem() {
    let (home, token) = Home::with_token().await;
    let get = |path: &str| Ask::get(path).token(&token);
    assert_eq!(home.send(get("/api/plugin/echo/x")).await.problem(503), "plugin_not_running");
    assert_eq!(home.send(get("/api/plugin/none/x")).await.problem(404), "not_found");
    home.host.plugins().update("echo", Some(true), None).await.unwrap();
    assert_eq!(home.send(get("/api/plugin/echo/odd")).await.problem(500), "internal");
    assert_eq!(home.send(get("/api/plugin/echo/boom")).await.status, 500);
    assert_eq!(home.send(get("/api/plugin/echo/%ff")).await.problem(404), "no_such_path");
    assert_eq!(home.send(get("/api/plugin/echo/x?a=1&a=2")).await.problem(422), "bad_fields");
    let big = Ask::new("POST", "/api/plugin/echo/x").raw("x".repeat(MAX_BODY + 1)).token(&token);
    assert_eq!(home.send(big).await.problem(413), "too_large");
}

#[tokio::test]
async fn a_forged_change_never_reaches_a_plugin() {
    let home = Home::open().await;
    home.host.plugins().update("echo", Some(true), None).await.unwrap();
    let cookie = home.cookie().await;
    let ask = Ask::new("POST", "/api/plugin/echo/x").cookie(&cookie);
    assert_eq!(home.send(ask.clone()).await.problem(403), "foreign_origin");
    home.send(ask.own()).await.expect(200);
}
