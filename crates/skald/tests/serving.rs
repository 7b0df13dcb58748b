//! `skald serve`: its start, its end, what it writes and what it never writes.

mod common;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use common::{Host, refused, run, skald};
use serde_json::{Value, json};
use skald_testkit::{Scratch, traces_in_text, traces_in_tree};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_it_leaves_behind_is_for_its_user_alone() {
    let host = Host::start();
    assert_eq!(mode(&host.data()), 0o700);
    for entry in fs::read_dir(host.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
    let record = host.scratch.join("state/skald/host.json");
    assert_eq!(mode(&record), 0o600);
    let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    assert_eq!(record["url"], host.url.as_str());
    let here: Value = serde_json::from_slice(&fs::read(host.data().join("host.json")).unwrap()).unwrap();
    assert_eq!((&here["url"], here["pid"].as_u64()), (&json!(host.url), Some(host.program.id().into())));
}

#[test]
fn it_ends_in_order_even_with_pages_and_scripts_waiting_on_it() {
    for by_terminal in [true, false] {
        let mut host = Host::start();
        let owner = host.owner();
        let mut events = owner.events().unwrap();
        assert_eq!(events.next_name().unwrap(), "hello");
        let asking = host.skald_waiting(&["ask", "q"]);
        host.pending(&owner);
        if by_terminal {
            host.program.interrupt().unwrap();
        } else {
            host.program.terminate().unwrap();
        }
        let finished = host.program.finished().unwrap();
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert!(
            !finished.stderr.contains("WARN") && !finished.stderr.contains("ERROR"),
            "{}",
            finished.stderr
        );
        drop(asking);
    }
}

#[test]
fn the_command_lines_token_stays_over_restarts_and_is_made_anew_where_it_is_no_good() {
    let mut host = Host::start();
    let file = host.data().join("cli-token");
    let first = fs::read(&file).unwrap();
    host.restart("127.0.0.1:0");
    assert_eq!(fs::read(&file).unwrap(), first);
    host.program.kill().unwrap();
    fs::write(&file, "nonsense").unwrap();
    host.restart("127.0.0.1:0");
    let second = fs::read(&file).unwrap();
    assert_ne!(second, first);
    assert_eq!(mode(&file), 0o600);
    host.program.kill().unwrap();
    fs::remove_file(&file).unwrap();
    host.restart("127.0.0.1:0");
    host.skald(&["status"]).ok().unwrap();
    let old = host.anonymous().with_token(std::str::from_utf8(&first).unwrap());
    old.get("/api/v1/inbox").unwrap().problem(401).unwrap();
}

#[test]
fn what_keeps_it_from_starting_is_named_in_one_sentence() {
    let scratch = Scratch::new().unwrap();
    let data = scratch.join("data");
    let serve = |words: &[&str]| {
        let mut command = skald(&scratch);
        command.args(["serve", "--data"]).arg(&data);
        run(command, words)
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&serve(&["--listen", &address]), 2, &address);
    assert!(!data.exists(), "nothing is made before the port is taken");
    refused(&serve(&["--listen", "203.0.113.7:0"]), 2, "203.0.113.7");
    for words in [
        &["--listen", "nonsense"][..],
        &["--listen", "127.0.0.1"],
        &["--allow-host", "http://x"],
        &["--log", "xml"],
    ] {
        assert_eq!(serve(words).code, Some(2), "{words:?}");
    }
    fs::write(&data, "a file").unwrap();
    refused(&serve(&["--listen", "127.0.0.1:0"]), 2, "data");
    fs::remove_file(&data).unwrap();
}

/// fault 20: a configuration value that cannot be read is replaced silently by its default.
#[test]
fn fault_20_a_value_that_cannot_be_read_stops_the_start_and_is_named() {
    let scratch = Scratch::new().unwrap();
    let data = scratch.join("data");
    let mut command = skald(&scratch);
    command.env("RUST_LOG", "skald=nonsense").args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    refused(&run(command, &[]), 2, "RUST_LOG");
    let mut command = skald(&scratch);
    command.env("SKALD_LISTEN", "nonsense").args(["serve", "--data"]).arg(&data);
    let finished = run(command, &[]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("--listen"), "{}", finished.stderr);
}

#[test]
fn a_folder_in_use_or_open_to_others_is_named() {
    let mut host = Host::start();
    let serve = |host: &Host| {
        let mut command = skald(&host.scratch);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(host.data());
        run(command, &[])
    };
    refused(&serve(&host), 2, "already running");
    host.skald(&["status"]).ok().unwrap();
    host.program.kill().unwrap();
    let database = host.data().join("skald.db");
    fs::set_permissions(&database, fs::Permissions::from_mode(0o644)).unwrap();
    refused(&serve(&host), 2, "chmod");
}

/// The browser's stand-in keeps what it was given and then ends the host.
#[test]
fn the_browser_gets_the_link_through_a_private_file_that_does_not_stay() {
    let scratch = Scratch::new().unwrap();
    let tools = scratch.join("tools");
    fs::create_dir(&tools).unwrap();
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opener = tools.join(opener);
    let script = format!(
        "#!/bin/sh\necho \"$@\" > '{0}/words'\ncp \"$1\" '{0}/page'\nkill -TERM $PPID\n",
        scratch.path().display()
    );
    fs::write(&opener, script).unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = skald(&scratch);
    command.env("PATH", format!("{}:{path}", tools.display()));
    command.args(["serve", "--listen", "127.0.0.1:0", "--open", "--data"]).arg(scratch.join("data"));
    let finished = run(command, &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let link = finished.stdout.split_whitespace().find(|w| w.contains("#signin=")).unwrap();
    assert!(fs::read_to_string(scratch.join("page")).unwrap().contains(link));
    assert!(!fs::read_to_string(scratch.join("words")).unwrap().contains("signin"));
    assert!(!scratch.join("data/open.html").exists());
}

#[test]
fn the_log_can_be_json() {
    let scratch = Scratch::new().unwrap();
    let mut command = skald(&scratch);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "json", "--data"]).arg(scratch.join("data"));
    let mut program = skald_testkit::Program::start("skald serve", command).unwrap();
    let line = program.wait_for("a line of the log", |l| l.starts_with('{').then(|| l.to_owned())).unwrap();
    assert!(serde_json::from_str::<Value>(&line).unwrap()["level"].is_string(), "{line}");
    program.terminate().unwrap();
    assert_eq!(program.finished().unwrap().code, Some(0));
}

