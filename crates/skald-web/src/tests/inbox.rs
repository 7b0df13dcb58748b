use serde_json::{Value, json};

use super::{Ask, Home};

async fn create(home: &Home, token: &str, kind: &str, body: Value) -> String {
    let answer = home.send(Ask::post(format!("/api/v1/inbox/{kind}"), &body).token(token)).await;
    let created = answer.expect(201);
    assert_eq!(created["state"], "pending");
    assert!(created["expires_at"].as_i64().unwrap() > 0);
    let id = created["request_id"].as_str().unwrap().to_owned();
    assert_eq!(answer.headers["location"], format!("/api/v1/inbox/requests/{id}"));
    id
}

fn place(id: &str) -> String {
    format!("/api/v1/inbox/requests/{id}")
}

async fn answer(home: &Home, token: &str, id: &str, body: Value) -> super::Answer {
    home.send(Ask::post(format!("{}/answer", place(id)), &body).token(token)).await
}

async fn status(home: &Home, token: &str, id: &str) -> Value {
    home.send(Ask::get(place(id)).token(token)).await.expect(200)
}

#[tokio::test]
async fn an_approval_is_asked_shown_decided_and_remembered() {
    let (home, token) = Home::with_token().await;
    let body = json!({
        "tool_name": "shell", "summary": "Remove the cache", "arguments": {"a": [1, "x"]}, "detail": "All of it.",
        "blocks": {"v": 1, "summary": "Remove", "blocks": []}, "agent_label": "builder", "session": "s1", "expires_in": 60,
    });
    let id = create(&home, &token, "approvals", body).await;
    let inbox = home.send(Ask::get("/api/v1/inbox").token(&token)).await.expect(200);
    assert_eq!(inbox["badge"], 1);
    assert!(inbox["revision"].is_u64());
    assert_eq!(inbox["approvals"][0]["request_id"], id);
    assert_eq!(inbox["approvals"][0]["arguments"], json!({"a": [1, "x"]}));
    assert_eq!((inbox["clarifications"].clone(), inbox["elicitations"].clone()), (json!([]), json!([])));
    assert_eq!(status(&home, &token, &id).await["state"], "pending");

    let cookie = home.cookie().await;
    let decide =
        Ask::post(format!("{}/answer", place(&id)), &json!({"decision": "rejected", "reason": "not today"}));
    let told = home.send(decide.cookie(&cookie).own()).await.expect(200);
    assert_eq!(told["state"], "resolved");
    assert_eq!(told["outcome"], json!({"decision": "rejected", "reason": "not today"}));
    let now = status(&home, &token, &id).await;
    assert_eq!(now["outcome"], json!({"decision": "rejected", "reason": "not today"}));
    assert_eq!(now["resolved_by"], "web");

    let late = answer(&home, &token, &id, json!({"decision": "approved"})).await;
    assert_eq!(late.problem(409), "late");
    let late = late.json();
    assert_eq!(late["state"], "resolved");
    assert_eq!(late["outcome"]["decision"], "rejected");
    assert_eq!(late["resolved_by"], "web");
    assert_eq!(status(&home, &token, &id).await["late_answers"][0]["outcome"]["decision"], "approved");

    let history = home.send(Ask::get("/api/v1/inbox/history?limit=1").token(&token)).await.expect(200);
    assert_eq!(history["items"][0]["request_id"], id);
    assert_eq!(history["items"][0]["item"]["summary"], "Remove the cache");
    let record = home.send(Ask::get("/api/v1/audit?limit=50").token(&token)).await.expect(200);
    assert!(record["items"].as_array().unwrap().iter().any(|e| e["request_id"] == id.as_str()));
}

