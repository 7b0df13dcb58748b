//! The faults of another implementation that can be seen from outside, each under its number.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skald_testkit::Program;
use skald_tests::Home;

fn answer(home: &Home, id: &str, body: &Value) -> Result<skald_testkit::Response> {
    home.api.post(&format!("/api/v1/inbox/requests/{id}/answer"), body)
}

#[test]
fn fault_01_what_was_sent_to_an_absent_device_survives_kill_9_of_the_relay() -> Result<()> {
    let (mut home, phone) = Home::paired()?;
    let witness = home.pair("witness")?;
    let witness = witness.start(&["inbox", "--watch"])?;
    for number in 1..=11 {
        home.host.skald(&["notify", &format!("Message number {number}.")])?.ok()?;
    }
    // The relay commits in the order of arrival, and before it offers. Once a present device has the eleventh, the ten
    // for the absent one are safe.
    witness.wait_for("the eleventh", |line| line.contains("Message number 11.").then_some(()))?;
    home.relay.kill()?;
    home.relay.restart()?;
    home.until_connected()?;
    let watching = phone.start(&["inbox", "--watch"])?;
    for number in 1..=10 {
        let text = format!("Message number {number}.");
        watching.wait_for(&text, |line| line.contains(&text).then_some(()))?;
    }
    Ok(())
}

#[test]
fn fault_04_an_answer_given_while_the_host_is_down_is_delivered_when_it_is_back() -> Result<()> {
    let (mut home, phone) = Home::paired()?;
    let id = home.ask_approval("t", "Answered in the host's absence")?;
    phone.run(&["inbox"])?.ok()?;
    home.host.kill()?;
    // The device cannot learn that it worked, and says so; the answer is on its way all the same.
    phone.run(&["approve", &id, "--wait", "2s"])?;
    home.host.restart()?;
    assert_eq!(home.outcome(&id)?["outcome"]["decision"], "approved");
    Ok(())
}

#[test]
fn fault_06_admitting_one_pending_device_leaves_the_other_to_be_admitted_later() -> Result<()> {
    let home = Home::connected()?;
    let (first, second) = (home.phone("first"), home.phone("second"));
    let (mut first_pairing, first_device) = home.begin_pairing(&first, "first")?;
    let (mut second_pairing, second_device) = home.begin_pairing(&second, "second")?;
    for (device, pairing) in [(second_device, &mut second_pairing), (first_device, &mut first_pairing)] {
        let key = device["key"].as_str().context("no key")?;
        home.host.skald(&["devices", "authorize", key])?.ok()?;
        pairing.finished()?.ok()?;
    }
    let id = home.ask_approval("t", "For both")?;
    for phone in [first, second] {
        assert!(phone.run(&["inbox"])?.ok()?.contains("For both"));
        ensure!(home.request(&id)?["state"] == "pending");
    }
    Ok(())
}

#[test]
fn fault_07_a_device_store_that_cannot_be_read_revokes_nobody() -> Result<()> {
    let (mut home, phone) = Home::paired()?;
    home.host.kill()?;
    let store = home.host.data().join("relay/peers.db");
    let good = std::fs::read(&store)?;
    let journal = store.with_extension("db-wal");
    let good_journal = std::fs::read(&journal).ok();
    std::fs::remove_file(&journal).ok();
    std::fs::remove_file(store.with_extension("db-shm")).ok();
    std::fs::write(&store, b"this is not a database, however long one looks at it".repeat(100))?;
    home.host.restart()?;
    let path = "/api/v1/plugins/mobile-connector";
    let said = home.api.until(path, "the connector says what is wrong", |plugin| {
        (plugin["status"]["state"] == "failed").then(|| plugin["status"]["message"].clone())
    })?;
    ensure!(said.as_str().is_some_and(|said| !said.is_empty()), "{said}");
    home.host.kill()?;
    std::fs::write(&store, good)?;
    if let Some(good_journal) = good_journal {
        std::fs::write(&journal, good_journal)?;
    }
    home.host.restart()?;
    home.until_connected()?;
    home.ask_approval("t", "Still together")?;
    assert!(phone.run(&["inbox"])?.ok()?.contains("Still together"));
    Ok(())
}

