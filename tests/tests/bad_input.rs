//! Bad input from outside: each is answered with one plain sentence where a person sees it, and nothing is lost.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skald_testkit::{Authority, Client, Finished, HostProcess, Phone, Program, Scratch, binary, free_port};
use skald_tests::Home;

const CONNECTOR: &str = "/api/v1/plugins/mobile-connector";

/// One plain sentence on standard error that names what it is about, and the exit code for wrong usage.
fn plain_refusal(finished: &Finished, about: &str) -> Result<()> {
    ensure!(finished.code == Some(2), "ended with {:?}: {}", finished.code, finished.stderr);
    let said = finished.stderr.trim();
    ensure!(said.contains(about), "does not name {about}: {said}");
    ensure!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "{said}");
    Ok(())
}

fn relay(args: &[&str], data: &Path) -> Result<Finished> {
    let mut command = Command::new(binary("skald-relay")?);
    command.args(args).arg("--data").arg(data);
    Program::run("skald-relay", command, "")
}

fn serve(home: &Path, listen: &str) -> Result<Finished> {
    let mut command = Command::new(binary("skald")?);
    command.args(["serve", "--listen", listen, "--data"]).arg(home.join("data"));
    command.env("HOME", home).env("XDG_STATE_HOME", home.join("state"));
    Program::run("skald serve", command, "")
}

/// What the connector says once it stands still in one of these states.
fn status(home: &Home, states: &[&str]) -> Result<Value> {
    home.api.until(CONNECTOR, &format!("the connector is {states:?}"), |plugin| {
        let status = &plugin["status"];
        let there = states.iter().any(|state| status["state"] == *state) && status["message"].is_string();
        there.then(|| status.clone())
    })
}

#[test]
fn a_taken_port_is_named() -> Result<()> {
    let scratch = Scratch::new()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    plain_refusal(&serve(scratch.path(), &address)?, &address)?;
    plain_refusal(&relay(&["--insecure", "--listen", &address], &scratch.join("relay"))?, &address)
}

#[test]
fn a_second_host_on_the_same_folder_is_refused() -> Result<()> {
    let scratch = Scratch::new()?;
    let _host = HostProcess::start(scratch.path())?;
    let second = serve(scratch.path(), "127.0.0.1:0")?;
    plain_refusal(&second, "data")
}

#[test]
fn a_relay_without_tls_refuses_plain_connections_and_is_insecure_on_loopback_alone() -> Result<()> {
    let scratch = Scratch::new()?;
    let mut command = Command::new(binary("skald-relay")?);
    command.args(["--listen", "127.0.0.1:0", "--data"]).arg(scratch.join("a"));
    let plain = Program::start("skald-relay", command)?;
    let url = plain.wait_for("its URL", |line| {
        line.split_whitespace().find(|word| word.contains("ws://")).map(str::to_owned)
    })?;
    let refused = Client::new(&url.replace("ws://", "http://"))?.get("/v1/ws")?;
    ensure!(
        refused.status == 403 && refused.text().contains("encrypted"),
        "{} {}",
        refused.status,
        refused.text()
    );
    plain_refusal(&relay(&["--insecure", "--listen", "0.0.0.0:0"], &scratch.join("b"))?, "loopback")
}

#[test]
fn a_wrong_relay_settings_file_is_named_with_the_line() -> Result<()> {
    let scratch = Scratch::new()?;
    let file = scratch.join("relay.toml");
    fs::write(&file, "no_such_setting = 1\n")?;
    let path = file.to_str().context("no path")?;
    let words = ["--insecure", "--listen", "127.0.0.1:0", "--config", path];
    plain_refusal(&relay(&words, &scratch.join("data"))?, "no_such_setting")
}

#[test]
fn a_relay_that_cannot_be_reached_is_told_on_the_plugin_and_tried_again() -> Result<()> {
    let home = Home::fresh()?;
    let mut config = home.settings();
    config["relay_url"] = json!(format!("wss://localhost:{}/v1/ws", free_port()?));
    home.api.put(CONNECTOR, &json!({ "enabled": true, "config": config }))?.expect(200)?;
    let said = status(&home, &["degraded"])?;
    ensure!(said["message"].as_str().is_some_and(|said| said.len() > 10), "{said}");
    // The right address, put in while it fails, works without a restart.
    home.connect()
}

