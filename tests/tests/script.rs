//! What a script can do, from installing the host to logging a device out: the names and exit codes of the contract.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use skald_tests::Home;

#[test]
fn an_approval_asked_for_by_a_script_is_released_by_the_phone() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let mut asking =
        home.host.skald_waiting(&["approve", "--tool", "deploy", "--summary", "Deploy the site"])?;
    let inbox = home.until_pending(1)?;
    let id = inbox["approvals"][0]["request_id"].as_str().context("no approval")?.to_owned();
    let shown = phone.run(&["inbox"])?.ok()?;
    assert!(shown.contains("Deploy the site") && shown.contains("deploy"), "{shown}");
    phone.run(&["approve", &id])?.ok()?;
    assert_eq!(asking.finished()?.code, Some(0));
    let request = home.request(&id)?;
    assert_eq!(
        (&request["state"], &request["outcome"]["decision"]),
        (&json!("resolved"), &json!("approved"))
    );
    assert!(request["resolved_by"].to_string().contains("phone"), "{request}");
    Ok(())
}

#[test]
fn a_rejection_ends_the_script_with_1_and_the_reason_on_standard_error() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let mut asking =
        home.host.skald_waiting(&["approve", "--tool", "rm", "--summary", "Delete everything"])?;
    let id = home.until_pending(1)?["approvals"][0]["request_id"].as_str().context("no id")?.to_owned();
    phone.run(&["reject", &id, "--reason", "not on a Friday"])?.ok()?;
    let finished = asking.finished()?;
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("not on a Friday"), "{}", finished.stderr);
    assert!(!finished.stdout.contains("not on a Friday"), "{}", finished.stdout);
    Ok(())
}

#[test]
fn a_question_is_answered_in_the_phones_words() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let words = ["ask", "Which colour?", "--option", "red", "--option", "blue"];
    let mut asking = home.host.skald_waiting(&words)?;
    let inbox = home.until_pending(1)?;
    let item = &inbox["clarifications"][0];
    assert_eq!(item["suggested_answers"], json!(["red", "blue"]));
    phone.run(&["answer", item["request_id"].as_str().context("no id")?, "a warm grey"])?.ok()?;
    let finished = asking.finished()?;
    assert_eq!((finished.code, finished.stdout.trim_end()), (Some(0), "a warm grey"));
    Ok(())
}

#[test]
fn a_secret_is_given_by_standard_input_once_to_who_asked() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let body = json!({ "server_name": "vault", "message": "Password of the vault", "field_name": "password",
        "sensitive": true });
    let id = home.ask("elicitations", &body)?;
    let shown = phone.run(&["inbox"])?.ok()?;
    assert!(shown.contains("Password of the vault"), "{shown}");
    phone.run_with(&["elicit", &id, "--value-from-stdin"], "open sesame\n")?.ok()?;
    let first = home.outcome(&id)?;
    assert_eq!(first["outcome"]["action"], "accept", "{first}");
    assert_eq!(first["outcome"]["content"]["password"], "open sesame", "{first}");
    let second = home.request(&id)?;
    assert!(second["outcome"]["content"].is_null() && second["content_gone"] == json!(true), "{second}");
    Ok(())
}

#[test]
fn a_prompt_can_be_declined_and_cancelled() -> Result<()> {
    let (home, phone) = Home::paired()?;
    for (flag, action) in [("--decline", "decline"), ("--cancel", "cancel")] {
        let body = json!({ "server_name": "s", "message": "Your name", "field_name": "name" });
        let id = home.ask("elicitations", &body)?;
        phone.run(&["elicit", &id, flag])?.ok()?;
        assert_eq!(home.outcome(&id)?["outcome"]["action"], action);
    }
    Ok(())
}

#[test]
fn a_notification_reaches_a_phone_that_watches() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let watching = phone.start(&["inbox", "--watch"])?;
    watching.wait_for("the first picture of the Inbox", |line| (!line.trim().is_empty()).then_some(()))?;
    home.host.skald(&["notify", "Backup finished", "412 files"])?.ok()?;
    watching.wait_for("the notification", |line| line.contains("Backup finished").then_some(()))?;
    Ok(())
}

#[test]
fn a_bypass_lets_the_next_call_of_the_same_tool_through_until_it_is_ended() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let id = home.ask_approval("lint", "Run the linter")?;
    phone.run(&["approve", &id, "--bypass", "15m"])?.ok()?;
    home.outcome(&id)?;
    let again = json!({ "tool_name": "lint", "summary": "Run it again" });
    let decided = home.api.post("/api/v1/inbox/approvals", &again)?.expect(200)?;
    assert_eq!((&decided["state"], &decided["decision"]), (&json!("resolved"), &json!("approved")));
    let bypasses = home.api.get("/api/v1/rules/bypasses")?.expect(200)?;
    let rule = bypasses[0]["id"].to_string().trim_matches('"').to_owned();
    home.api.delete(&format!("/api/v1/rules/bypasses/{rule}"))?.expect_any(&[200, 204])?;
    home.ask_approval("lint", "And once more")?;
    home.until_pending(1)?;
    Ok(())
}