#[test]
fn fault_09_a_revoked_device_loses_its_running_pipes() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let (mut proxy, page) = open_proxy(&phone)?;
    let mut events = page.events()?;
    events.next_name()?;
    let key = home.devices()?[0]["key"].as_str().context("no key")?.to_owned();
    home.api.delete(&home.connector(&format!("devices/{key}")))?.expect_any(&[200, 204])?;
    // The stream ends; it does not merely fall silent, or this would wait in vain and fail.
    while events.next_name().is_ok() {}
    assert!(page.get("/api/v1/session").map_or(true, |response| response.status != 200));
    proxy.kill()
}

#[test]
fn fault_11_a_window_without_a_ttl_stays_open_for_minutes() -> Result<()> {
    let home = Home::connected()?;
    let (window, _) = home.qr("qr")?;
    let inbox = home.ask_approval("t", "What time is it?")?;
    let created = home.until_pending(1)?["approvals"][0]["created_at"].as_i64().context("no time")?;
    let expires = window["expires_at"].as_i64().context("no expiry")?;
    assert!(!inbox.is_empty() && expires - created > 240_000, "{window}");
    Ok(())
}

#[test]
fn fault_13_pairing_the_same_device_again_keeps_the_talk_going_both_ways() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let first = home.ask_approval("t", "Before")?;
    phone.run(&["approve", &first])?.ok()?;
    home.outcome(&first)?;
    let (_, picture) = home.qr("again")?;
    let again = phone.run(&["pair", "--qr", picture.to_str().context("no path")?, "--wait", "5s"])?;
    // Whether a device that is paired already pairs again or says that it has no need to, nothing is lost by it.
    ensure!(again.code.is_some(), "pairing again crashed");
    let second = home.ask_approval("t", "After")?;
    phone.run(&["approve", &second])?.ok()?;
    assert_eq!(home.outcome(&second)?["outcome"]["decision"], "approved");
    Ok(())
}

#[test]
fn fault_18_a_relay_that_accepts_and_then_says_nothing_is_given_up() -> Result<()> {
    let home = Home::fresh()?;
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut config = home.settings();
    config["relay_url"] = json!(format!("wss://{}/v1/ws", silent.local_addr()?));
    let path = "/api/v1/plugins/mobile-connector";
    home.api.put(path, &json!({ "enabled": true, "config": config }))?.expect(200)?;
    // The connection is taken and kept open, so that only a deadline can end the wait.
    let (_held, _) = silent.accept()?;
    home.api.until(path, "the connector says that the relay does not answer", |plugin| {
        (plugin["status"]["state"] == "degraded" && plugin["status"]["message"].is_string()).then_some(())
    })
}

#[test]
fn fault_19_a_busy_page_through_the_pipe_does_not_cut_the_host_off() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let (_proxy, page) = open_proxy(&phone)?;
    // Each of these is a connection of its own. As pipes of their own they would cost each end a message and the relay two
    // connections: more in a row than it grants in a minute. As streams of the one warm pipe they cost it nothing.
    for _ in 0..150 {
        page.get("/api/v1/inbox")?.expect(200)?;
    }
    let id = home.ask_approval("t", "Still connected")?;
    phone.run(&["approve", &id])?.ok()?;
    home.outcome(&id)?;
    assert_eq!(home.api.get(&home.connector("status"))?.expect(200)?["state"], "connected");
    Ok(())
}

#[test]
fn fault_20_a_setting_that_cannot_be_read_stops_the_start_with_its_name() -> Result<()> {
    let home = Home::fresh()?;
    let mut relay = std::process::Command::new(skald_testkit::binary("skald-relay")?);
    relay.args(["--insecure", "--listen", "127.0.0.1:0", "--data"]).arg(home.scratch.join("other"));
    relay.env("RELAY_LIMIT_QUEUE_PER_CLIENT", "plenty");
    let finished = Program::run("skald-relay", relay, "")?;
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("RELAY_LIMIT_QUEUE_PER_CLIENT"), "{}", finished.stderr);
    let wish = json!({ "enabled": true, "config": { "relay_url": home.relay.url(), "pairing_ttl": "long" } });
    let problem = home.api.put("/api/v1/plugins/mobile-connector", &wish)?.problem(422)?;
    assert_eq!(problem["errors"][0]["field"], "pairing_ttl", "{problem}");
    Ok(())
}