#[test]
fn a_relay_signed_by_a_stranger_is_not_trusted() -> Result<()> {
    let home = Home::fresh()?;
    let stranger = Authority::open(home.scratch.join("stranger"))?;
    let mut config = home.settings();
    config["relay_ca"] = json!(stranger.certificate());
    home.api.put(CONNECTOR, &json!({ "enabled": true, "config": config }))?.expect(200)?;
    let said = status(&home, &["degraded", "failed"])?;
    ensure!(said["message"].to_string().to_lowercase().contains("certificate"), "{said}");
    home.connect()?;
    let (_, picture) = home.qr("qr")?;
    let phone = Phone::new(home.scratch.join("phone"), stranger.certificate());
    let paired = phone.run(&["pair", "--qr", picture.to_str().context("no path")?, "--wait", "5s"])?;
    ensure!(paired.code != Some(0), "a stranger's relay was trusted");
    ensure!(paired.stderr.to_lowercase().contains("certificate"), "{}", paired.stderr);
    Ok(())
}

#[test]
fn settings_that_cannot_be_are_refused_field_by_field() -> Result<()> {
    let home = Home::fresh()?;
    for (field, value) in [
        ("relay_url", json!("ws://relay.example.org/v1/ws")),
        ("relay_url", json!("https://relay.example.org")),
        ("relay_url", json!(7)),
        ("pairing_ttl", json!(-1)),
        ("notify_delay_secs", json!("soon")),
        ("require_device_confirmation", json!("yes")),
        ("no_such_setting", json!(true)),
    ] {
        let mut config = home.settings();
        config[field] = value.clone();
        let answer = home.api.put(CONNECTOR, &json!({ "enabled": true, "config": config }))?;
        let problem = answer.problem(422).with_context(|| format!("{field} = {value}"))?;
        ensure!(problem["errors"].to_string().contains(field), "{field} = {value}: {problem}");
    }
    let plugin = home.api.get(CONNECTOR)?.expect(200)?;
    ensure!(plugin["enabled"] == false, "{plugin}");
    Ok(())
}

#[test]
fn an_authority_file_that_is_none_is_told() -> Result<()> {
    let home = Home::fresh()?;
    let file = home.scratch.join("not-a.pem");
    fs::write(&file, "hello")?;
    for path in [file, home.scratch.join("not-there.pem")] {
        let mut config = home.settings();
        config["relay_ca"] = json!(path);
        let answer = home.api.put(CONNECTOR, &json!({ "enabled": true, "config": config }))?;
        if answer.status == 422 {
            ensure!(answer.text().contains("relay_ca"), "{}", answer.text());
        } else {
            answer.expect(200)?;
            let said = status(&home, &["failed", "degraded"])?;
            ensure!(said["message"].to_string().contains(".pem"), "{said}");
        }
    }
    Ok(())
}

#[test]
fn a_seed_that_others_can_read_or_that_is_cut_short_stops_the_plugin_and_is_kept() -> Result<()> {
    let mut home = Home::connected()?;
    let seed = home.host.data().join("relay/seed");
    let good = fs::read(&seed)?;
    ensure!(good.len() == 32 && fs::metadata(&seed)?.permissions().mode() & 0o777 == 0o600);
    let namespace = home.api.get(&home.connector("status"))?.expect(200)?["namespace_id"].clone();

    fs::set_permissions(&seed, fs::Permissions::from_mode(0o644))?;
    home.host.restart()?;
    let said = status(&home, &["failed"])?;
    ensure!(said["message"].to_string().contains("seed"), "{said}");
    home.host.kill()?;
    fs::set_permissions(&seed, fs::Permissions::from_mode(0o600))?;

    fs::write(&seed, &good[..31])?;
    home.host.restart()?;
    let said = status(&home, &["failed"])?;
    ensure!(said["message"].to_string().contains("seed"), "{said}");
    ensure!(fs::read(&seed)?.len() == 31, "the seed was replaced");
    home.host.kill()?;

    fs::write(&seed, &good)?;
    home.host.restart()?;
    home.until_connected()?;
    let again = home.api.get(&home.connector("status"))?.expect(200)?["namespace_id"].clone();
    ensure!(again == namespace, "another namespace");
    Ok(())
}

#[test]
fn a_picture_without_a_qr_and_a_qr_that_lies_are_refused() -> Result<()> {
    let home = Home::connected()?;
    let phone = home.phone("phone");
    let file = home.scratch.join("noise.png");
    fs::write(&file, b"this is no picture")?;
    plain_refusal(&phone.run(&["pair", "--qr", file.to_str().context("no path")?])?, "noise.png")?;
    plain_refusal(&phone.run(&["pair", "--qr", "/no/such/picture.png"])?, "picture.png")?;
    let hex = |byte: &str| byte.repeat(32);
    let honest = json!({ "v": 1, "relay_url": home.relay.url(), "namespace_id": hex("00"),
        "agent_ed25519_pub": hex("11"), "agent_x25519_pub": hex("22"), "pairing_token": hex("33") });
    let mut payloads = vec!["{}".to_owned(), "nonsense".to_owned(), "[]".to_owned(), honest.to_string()];
    for (field, value) in [("v", json!(2)), ("relay_url", json!("ftp://x")), ("pairing_token", json!("33"))] {
        let mut payload = honest.clone();
        payload[field] = value;
        payloads.push(payload.to_string());
    }
    for payload in payloads {
        let refused = phone.run(&["pair", "--payload", &payload])?;
        ensure!(refused.code == Some(2), "{payload}: {:?} {}", refused.code, refused.stderr);
        ensure!(!refused.stderr.contains(&hex("33")), "the token is printed: {}", refused.stderr);
    }
    Ok(())
}