#[test]
fn run_shows_the_whole_command_and_hands_on_its_exit_code() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let file = home.scratch.join("ran");
    let script = format!("echo once >> {}; exit 7", file.display());
    let mut running = home.host.skald_waiting(&["run", "--", "sh", "-c", &script])?;
    let inbox = home.until_pending(1)?;
    assert!(inbox["approvals"][0].to_string().contains("echo once"), "{inbox}");
    assert!(!file.exists());
    let id = inbox["approvals"][0]["request_id"].as_str().context("no id")?;
    phone.run(&["approve", id])?.ok()?;
    assert_eq!(running.finished()?.code, Some(7));
    assert_eq!(fs::read_to_string(file)?, "once\n");
    Ok(())
}

#[test]
fn run_does_not_run_what_was_rejected() -> Result<()> {
    let home = Home::fresh()?;
    let file = home.scratch.join("ran");
    let path = file.to_str().context("no path")?;
    let mut running = home.host.skald_waiting(&["run", "--", "touch", path])?;
    let id = home.until_pending(1)?["approvals"][0]["request_id"].as_str().context("no id")?.to_owned();
    let answer = json!({ "decision": "rejected", "reason": "no" });
    home.api.post(&format!("/api/v1/inbox/requests/{id}/answer"), &answer)?.expect(200)?;
    assert_ne!(running.finished()?.code, Some(0));
    assert!(!file.exists());
    Ok(())
}

#[test]
fn a_withdrawn_request_ends_the_waiting_script_with_3() -> Result<()> {
    let home = Home::fresh()?;
    let mut asking = home.host.skald_waiting(&["ask", "Still there?"])?;
    let id = home.until_pending(1)?["clarifications"][0]["request_id"].as_str().context("no id")?.to_owned();
    // The command line asks under a token of its own; withdrawing is for that source, or for the owner.
    let owner = home.host.signed_in()?;
    owner.delete(&format!("/api/v1/inbox/requests/{id}"))?.expect_any(&[200, 204])?;
    assert_eq!(asking.finished()?.code, Some(3));
    Ok(())
}

#[test]
fn an_unreachable_host_is_exit_code_4_and_a_wrong_command_line_is_2() -> Result<()> {
    let mut home = Home::fresh()?;
    home.host.kill()?;
    for words in [&["approve", "--tool", "t", "--summary", "s"][..], &["ask", "q"], &["notify", "t"]] {
        let finished = home.host.skald(words)?;
        assert_eq!(finished.code, Some(4), "{words:?}: {}", finished.stderr);
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{}", finished.stderr);
    }
    assert_eq!(home.host.skald(&["approve", "--tool", "t"])?.code, Some(2));
    assert_eq!(
        home.host.skald(&["approve", "--tool", "t", "--summary", "s", "--arguments", "{"])?.code,
        Some(2)
    );
    Ok(())
}

#[test]
fn a_revoked_token_is_good_for_nothing() -> Result<()> {
    let home = Home::fresh()?;
    let client = home.host.client("temporary")?;
    client.get("/api/v1/inbox")?.expect(200)?;
    let listed = home.host.skald(&["token", "list", "--json"])?.ok()?;
    let listed: Value = serde_json::from_str(&listed)?;
    assert!(listed.to_string().contains("temporary"), "{listed}");
    home.host.skald(&["token", "revoke", "temporary"])?.ok()?;
    client.get("/api/v1/inbox")?.problem(401)?;
    Ok(())
}

#[test]
fn devices_and_plugins_are_listed_for_scripts() -> Result<()> {
    let (home, _phone) = Home::paired()?;
    let devices: Value = serde_json::from_str(&home.host.skald(&["devices", "--json"])?.ok()?)?;
    assert_eq!(devices[0]["state"], "authorized", "{devices}");
    assert_eq!(devices[0]["name"], "phone", "{devices}");
    let plugins: Value = serde_json::from_str(&home.host.skald(&["plugins", "--json"])?.ok()?)?;
    assert_eq!(plugins[0]["id"], "mobile-connector", "{plugins}");
    let status = home.api.get(&home.connector("status"))?.expect(200)?;
    assert!(status["relay_url"].as_str().is_some_and(|url| url.contains(home.relay.address())), "{status}");
    let api = home.api.get("/api/v1/openapi.json")?.expect(200)?;
    assert!(api["paths"]["/api/v1/inbox/approvals"].is_object(), "{api}");
    Ok(())
}

#[test]
fn a_device_revoked_on_the_command_line_gets_nothing_more() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let key = home.devices()?[0]["key"].as_str().context("no key")?.to_owned();
    home.host.skald(&["devices", "revoke", &key])?.ok()?;
    assert!(home.devices()?.is_empty());
    home.ask_approval("t", "After the revocation")?;
    let shown = phone.run(&["inbox", "--wait", "5s"])?;
    assert_ne!(shown.code, Some(0));
    assert!(!shown.stdout.contains("After the revocation"), "{}", shown.stdout);
    Ok(())
}

#[test]
fn a_device_that_logs_out_is_forgotten_and_keeps_no_keys() -> Result<()> {
    let (home, phone) = Home::paired()?;
    phone.run(&["logout"])?.ok()?;
    home.api.until(&home.connector("devices"), "the device is gone", |devices| {
        devices.as_array()?.is_empty().then_some(())
    })?;
    let after = phone.run(&["inbox"])?;
    assert_eq!(after.code, Some(2), "{}", after.stderr);
    Ok(())
}