/// With everything that can be logged turned on.
#[test]
fn no_secret_reaches_a_log_or_the_disk() {
    let mut host = Host::start_logging(Some("trace"));
    let link = host.skald(&["link"]).ok().unwrap();
    let link = link.trim().split("#signin=").nth(1).unwrap().to_owned();
    let client = host.anonymous();
    let signed_in = client.post("/api/v1/session", &json!({"token": link})).unwrap();
    signed_in.expect(204).unwrap();
    let cookie = signed_in.header("set-cookie").unwrap().split(['=', ';']).nth(1).unwrap().to_owned();
    let owner = client.clone().with_session(&signed_in).unwrap();
    let token = host.skald(&["token", "create", "script"]).ok().unwrap().trim().to_owned();
    let script = client.clone().with_token(&token);
    let value = "geheim-4711-canary";
    let prompt =
        json!({"server_name": "s", "message": "Password", "field_name": "password", "sensitive": true});
    let made = script.post("/api/v1/inbox/elicitations", &prompt).unwrap().expect(201).unwrap();
    let place = format!("/api/v1/inbox/requests/{}", made["request_id"].as_str().unwrap());
    let answer = json!({"action": "accept", "content": {"password": value}});
    owner.post(&format!("{place}/answer"), &answer).unwrap().expect(200).unwrap();
    let told = script.get(&place).unwrap().expect(200).unwrap();
    assert_eq!(told["outcome"]["content"]["password"], value);
    // Wrong ones must not be repeated either.
    let wrong = client.clone().with_token("wrong-token-canary").get("/api/v1/inbox").unwrap().text();
    let bad = script.post("/api/v1/inbox/approvals", &json!({"tool_name": {"a": value}})).unwrap().text();
    assert!(!wrong.contains("canary") && !bad.contains("canary"), "{wrong} {bad}");
    let cli = fs::read_to_string(host.data().join("cli-token")).unwrap();

    host.program.terminate().unwrap();
    let finished = host.program.finished().unwrap();
    assert!(finished.stderr.contains("DEBUG"), "the log was on");
    fs::remove_file(host.data().join("cli-token")).unwrap();
    for (name, secret) in [
        ("sign-in token", link.as_str()),
        ("cookie", &cookie),
        ("API token", &token),
        ("command line's token", cli.trim()),
        ("elicited value", value),
        ("wrong token", "wrong-token-canary"),
    ] {
        assert!(!secret.is_empty());
        let mut found = traces_in_text("log", &finished.stderr, secret.as_bytes());
        found.extend(traces_in_text("output", &finished.stdout, secret.as_bytes()));
        found.extend(traces_in_tree(host.scratch.path(), secret.as_bytes()).unwrap());
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}
