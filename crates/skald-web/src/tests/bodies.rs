use axum::body::Body;
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use super::{Ask, Home};
use crate::extract::MAX_BODY;
use crate::problem::{FieldError, Problem};

const APPROVALS: &str = "/api/v1/inbox/approvals";

#[tokio::test]
async fn what_is_not_json_is_told_apart() {
    let (home, token) = Home::with_token().await;
    let post = |body: &'static str, kind: &str| {
        Ask::new("POST", APPROVALS).token(&token).raw(body).header("content-type", kind)
    };
    let good = r#"{"tool_name":"t","summary":"s"}"#;
    for body in [
        "",
        "{",
        "nonsense",
        "{\"tool_name\":\"t\",\"summary\":\"s\"} {}",
        "{\"tool_name\":\"t\",}",
        "\u{feff}{}",
        "{'tool_name':1}",
    ] {
        assert_eq!(home.send(post(body, "application/json")).await.problem(400), "bad_json", "{body}");
    }
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""]
    {
        assert_eq!(home.send(post(good, kind)).await.problem(415), "not_json", "{kind}");
    }
    let bare = Ask::new("POST", APPROVALS).token(&token).raw(good);
    assert_eq!(home.send(bare).await.problem(415), "not_json");
    home.send(post(good, "Application/JSON; charset=utf-8")).await.expect(201);
}

#[tokio::test]
async fn wrong_fields_are_named_and_their_values_are_not_repeated() {
    let (home, token) = Home::with_token().await;
    for (body, field) in [
        (json!({"summary": "s"}), "tool_name"),
        (json!({"tool_name": "t", "summary": "s", "sumary": "hunter2"}), "sumary"),
        (json!({"tool_name": "t", "summary": {"hunter2": 1}}), "summary"),
        (json!({"tool_name": "t", "summary": "s", "expires_in": "hunter2"}), "expires_in"),
        (json!({"tool_name": "t", "summary": "s", "expires_in": -1}), "expires_in"),
        (json!({"tool_name": "t", "summary": "s", "expires_in": 0}), "expires_in"),
        (json!({"tool_name": "", "summary": "s"}), "tool_name"),
    ] {
        let answer = home.send(Ask::post(APPROVALS, &body).token(&token)).await;
        assert_eq!(answer.problem(422), "bad_fields", "{body}");
        let problem = answer.json();
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
    }
}

