//! `skald run`.

mod common;

use std::os::unix::process::ExitStatusExt;

use common::{Host, refused};
use serde_json::json;

#[test]
fn the_whole_command_is_shown_and_its_exit_code_handed_on() {
    let host = Host::start();
    let owner = host.owner();
    let long = format!("echo {} > ran; exit 7", "x".repeat(5000));
    let mut running = host.skald_waiting(&["run", "--timeout", "5m", "--", "sh", "-c", &long]);
    let item = host.pending(&owner);
    assert!(!host.scratch.join("ran").exists(), "nothing runs before it is approved");
    let block = &item["blocks"]["blocks"][0];
    assert_eq!(
        (&block["value_type"], &block["value"]),
        (&json!("command"), &json!(format!("sh -c '{long}'")))
    );
    assert_eq!(
        item["blocks"]["blocks"][1]["value"],
        host.scratch.path().canonicalize().unwrap().to_str().unwrap()
    );
    assert_eq!(item["arguments"]["command"], json!(["sh", "-c", long]));
    assert!(item["summary"].as_str().unwrap().chars().count() <= 120);
    host.answer(&owner, &json!({"decision": "approved"}));
    assert_eq!(running.finished().unwrap().code, Some(7));
    assert!(host.scratch.join("ran").exists());
}

#[test]
fn the_command_speaks_and_listens_as_if_it_had_been_started_directly() {
    let host = Host::start();
    let owner = host.owner();
    let mut running = host.skald_waiting(&["run", "cat"]);
    host.answer(&owner, &json!({"decision": "approved"}));
    running.write("hello\n").unwrap();
    running.close_stdin();
    let finished = running.finished().unwrap();
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), "hello\n"));

    let mut running = host.skald_waiting(&["run", "--", "sh", "-c", "kill -TERM $$"]);
    host.answer(&owner, &json!({"decision": "approved"}));
    assert_eq!(running.wait().unwrap().signal(), Some(15));
}

#[test]
fn what_was_rejected_or_lapsed_does_not_run() {
    let host = Host::start();
    let owner = host.owner();
    let mut running = host.skald_waiting(&["run", "--", "touch", "ran"]);
    host.answer(&owner, &json!({"decision": "rejected", "reason": "no need"}));
    refused_with(&running.finished().unwrap(), 1, "no need");
    refused(&host.skald(&["run", "--timeout", "1s", "--", "touch", "ran"]), 3, "lapsed");
    assert!(!host.scratch.join("ran").exists());
}

#[track_caller]
fn refused_with(finished: &skald_testkit::Finished, code: i32, about: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert!(finished.stderr.contains(about), "{finished:?}");
}

#[test]
fn a_command_that_cannot_be_started_ends_as_in_a_shell() {
    let host = Host::start();
    let owner = host.owner();
    for (command, code) in [("no-such-command-anywhere", 127), ("/", 126)] {
        let mut running = host.skald_waiting(&["run", "--", command]);
        host.answer(&owner, &json!({"decision": "approved"}));
        refused(&running.finished().unwrap(), code, command);
    }
}

#[test]
fn no_command_and_an_empty_one_are_told_before_anybody_is_asked() {
    let host = Host::start();
    for words in [&["run"][..], &["run", "--"], &["run", "--", ""], &["run", "", "argument"]] {
        let finished = host.skald(words);
        refused(&finished, 2, if words.contains(&"") { "behind `--`" } else { "COMMAND" });
    }
    assert_eq!(host.owner().get("/api/v1/inbox").unwrap().expect(200).unwrap()["badge"], 0);
}

#[test]
fn a_bypass_covers_the_program_and_no_other() {
    let host = Host::start();
    let owner = host.owner();
    let mut running = host.skald_waiting(&["run", "echo", "once"]);
    host.answer(&owner, &json!({"decision": "approved", "bypass_secs": 900}));
    assert_eq!(running.finished().unwrap().code, Some(0));
    assert_eq!(host.skald(&["run", "echo", "again"]).ok().unwrap(), "again\n");
    let mut other = host.skald_waiting(&["run", "true"]);
    host.answer(&owner, &json!({"decision": "rejected"}));
    assert_eq!(other.finished().unwrap().code, Some(1));
}