/// fault 23: a second answer wins over the first.
#[tokio::test]
async fn fault_23_a_second_answer_never_wins_over_the_first() {
    let (home, token) = Home::with_token().await;
    let id = create(&home, &token, "approvals", json!({"tool_name": "t", "summary": "s"})).await;
    let (a, b) = tokio::join!(
        answer(&home, &token, &id, json!({"decision": "approved"})),
        answer(&home, &token, &id, json!({"decision": "rejected"})),
    );
    let mut statuses = [a.status.as_u16(), b.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let (won, lost) = if a.status == 200 { (a.json(), b.json()) } else { (b.json(), a.json()) };
    assert_eq!(won["outcome"]["decision"], lost["outcome"]["decision"]);
    let inbox = home.send(Ask::get("/api/v1/inbox").token(&token)).await.expect(200);
    assert_eq!(inbox["badge"], 0);
}

/// fault 25: a long command is cut in the middle of the card that asks for approval.
#[tokio::test]
async fn fault_25_a_long_command_comes_back_whole() {
    let (home, token) = Home::with_token().await;
    let command = format!("echo {}", "x".repeat(100_000));
    let blocks = json!({"v": 1, "summary": "Run", "blocks": [
        {"type": "block", "label": "Command", "value": command, "value_type": "command"}]});
    let body =
        json!({"tool_name": "t", "summary": "Run", "blocks": blocks, "arguments": {"command": command}});
    create(&home, &token, "approvals", body).await;
    let inbox = home.send(Ask::get("/api/v1/inbox").token(&token)).await.expect(200);
    assert_eq!(inbox["approvals"][0]["blocks"], blocks);
    assert_eq!(inbox["approvals"][0]["arguments"]["command"], command);
}

#[tokio::test]
async fn a_question_is_answered_in_words() {
    let (home, token) = Home::with_token().await;
    let body = json!({"question": "Which?", "context": "Two there are.", "suggested_answers": ["a", "b"]});
    let id = create(&home, &token, "clarifications", body).await;
    answer(&home, &token, &id, json!({"answer": "the other"})).await.expect(200);
    assert_eq!(status(&home, &token, &id).await["outcome"], json!({"answer": "the other"}));
}

#[tokio::test]
async fn an_elicited_value_goes_once_to_the_token_that_asked_and_to_no_one_else() {
    let (home, token) = Home::with_token().await;
    let other = home.token("other").await;
    let body =
        json!({"server_name": "vault", "message": "Password?", "field_name": "password", "sensitive": true});
    let id = create(&home, &token, "elicitations", body).await;
    let given =
        answer(&home, &other, &id, json!({"action": "accept", "content": {"password": "geheim-7"}})).await;
    given.expect(200);
    assert!(!String::from_utf8_lossy(&given.body).contains("geheim-7"), "the answer is not repeated");
    let theirs = status(&home, &other, &id).await;
    assert!(!theirs.to_string().contains("geheim-7"));
    assert_eq!(theirs["outcome"]["action"], "accept");
    let first = status(&home, &token, &id).await;
    assert_eq!(first["outcome"]["content"], json!({"password": "geheim-7"}));
    let second = status(&home, &token, &id).await;
    assert_eq!(second["outcome"]["content_gone"], true);
    assert_eq!(second["content_gone"], true);
    for path in ["/api/v1/inbox/history", "/api/v1/inbox", "/api/v1/audit"] {
        let answer = home.send(Ask::get(path).token(&token)).await;
        assert!(!String::from_utf8_lossy(&answer.body).contains("geheim-7"), "{path}");
    }
}

#[tokio::test]
async fn an_answer_must_be_one_and_of_the_items_kind() {
    let (home, token) = Home::with_token().await;
    let id = create(&home, &token, "approvals", json!({"tool_name": "t", "summary": "s"})).await;
    for (body, word) in [
        (json!({}), "invalid"),
        (json!({"decision": "approved", "answer": "x"}), "invalid"),
        (json!({"decision": "maybe"}), "bad_fields"),
        (json!({"decision": "approved", "content": {}}), "bad_fields"),
        (json!({"reason": "why"}), "bad_fields"),
        (json!({"answer": "x", "reason": "why"}), "bad_fields"),
        (json!({"answer": "x", "content": {}}), "bad_fields"),
        (json!({"action": "accept", "bypass_secs": 0}), "bad_fields"),
        (json!({"decision": "approved", "sure": true}), "bad_fields"),
        (json!({"answer": "x"}), "invalid"),
        (json!({"action": "decline"}), "invalid"),
    ] {
        assert_eq!(answer(&home, &token, &id, body.clone()).await.problem(422), word, "{body}");
    }
    assert_eq!(status(&home, &token, &id).await["state"], "pending", "nothing of that was an answer");
    let nobody = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
    assert_eq!(answer(&home, &token, nobody, json!({"answer": "x"})).await.problem(404), "not_found");
    assert_eq!(answer(&home, &token, "not-a-uuid", json!({"answer": "x"})).await.problem(404), "not_found");
}

#[tokio::test]
async fn the_same_key_names_the_same_item() {
    let (home, token) = Home::with_token().await;
    let body = json!({"question": "Which?", "idempotency_key": "k1"});
    let id = create(&home, &token, "clarifications", body.clone()).await;
    let again = home.send(Ask::post("/api/v1/inbox/clarifications", &body).token(&token)).await.expect(200);
    assert_eq!((&again["request_id"], &again["state"]), (&json!(id), &json!("pending")));
    answer(&home, &token, &id, json!({"answer": "x"})).await.expect(200);
    let again = home.send(Ask::post("/api/v1/inbox/clarifications", &body).token(&token)).await.expect(200);
    assert_eq!((&again["request_id"], &again["state"]), (&json!(id), &json!("resolved")));
}

#[tokio::test]
async fn a_bypass_decides_at_once_until_it_is_ended() {
    let (home, token) = Home::with_token().await;
    let ask = json!({"tool_name": "lint", "summary": "s"});
    let id = create(&home, &token, "approvals", ask.clone()).await;
    answer(&home, &token, &id, json!({"decision": "approved", "bypass_secs": 900})).await.expect(200);
    let decided = home.send(Ask::post("/api/v1/inbox/approvals", &ask).token(&token)).await.expect(200);
    assert_eq!((&decided["state"], &decided["decision"]), (&json!("resolved"), &json!("approved")));
    assert!(decided["resolved_by"].as_str().unwrap().starts_with("rule:"));
    let bypasses = home.send(Ask::get("/api/v1/rules/bypasses").token(&token)).await.expect(200);
    let rule = &bypasses[0];
    assert_eq!((&rule["tool_name"], &rule["uses"]), (&json!("lint"), &json!(1)));
    let place = format!("/api/v1/rules/bypasses/{}", rule["id"]);
    home.send(Ask::new("DELETE", &place).token(&token)).await.expect(204);
    assert_eq!(home.send(Ask::new("DELETE", &place).token(&token)).await.problem(404), "not_found");
    assert_eq!(
        home.send(Ask::new("DELETE", "/api/v1/rules/bypasses/x").token(&token)).await.problem(404),
        "not_found"
    );
    create(&home, &token, "approvals", ask).await;
}

#[tokio::test]
async fn a_source_withdraws_its_own_question_and_no_other() {
    let (home, token) = Home::with_token().await;
    let other = home.token("other").await;
    let id = create(&home, &token, "clarifications", json!({"question": "q"})).await;
    assert_eq!(home.send(Ask::new("DELETE", place(&id)).token(&other)).await.problem(404), "not_found");
    home.send(Ask::new("DELETE", place(&id)).token(&token)).await.expect(204);
    assert_eq!(status(&home, &token, &id).await["state"], "cancelled");
    let late = answer(&home, &token, &id, json!({"answer": "x"})).await;
    assert_eq!(late.problem(409), "late");
    assert_eq!((&late.json()["state"], late.json().get("outcome")), (&json!("cancelled"), None));
    let id = create(&home, &token, "clarifications", json!({"question": "q"})).await;
    answer(&home, &token, &id, json!({"answer": "x"})).await.expect(200);
    assert_eq!(home.send(Ask::new("DELETE", place(&id)).token(&token)).await.problem(409), "conflict");
}

#[tokio::test]
async fn a_long_poll_ends_with_the_answer_and_at_once_when_the_server_stops() {
    let (home, token) = Home::with_token().await;
    let id = create(&home, &token, "clarifications", json!({"question": "q"})).await;
    let waiting = home.send(Ask::get(format!("{}?wait=60", place(&id))).token(&token));
    let answering = async {
        answer(&home, &token, &id, json!({"answer": "x"})).await.expect(200);
    };
    let (told, ()) = tokio::join!(waiting, answering);
    assert_eq!(told.expect(200)["outcome"]["answer"], "x");

    let id = create(&home, &token, "clarifications", json!({"question": "q"})).await;
    let waiting = home.send(Ask::get(format!("{}?wait=60", place(&id))).token(&token));
    let stopping = async { home.stop.cancel() };
    let (told, ()) = tokio::join!(waiting, stopping);
    assert_eq!(told.expect(200)["state"], "pending");
}

#[tokio::test]
async fn a_long_poll_ends_when_its_token_is_revoked() {
    let (home, token) = Home::with_token().await;
    let id = create(&home, &token, "clarifications", json!({"question": "q"})).await;
    let waiting = home.send(Ask::get(format!("{}?wait=60", place(&id))).token(&token));
    let revoking = async { home.host.access().revoke_token("script").await.unwrap() };
    let (told, ()) = tokio::join!(waiting, revoking);
    assert_eq!(told.problem(401), "not_signed_in");
}

#[tokio::test]
async fn a_wait_is_a_minute_at_most() {
    let (home, token) = Home::with_token().await;
    let id = create(&home, &token, "clarifications", json!({"question": "q"})).await;
    for wait in ["61", "-1", "x", "1.5"] {
        let answer = home.send(Ask::get(format!("{}?wait={wait}", place(&id))).token(&token)).await;
        assert_eq!(answer.problem(422), "bad_fields", "{wait}");
    }
    let nobody = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
    assert_eq!(
        home.send(Ask::get(format!("{}?wait=5", place(nobody))).token(&token)).await.problem(404),
        "not_found"
    );
}

#[tokio::test]
async fn notifications_are_taken_and_bounded() {
    let (home, token) = Home::with_token().await;
    let told = home
        .send(Ask::post("/api/v1/notifications", &json!({"title": "Done"})).token(&token))
        .await
        .expect(201);
    assert!(told["seq"].as_i64().unwrap() > 0);
    for body in [json!({"title": ""}), json!({"title": "x".repeat(10_000)}), json!({"body": "x"})] {
        let answer = home.send(Ask::post("/api/v1/notifications", &body).token(&token)).await;
        assert_eq!(answer.problem(422), "bad_fields");
    }
}

#[tokio::test]
async fn settings_change_as_a_whole_or_not_at_all() {
    let (home, token) = Home::with_token().await;
    let settings = home.send(Ask::get("/api/v1/settings").token(&token)).await.expect(200);
    assert_eq!(settings, json!({"default_timeout_secs": 86_400, "history_days": 90}));
    let put = |body: Value| Ask::new("PUT", "/api/v1/settings").json(&body).token(&token);
    let changed = home.send(put(json!({"history_days": 7}))).await.expect(200);
    assert_eq!(changed, json!({"default_timeout_secs": 86_400, "history_days": 7}));
    for body in
        [json!({"history_days": 0}), json!({"history_days": 8, "x": 1}), json!({"default_timeout_secs": 0})]
    {
        assert_eq!(home.send(put(body)).await.problem(422), "bad_fields");
    }
    assert_eq!(home.send(Ask::get("/api/v1/settings").token(&token)).await.expect(200), changed);
}