#[tokio::test]
async fn bodies_end_at_a_megabyte_whether_declared_or_not() {
    let (home, token) = Home::with_token().await;
    let big = "x".repeat(MAX_BODY + 1);
    let ask = || Ask::new("POST", APPROVALS).token(&token).header("content-type", "application/json");
    assert_eq!(home.send(ask().raw(big.clone())).await.problem(413), "too_large");
    let lying = ask().raw("{}").header("content-length", "99999999999");
    assert_eq!(home.send(lying).await.problem(413), "too_large");
    // In pieces, with no length declared.
    let pieces = (0..=16).map(|_| Ok::<_, std::io::Error>(vec![b' '; MAX_BODY / 16]));
    let (parts, _) = ask().into_request().into_parts();
    let request = http::Request::from_parts(parts, Body::from_stream(futures_util::stream::iter(pieces)));
    let response = home.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
    assert_eq!(response.status(), 413);
    // A body that breaks off.
    let pieces = [Ok(b"{\"tool".to_vec()), Err(std::io::Error::other("gone"))];
    let (parts, _) = ask().into_request().into_parts();
    let request = http::Request::from_parts(parts, Body::from_stream(futures_util::stream::iter(pieces)));
    let response = home.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
    assert_eq!(response.status(), 400);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_is_not_waited_for_for_ever() {
    let never = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let request = http::Request::new(Body::from_stream(never));
    let problem = crate::extract::read_body(request).await.unwrap_err();
    assert_eq!(problem.into_response().status(), 400);
}

#[tokio::test]
async fn deep_nesting_is_refused_and_never_overflows_the_stack() {
    let (home, token) = Home::with_token().await;
    let deep = format!(
        "{{\"tool_name\":\"t\",\"summary\":\"s\",\"arguments\":{}1{}}}",
        "[".repeat(9_000),
        "]".repeat(9_000)
    );
    let ask = Ask::new("POST", APPROVALS).token(&token).raw(deep).header("content-type", "application/json");
    let answer = home.send(ask).await;
    assert!(matches!(answer.status.as_u16(), 400 | 422), "{}", answer.status);
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_problems() {
    let (home, token) = Home::with_token().await;
    for path in [
        "/api",
        "/api/",
        "/api/v1",
        "/api/v1/inbox/",
        "/api/v1/inbox/nothing",
        "/api/v2/inbox",
        "/api/plugin",
        "/nothing.js",
    ] {
        assert_eq!(home.send(Ask::get(path).token(&token)).await.problem(404), "no_such_path", "{path}");
    }
    for (method, path) in
        [("PATCH", "/api/v1/inbox"), ("PUT", "/api/v1/session"), ("GET", "/api/v1/session/links")]
    {
        let answer = home.send(Ask::new(method, path).token(&token)).await;
        assert_eq!(answer.problem(405), "wrong_method", "{method} {path}");
        assert!(answer.headers.contains_key("allow"), "{method} {path}");
    }
    assert_eq!(home.send(Ask::new("POST", "/")).await.problem(405), "wrong_method");
}

#[tokio::test]
async fn queries_are_as_strict_as_bodies() {
    let (home, token) = Home::with_token().await;
    for query in
        ["limit=0", "limit=201", "limit=x", "limit=-1", "before=x", "page=1", "limit=1&limit=2", "limit="]
    {
        let answer = home.send(Ask::get(format!("/api/v1/inbox/history?{query}")).token(&token)).await;
        assert_eq!(answer.problem(422), "bad_fields", "{query}");
    }
    home.send(Ask::get("/api/v1/inbox/history?limit=200&before=5").token(&token)).await.expect(200);
}

/// What scripts match on and people read: a change here is a change of the API.
#[tokio::test]
async fn problems_keep_their_words() {
    let problems = [
        Problem::not_signed_in(),
        Problem::link_not_valid(),
        Problem::not_from_a_device(),
        Problem::foreign_origin(),
        Problem::wrong_host(),
        Problem::bad_host(),
        Problem::no_such_path(),
        Problem::not_found("There is no plugin of that name; list them with `skald plugins`."),
        Problem::wrong_method(),
        Problem::too_large(),
        Problem::not_json(),
        Problem::bad_json("The body is not JSON: look at line 1, column 2."),
        Problem::body_broke_off(),
        Problem::bad_fields(vec![
            FieldError { field: "a".into(), message: "`a` is missing.".into() },
            FieldError { field: "b.c".into(), message: "`b.c` must be a text.".into() },
        ]),
        Problem::bad_field("wait", "`wait` must be 0 to 60 seconds."),
        Problem::invalid("Send exactly one of `decision`, `answer` and `action`."),
        Problem::conflict("The name is taken."),
        Problem::late("Another answer came first and stands; this one was noted as late."),
        Problem::no_session(),
        Problem::too_many_attempts(42),
        Problem::internal(&"the cause stays in the log"),
        Problem::unavailable("no_page", "This build holds no page."),
    ];
    let mut text = String::new();
    for problem in problems {
        let response = problem.into_response();
        let mut headers: Vec<_> =
            response.headers().iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        headers.retain(|h| !h.starts_with("content-length"));
        headers.sort();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        text.push_str(&headers.join("\n"));
        // Named one by one: the order in which serde_json writes members depends on how it was built.
        for name in ["type", "title", "status", "detail"] {
            text.push_str(&format!("\n{name}: {}", body[name]));
        }
        for error in body["errors"].as_array().into_iter().flatten() {
            text.push_str(&format!("\nerror: {} {}", error["field"], error["message"]));
        }
        text.push_str("\n\n");
    }
    assert!(!text.contains("the cause stays"));
    insta::assert_snapshot!(text);
}
