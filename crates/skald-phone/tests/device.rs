//! The device against a relay and a host, end to end on loopback.

#[path = "device/again.rs"]
mod again;
mod support;

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use skald_e2e::decision;
use skald_relay_common::ids::Signature;
use support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_device_pairs_introduces_itself_and_shows_the_inbox() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    let hello = host.until("hello", |s| s.of_kind("hello").first().cloned()).await;
    assert_eq!(hello["device_info"]["platform"], "cli");
    assert_eq!(hello["device_info"]["device_name"], "terminal");
    let devices = host.client.devices().await.expect("devices");
    assert_eq!(devices[0].platform, Some(skald_relay_client::Platform::DESKTOP));
    host.set(|s| {
        s.approvals.push(approval("appr-1", "rm -rf build"));
        s.clarifications.push(json!({"request_id": "clar-1", "question": "Which?", "agent_label": "a",
            "created_at": now(), "suggested_answers": ["x", "y"]}));
        s.elicitations.push(password("elic-1"));
    })
    .await;
    let shown: Value = serde_json::from_str(&phone.ok(&["inbox", "--json"]).await).expect("json");
    assert_eq!(shown["badge"], 3);
    assert_eq!(shown["approvals"][0]["arguments"]["command"], "rm -rf build");
    let text = phone.ok(&["inbox"]).await;
    for part in ["appr-1", "rm -rf build", "Which?", "elic-1", "3 items"] {
        assert!(text.contains(part), "{text}");
    }
    let status: Value = serde_json::from_str(&phone.ok(&["status", "--json"]).await).expect("json");
    assert_eq!(
        (&status["link"], &status["host"], &status["badge"]),
        (&json!("connected"), &json!("online"), &json!(3))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_answer_reaches_the_host_and_is_confirmed() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    host.set(|s| {
        s.approvals.extend([approval("yes-1", "a"), approval("no-1", "b"), approval("bypass-1", "c")]);
        s.clarifications.push(json!({"request_id": "ask-1", "question": "q", "agent_label": "a", "created_at": now()}));
        s.elicitations.extend([
            password("pw-1"),
            password("decline-1"),
            json!({"request_id": "form-1", "server_name": "s", "message": "m", "field_name": null, "sensitive": false,
                "is_confirmation": false, "created_at": now(), "schema": {"type": "object", "required": ["user"],
                "properties": {"user": {"type": "string"}, "age": {"type": "integer"}}}}),
        ]);
    })
    .await;
    assert_eq!(phone.ok(&["approve", "yes"]).await, "Approved: a\n");
    phone.ok(&["reject", "no", "--reason", "not on a Friday"]).await;
    phone.ok(&["approve", "bypass-1", "--bypass", "session"]).await;
    phone.ok(&["answer", "ask-1", "the second"]).await;
    let given = phone.run_with(&["elicit", "pw-1", "--value-from-stdin"], "hunter2\n").await;
    assert!(given.status.success(), "{}", String::from_utf8_lossy(&given.stderr));
    phone.ok(&["elicit", "decline-1", "--decline"]).await;
    phone.ok(&["elicit", "form-1", "--value", r#"{"user":"u","age":3}"#]).await;

    let state = host.state();
    assert_eq!(state.update()["badge"], 0);
    let decisions = state.of_kind("approval_response");
    let of = |id: &str| decisions.iter().find(|d| d["request_id"] == id).expect("decision").clone();
    assert_eq!(
        (&of("no-1")["decision"], &of("no-1")["reason"]),
        (&json!("rejected"), &json!("not on a Friday"))
    );
    assert_eq!(of("bypass-1")["bypass_secs"], 0);
    assert_eq!(of("yes-1")["bypass_secs"], Value::Null);
    let answers = state.of_kind("clarification_response");
    assert_eq!(answers[0]["answer"], "the second");
    let prompts = state.of_kind("elicitation_response");
    assert_eq!(
        (&prompts[0]["action"], &prompts[0]["content"]),
        (&json!("accept"), &json!({"password": "hunter2"}))
    );
    assert_eq!((&prompts[1]["action"], &prompts[1]["content"]), (&json!("decline"), &Value::Null));
    assert_eq!(prompts[2]["content"], json!({"user": "u", "age": 3}));
    // The decision can be proved: it is signed by the device's key over the item as it was received.
    let key = state.paired[0].0;
    let digest: [u8; 32] =
        hex::decode(of("yes-1")["digest"].as_str().expect("digest")).expect("hex").try_into().expect("32");
    let sig = hex::decode(of("yes-1")["sig"].as_str().expect("sig")).expect("hex");
    let sig = Signature::try_from(sig.as_slice()).expect("64");
    let namespace = host.client.identity().namespace_id;
    assert!(decision::verify(&key, &namespace, "yes-1", &digest, true, &sig));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_answered_is_told_with_the_right_exit_code() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    host.set(|s| s.approvals.extend([approval("ab-1", "a"), approval("ab-2", "b")])).await;
    assert!(phone.refused(&["approve", "nothing"], 1).await.contains("Nothing in the inbox"));
    assert!(phone.refused(&["approve", "ab"], 2).await.contains("2 items"));
    assert!(phone.refused(&["answer", "ab-1", "text"], 2).await.contains("`approve` or `reject`"));
    assert!(phone.refused(&["answer", "ab-1", " "], 2).await.contains("empty"));
    // Shown once, changed since: what was not seen is not approved.
    phone.ok(&["inbox"]).await;
    host.set(|s| s.approvals[0]["arguments"]["command"] = "rm -rf /".into()).await;
    assert!(phone.refused(&["approve", "ab-1"], 1).await.contains("changed"));
    assert!(host.state().of_kind("approval_response").is_empty());
    phone.ok(&["inbox"]).await;
    phone.ok(&["approve", "ab-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_host_finds_unfit_is_told_so_and_can_be_given_anew() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    host.set(|s| {
        s.elicitations.push(password("unfit-1"));
        s.clarifications
            .push(json!({"request_id": "unfit-2", "question": "q", "agent_label": "a", "created_at": now()}));
        s.picky = true;
    })
    .await;
    for line in [&["elicit", "unfit-1", "--value", "short"][..], &["answer", "unfit-2", "wrong"]] {
        let told = phone.refused(line, 2).await;
        assert!(told.contains("does not fit"), "{told}");
    }
    host.state().picky = false;
    phone.ok(&["elicit", "unfit-1", "--value", "long enough"]).await;
    phone.ok(&["answer", "unfit-2", "right"]).await;
    assert_eq!(host.state().update()["badge"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_23_an_answer_that_came_second_is_told_so() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    host.set(|s| {
        s.approvals.push(approval("race-1", "a"));
        s.resolved_by = Some("web".into());
    })
    .await;
    let told = phone.refused(&["approve", "race-1"], 1).await;
    assert!(told.contains("rejected by web"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_hands_its_request_to_the_one_that_watches() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    let mut watching = phone.start(&["inbox", "--watch", "--json"]);
    host.set(|s| s.approvals.extend([approval("w-1", "a"), approval("w-2", "b")])).await;
    watching.json_until(|v| v["badge"] == 2).await;
    phone.ok(&["approve", "w-1"]).await;
    watching.json_until(|v| v["badge"] == 1).await;
    let note = json!({"v": 1, "kind": "notification", "id": uuid::Uuid::new_v4(), "ts": now(),
        "title": "Backup", "body": "done"});
    let device = host.client.devices().await.expect("devices")[0].key;
    host.client.send(&device, note.to_string(), skald_relay_client::Class::Stored).await.expect("sent");
    let shown = watching.json_until(|v| v["notifications"].as_array().is_some_and(|n| !n.is_empty())).await;
    assert_eq!(shown["notifications"][0]["title"], "Backup");
    // The watcher goes away in the middle of another command's life: that one carries on by itself.
    host.state().deaf = true;
    let mut second = phone.start(&["inbox", "--watch", "--json"]);
    second.json_until(|v| v["badge"] == 1).await;
    watching.signal(Signal::KILL);
    watching.ended().await;
    host.state().deaf = false;
    phone.ok(&["approve", "w-2"]).await;
    second.json_until(|v| v["badge"] == 0).await;
    second.signal(Signal::INT);
    second.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_survives_the_relays_restart() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut relay, host, phone) = everything(dir.path()).await;
    let mut watching = phone.start(&["inbox", "--watch", "--json"]);
    watching.json_until(|v| v["link"] == "connected" && v["host"] == "online").await;
    relay.restart().await;
    host.set(|s| s.approvals.push(approval("after-1", "a"))).await;
    watching.json_until(|v| v["badge"] == 1).await;
    watching.signal(Signal::TERM);
    let ended = watching.ended().await;
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_given_without_a_relay_is_kept_sealed_and_sent_at_the_next_run() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut relay, host, phone) = everything(dir.path()).await;
    host.set(|s| s.elicitations.push(password("later-1"))).await;
    phone.ok(&["inbox"]).await;
    relay.stop().await;
    let output = phone
        .run_with(&["elicit", "later-1", "--value-from-stdin", "--wait", "2s"], "canary-hunter2\n")
        .await;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("kept") && !error.contains("canary"), "{error}");
    assert_eq!(found_on_disk(&phone.home, "canary-hunter2"), None);
    relay.restart().await;
    phone.ok(&["inbox"]).await;
    let sent = host.until("the answer", |s| s.of_kind("elicitation_response").first().cloned()).await;
    assert_eq!(sent["content"]["password"], "canary-hunter2");
}

/// Whole answers in the outbox; one that is just being written has a name with a dot in front.
fn kept_answers(phone: &Phone) -> usize {
    let whole = |name: std::ffi::OsString| !name.to_string_lossy().starts_with('.');
    let entries = std::fs::read_dir(phone.home.join("outbox")).into_iter().flatten();
    entries.filter(|e| e.as_ref().is_ok_and(|e| whole(e.file_name()))).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_between_keeping_and_sending_loses_no_answer() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut relay, host, phone) = everything(dir.path()).await;
    host.set(|s| s.approvals.push(approval("kill-1", "a"))).await;
    phone.ok(&["inbox"]).await;
    relay.stop().await;
    let answering = phone.start(&["approve", "kill-1"]);
    let kept = async {
        while kept_answers(&phone) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, kept).await.expect("kept in time");
    answering.signal(Signal::KILL);
    answering.ended().await;
    relay.restart().await;
    phone.ok(&["inbox"]).await;
    host.until("the answer", |s| s.of_kind("approval_response").first().cloned()).await;
    // What was kept is over, and is told once.
    let said = phone.ok(&["inbox"]).await + &phone.ok(&["inbox"]).await;
    assert_eq!(kept_answers(&phone), 0, "{said}");
    let ids: std::collections::BTreeSet<_> =
        host.state().of_kind("approval_response").iter().map(|a| a["id"].to_string()).collect();
    assert_eq!(ids.len(), 1, "the same answer bears the same id however often it is sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_pages_are_served_through_pipes() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    let mut proxy = phone.start(&["proxy", "--listen", "127.0.0.1:0", "--json"]);
    let url = proxy.json().await["url"].as_str().expect("url").to_owned();
    let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();

    let get = async |path: &str| {
        let mut stream = tokio::net::TcpStream::connect(&address).await.expect("connected");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        // Half-closed: the answer must come all the same.
        stream.shutdown().await.expect("half-closed");
        let mut answer = String::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
        read.expect("in time").expect("read");
        answer
    };
    let page = get("/hello").await;
    assert!(page.ends_with("<h1>Skald</h1>/hello"), "{page}");
    let (a, b, c) = tokio::join!(get("/a"), get("/b"), get("/c"));
    assert!(a.ends_with("/a") && b.ends_with("/b") && c.ends_with("/c"));

    // Both directions at once, larger than any buffer between.
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let stream = tokio::net::TcpStream::connect(&address).await.expect("connected");
    let (mut reader, mut writer) = stream.into_split();
    let sent = body.clone();
    let sending = tokio::spawn(async move {
        writer
            .write_all(format!("POST /echo HTTP/1.1\r\nContent-Length: {}\r\n\r\n", sent.len()).as_bytes())
            .await
            .expect("sent");
        writer.write_all(&sent).await.expect("sent");
        writer
    });
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(reader.read_u8().await.expect("head"));
    }
    let mut echoed = vec![0; body.len()];
    tokio::time::timeout(PATIENCE, reader.read_exact(&mut echoed)).await.expect("in time").expect("read");
    assert!(echoed == body);
    drop(sending.await.expect("sent"));

    // Another process answers while the proxy holds the home.
    host.set(|s| s.approvals.push(approval("p-1", "a"))).await;
    phone.ok(&["approve", "p-1"]).await;

    host.stop().await;
    let page = get("/").await;
    assert!(page.starts_with("HTTP/1.1 502") && page.contains("host"), "{page}");
    proxy.signal(Signal::INT);
    proxy.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_proxy_on_the_same_home_works_through_the_first() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, _host, phone) = everything(dir.path()).await;
    let mut watching = phone.start(&["inbox", "--watch", "--json"]);
    watching.json().await;
    let mut proxy = phone.start(&["proxy", "--listen", "127.0.0.1:0", "--json"]);
    let url = proxy.json().await["url"].as_str().expect("url").to_owned();
    let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    for _ in 0..2 {
        let mut stream = tokio::net::TcpStream::connect(&address).await.expect("connected");
        stream.write_all(b"GET /through HTTP/1.1\r\n\r\n").await.expect("sent");
        let mut answer = [0; 17];
        tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("in time").expect("read");
        assert_eq!(&answer[..], b"HTTP/1.1 200 OK\r\n");
        if let Ok(None) = watching.child.try_wait() {
            // The second round goes without the process that held the home.
            watching.signal(Signal::KILL);
            watching.child.wait().await.expect("ended");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_away_is_exit_code_four() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    host.set(|s| s.approvals.push(approval("away-1", "a"))).await;
    phone.ok(&["inbox"]).await;
    host.stop().await;
    let told = phone.refused(&["inbox", "--wait", "2s"], 4).await;
    assert!(told.contains("host is not connected"), "{told}");
    let told = phone.refused(&["approve", "away-1", "--wait", "2s"], 4).await;
    assert!(told.contains("kept"), "{told}");
    let told = phone.refused(&["approve", "unknown", "--wait", "2s"], 4).await;
    assert!(told.contains("nothing was kept"), "{told}");
    let told = phone.refused(&["reject", "away-1", "--wait", "2s"], 1).await;
    assert!(told.contains("already answered"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_not_admitted_is_told_and_waits_only_when_it_pairs() {
    let dir = tempfile::tempdir().expect("folder");
    let relay = Relay::start(dir.path()).await;
    let host = Host::start(&relay, dir.path()).await;
    let phone = Phone::new(dir.path());
    let window = host.client.open_pairing(Duration::from_secs(300)).await.expect("window");
    let qr = window.qr.to_json();
    let output = phone.run(&["pair", "--payload", &qr, "--wait", "3s"]).await;
    assert_eq!(output.status.code(), Some(4));
    let code = host.until("the device pairs", |s| s.paired.last().cloned()).await.1;
    assert!(String::from_utf8_lossy(&output.stdout).contains(&code));
    assert!(phone.refused(&["inbox"], 1).await.contains("not admitted"));
    // The token is spent.
    let other = Phone { home: dir.path().join("other") };
    other.refused(&["pair", "--payload", &qr], 1).await;
    assert!(other.refused(&["inbox"], 2).await.contains("not paired"));
    // Admitted later, it works without pairing again.
    let key = host.state().paired[0].0;
    host.client.authorize(&key).await.expect("authorised");
    phone.ok(&["inbox"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logging_out_makes_both_sides_forget() {
    let dir = tempfile::tempdir().expect("folder");
    let (mut relay, host, phone) = everything(dir.path()).await;
    relay.stop().await;
    let told = phone.refused(&["logout", "--wait", "1s"], 4).await;
    assert!(told.contains("--force"), "{told}");
    assert!(phone.home.join("link/seed").exists());
    relay.restart().await;
    phone.ok(&["logout"]).await;
    host.until("logout", |s| s.of_kind("logout").first().cloned()).await;
    assert!(host.client.devices().await.expect("devices").is_empty());
    assert!(!phone.home.join("link").exists());
    assert!(phone.refused(&["inbox"], 2).await.contains("not paired"));
    assert!(phone.ok(&["status"]).await.contains("not paired"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_at_once_share_one_connection_and_none_is_lost() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    let ids = ["m-1", "m-2", "m-3", "m-4", "m-5"];
    host.set(|s| s.approvals.extend(ids.map(|id| approval(id, id)))).await;
    // None of them watches: whoever comes first holds the home, and hands it on when it ends.
    let (a, b, c, d, e) = tokio::join!(
        phone.run(&["approve", "m-1"]),
        phone.run(&["approve", "m-2"]),
        phone.run(&["reject", "m-3"]),
        phone.run(&["approve", "m-4"]),
        phone.run(&["reject", "m-5"]),
    );
    for output in [a, b, c, d, e] {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let state = host.state();
    let mut answered: Vec<_> =
        state.of_kind("approval_response").iter().map(|a| a["request_id"].to_string()).collect();
    answered.sort();
    answered.dedup();
    assert_eq!(answered.len(), ids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_exposed_or_damaged_stop_the_device_and_are_kept() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    let seed = phone.home.join("link/seed");
    std::fs::set_permissions(&seed, std::fs::Permissions::from_mode(0o644)).expect("mode");
    let told = phone.refused(&["inbox"], 2).await;
    assert!(told.contains("can be read by others"), "{told}");
    std::fs::set_permissions(&seed, std::fs::Permissions::from_mode(0o600)).expect("mode");
    phone.ok(&["inbox"]).await;
    let whole = std::fs::read(&seed).expect("seed");
    std::fs::write(&seed, &whole[..31]).expect("cut");
    let told = phone.refused(&["inbox"], 2).await;
    assert!(told.contains("damaged"), "{told}");
    assert_eq!(std::fs::read(&seed).expect("seed").len(), 31);
    // Keys that cannot say goodbye can still be deleted.
    phone.refused(&["logout", "--wait", "1s"], 2).await;
    phone.ok(&["logout", "--force", "--wait", "1s"]).await;
    assert!(!seed.exists());
    // The same folder pairs again, as a new device.
    phone.pair(&host).await;
    phone.ok(&["inbox"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_wait_until_somebody_looks() {
    let dir = tempfile::tempdir().expect("folder");
    let (_relay, host, phone) = everything(dir.path()).await;
    host.set(|s| s.approvals.push(approval("n-1", "a"))).await;
    let note = json!({"v": 1, "kind": "notification", "id": uuid::Uuid::new_v4(), "ts": now(),
        "title": "Backup finished", "body": "412 files"});
    let device = host.client.devices().await.expect("devices")[0].key;
    host.client.send(&device, note.to_string(), skald_relay_client::Class::Stored).await.expect("sent");
    // This command receives it and has no place to show it.
    phone.ok(&["approve", "n-1"]).await;
    let shown = phone.ok(&["inbox"]).await;
    assert!(shown.contains("Backup finished") && shown.contains("412 files"), "{shown}");
    assert!(!phone.ok(&["inbox"]).await.contains("Backup finished"), "once is enough");
}