#[test]
fn a_used_qr_says_so_and_pairs_nobody() -> Result<()> {
    let home = Home::connected()?;
    let first = home.phone("first");
    let (window, picture) = home.qr("qr")?;
    let picture = picture.to_str().context("no path")?;
    let waiting = first.start(&["pair", "--qr", picture])?;
    waiting.wait_for("the verification code", skald_tests::verification_code)?;
    let second = home.phone("second").run(&["pair", "--qr", picture, "--wait", "5s"])?;
    ensure!(second.code != Some(0) && !second.stderr.is_empty(), "{second:?}");
    ensure!(home.devices()?.len() == 1);
    let code = window["code"].as_str().context("no code")?;
    let used = home.api.get(&home.connector(&format!("pairingqrcode?code={code}")))?;
    ensure!(used.header("content-type") == Some("image/png"), "{:?}", used.headers);
    ensure!(used.body != fs::read(picture)?, "the used QR is still shown");
    Ok(())
}

#[test]
fn http_bodies_that_cannot_be_are_problems_not_crashes() -> Result<()> {
    let home = Home::fresh()?;
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    for body in
        ["", "{", "null", "[]", "7", r#"{"tool_name":7,"summary":"s"}"#, r#"{"summary":"s"}"#, &deep, "\u{0}"]
    {
        let answer = home.api.request("POST", "/api/v1/inbox/approvals", Some(body.as_bytes()))?;
        ensure!((400..500).contains(&answer.status), "{body:.40}: {} {}", answer.status, answer.text());
        answer.problem(answer.status)?;
    }
    for (field, value) in [("expires_in", json!(-5)), ("expires_in", json!("1h")), ("summary", json!(""))] {
        let mut body = json!({ "tool_name": "t", "summary": "s" });
        body[field] = value.clone();
        let answer = home.api.post("/api/v1/inbox/approvals", &body)?;
        ensure!((400..500).contains(&answer.status), "{field} = {value}: {}", answer.status);
    }
    let huge = json!({ "tool_name": "t", "summary": "s", "detail": "x".repeat(40 << 20) });
    let answer = home.api.post("/api/v1/inbox/approvals", &huge);
    ensure!(answer.map_or(true, |answer| answer.status == 413), "forty megabytes were taken");
    ensure!(home.api.get("/api/v1/inbox/requests/not-an-id")?.status == 404);
    let unknown = "/api/v1/inbox/requests/00000000-0000-4000-8000-000000000000";
    home.api.get(unknown)?.problem(404)?;
    ensure!(home.api.get("/api/v1/inbox")?.expect(200)?["badge"] == 0);
    Ok(())
}

#[test]
fn strangers_and_forged_pages_are_kept_out() -> Result<()> {
    let home = Home::fresh()?;
    home.host.anonymous()?.get("/api/v1/inbox")?.problem(401)?;
    home.host.anonymous()?.with_token("not-a-token").get("/api/v1/inbox")?.problem(401)?;
    ensure!(home.host.anonymous()?.get("/healthz")?.status == 200);
    let owner = home.host.signed_in()?;
    owner.get("/api/v1/inbox")?.expect(200)?;
    let body = json!({ "tool_name": "t", "summary": "forged" });
    let forged = owner.clone().with_header("Origin", "https://evil.example");
    ensure!(forged.post("/api/v1/inbox/approvals", &body)?.status == 403);
    let rebound = owner.clone().with_header("Host", "evil.example");
    let refused = rebound.get("/api/v1/inbox")?.status;
    ensure!(refused == 403 || refused == 421 || refused == 400, "{refused}");
    ensure!(home.api.get("/api/v1/inbox")?.expect(200)?["badge"] == 0);
    Ok(())
}

#[test]
fn a_signin_link_works_once() -> Result<()> {
    let home = Home::fresh()?;
    let token = home.host.signin_link().split("#signin=").nth(1).context("no token")?.to_owned();
    let client = home.host.anonymous()?;
    let client = client.clone().with_header("Origin", &client.origin());
    let first = client.post("/api/v1/session", &json!({ "token": token }))?;
    first.expect(204)?;
    let cookie = first.header("set-cookie").context("no cookie")?.to_lowercase();
    ensure!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    client.post("/api/v1/session", &json!({ "token": token }))?.problem(401)?;
    Ok(())
}