#[test]
fn fault_22_a_prompt_with_several_fields_shows_them_all_and_masks_the_secret() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let schema = json!({ "type": "object", "required": ["user", "pin"], "properties": {
        "user": { "type": "string", "title": "User name" },
        "pin": { "type": "string", "title": "Secret number" },
    } });
    let body = json!({ "server_name": "bank", "message": "Sign in", "sensitive": true, "schema": schema });
    let id = home.ask("elicitations", &body)?;
    let shown = phone.run(&["inbox"])?.ok()?;
    assert!(shown.contains("User name") && shown.contains("Secret number"), "{shown}");
    let value = json!({ "user": "ann", "pin": "90210-secret" }).to_string();
    let given = phone.run_with(&["elicit", &id, "--value-from-stdin"], &value)?;
    assert!(!given.stdout.contains("90210-secret") && !given.stderr.contains("90210-secret"), "{given:?}");
    given.ok()?;
    assert_eq!(home.outcome(&id)?["outcome"]["content"], json!({ "user": "ann", "pin": "90210-secret" }));
    Ok(())
}

#[test]
fn fault_23_the_first_answer_stands_and_the_second_is_told_so() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let id = home.ask_approval("t", "Who is first?")?;
    assert!(phone.run(&["inbox"])?.ok()?.contains("Who is first?"));
    answer(&home, &id, &json!({ "decision": "rejected", "reason": "page" }))?.expect(200)?;
    let refused = answer(&home, &id, &json!({ "decision": "approved" }))?;
    assert_eq!(refused.status, 409, "{}", refused.text());
    // The device may answer what it still shows. It gets no error that would make a person try again, and no ghost.
    phone.run(&["approve", &id])?;
    let request = home.request(&id)?;
    assert_eq!(request["outcome"]["decision"], "rejected", "{request}");
    assert!(!phone.run(&["inbox"])?.ok()?.contains("Who is first?"));
    Ok(())
}

#[test]
fn fault_24_a_timeout_is_not_a_refusal() -> Result<()> {
    let home = Home::fresh()?;
    for words in [
        &["approve", "--tool", "t", "--summary", "Nobody answers", "--timeout", "1s"][..],
        &["ask", "Nobody answers", "--timeout", "1s"],
    ] {
        let finished = home.host.skald(words)?;
        assert_eq!(finished.code, Some(3), "{finished:?}");
        let said = finished.stderr.to_lowercase();
        assert!(!said.contains("reject") && !said.contains("refus") && !said.contains("denied"), "{said}");
    }
    let history = home.api.get("/api/v1/inbox/history")?.expect(200)?;
    assert!(
        history["items"].as_array().is_some_and(|items| items.iter().all(|item| item["state"] == "expired"))
    );
    Ok(())
}

#[test]
fn fault_23_an_answer_after_the_end_changes_nothing_and_is_recorded_as_late() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let body = json!({ "tool_name": "t", "summary": "Too late", "expires_in": 2 });
    let id = home.ask("approvals", &body)?;
    phone.run(&["inbox"])?.ok()?;
    assert_eq!(home.outcome(&id)?["state"], "expired");
    let late = answer(&home, &id, &json!({ "decision": "approved" }))?;
    assert_eq!(late.status, 409, "{}", late.text());
    let request = home.request(&id)?;
    assert_eq!(request["state"], "expired");
    assert!(request["late_answers"].as_array().is_some_and(|late| late.len() == 1), "{request}");
    Ok(())
}

#[test]
fn fault_25_a_long_command_is_shown_whole_everywhere() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let command = (0..600).map(|n| format!("step{n};")).collect::<String>();
    let blocks = json!({ "v": 1, "summary": "Run steps", "blocks": [
        { "type": "block", "label": "Command", "value": command, "value_type": "command" },
    ] });
    let body = json!({ "tool_name": "shell", "summary": "Run steps", "blocks": blocks,
        "arguments": { "command": command } });
    home.ask("approvals", &body)?;
    let inbox = home.until_pending(1)?;
    assert_eq!(inbox["approvals"][0]["blocks"]["blocks"][0]["value"], json!(command));
    let shown: String = phone.run(&["inbox"])?.ok()?.split_whitespace().collect();
    for n in [0, 299, 300, 599] {
        assert!(shown.contains(&format!("step{n};")), "step {n} is not shown");
    }
    Ok(())
}

/// `skald-phone proxy` on a free port, and a client for the page behind it.
fn open_proxy(phone: &skald_testkit::Phone) -> Result<(Program, skald_testkit::Client)> {
    let proxy = phone.start(&["proxy", "--listen", "127.0.0.1:0"])?;
    let url = proxy.wait_for("its address", |line| {
        line.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned)
    })?;
    let client = skald_testkit::Client::new(url.trim_end_matches(['.', ',']))?;
    Ok((proxy, client))
}
