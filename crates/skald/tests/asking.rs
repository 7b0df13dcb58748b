//! Commands that ask and wait.

mod common;

use common::{Host, refused, run, skald};
use serde_json::json;
use skald_testkit::Scratch;

const APPROVE: [&str; 5] = ["approve", "--tool", "deploy", "--summary", "Deploy the site"];

#[test]
fn an_approval_that_is_given_is_exit_code_0() {
    let host = Host::start();
    let owner = host.owner();
    let words = [
        &APPROVE[..],
        &["--arguments", r#"{"where":"production"}"#, "--detail", "All of it", "--timeout", "5m"],
    ];
    let mut asking = host.skald_waiting(&words.concat());
    let item = host.pending(&owner);
    assert_eq!((&item["tool_name"], &item["summary"]), (&json!("deploy"), &json!("Deploy the site")));
    assert_eq!((&item["arguments"], &item["detail"]), (&json!({"where": "production"}), &json!("All of it")));
    let asked = item["expires_at"].as_i64().unwrap() - item["created_at"].as_i64().unwrap();
    assert_eq!(asked, 300_000);
    host.answer(&owner, &json!({"decision": "approved"}));
    let finished = asking.finished().unwrap();
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), ""));
    assert_eq!(finished.stderr.trim(), "Approved by web.");
}

#[test]
fn a_rejection_is_exit_code_1_with_the_reason_on_standard_error() {
    let host = Host::start();
    let owner = host.owner();
    let mut asking = host.skald_waiting(&[&APPROVE[..], &["--json"]].concat());
    host.answer(&owner, &json!({"decision": "rejected", "reason": "not on a Friday"}));
    let finished = asking.finished().unwrap();
    assert_eq!(finished.code, Some(1));
    assert_eq!(finished.stderr.trim(), "skald: rejected by web: not on a Friday");
    let told: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(told["outcome"]["decision"], "rejected");
}

/// fault 24: a timeout is reported to the agent as "the user said no".
#[test]
fn fault_24_a_lapsed_question_is_exit_code_3_and_never_a_no() {
    let host = Host::start();
    for words in
        [&[&APPROVE[..], &["--timeout", "1s"]].concat()[..], &["ask", "Still there?", "--timeout", "1s"]]
    {
        let finished = host.skald(words);
        refused(&finished, 3, "lapsed");
        for no in ["reject", "refus", "denied", "said no"] {
            assert!(!finished.stderr.contains(no), "{}", finished.stderr);
        }
        let outcome = host.skald(&[words, &["--json"]].concat());
        assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
        let outcome: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(outcome, json!({"state": "expired"}));
    }
}

#[test]
fn a_withdrawn_question_is_exit_code_3() {
    let host = Host::start();
    let owner = host.owner();
    let mut asking = host.skald_waiting(&["ask", "Still there?"]);
    let id = host.pending(&owner)["request_id"].as_str().unwrap().to_owned();
    owner.delete(&format!("/api/v1/inbox/requests/{id}")).unwrap().expect(204).unwrap();
    refused(&asking.finished().unwrap(), 3, "withdrawn");
}

#[test]
fn whoever_interrupts_the_command_withdraws_the_question() {
    let host = Host::start();
    let owner = host.owner();
    for by_terminal in [true, false] {
        let mut asking = host.skald_waiting(&APPROVE);
        let id = host.pending(&owner)["request_id"].as_str().unwrap().to_owned();
        if by_terminal {
            asking.interrupt().unwrap();
        } else {
            asking.terminate().unwrap();
        }
        refused(&asking.finished().unwrap(), 3, "withdrawn");
        assert_eq!(host.state(&owner, &id)["state"], "cancelled");
    }
}

#[test]
fn an_answer_is_printed_as_it_was_given() {
    let host = Host::start();
    let owner = host.owner();
    let mut asking = host.skald_waiting(&[
        "ask",
        "Which colour?",
        "--option",
        "red",
        "--option",
        "blue",
        "--context",
        "c",
    ]);
    let item = host.pending(&owner);
    assert_eq!((&item["suggested_answers"], &item["context"]), (&json!(["red", "blue"]), &json!("c")));
    host.answer(&owner, &json!({"answer": "a warm grey\nwith  blue"}));
    let finished = asking.finished().unwrap();
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), "a warm grey\nwith  blue\n"));
}

#[test]
fn waiting_survives_a_host_that_dies_and_comes_back_on_the_same_port_and_on_another() {
    let mut host = Host::start();
    for same_port in [true, false] {
        let owner = host.owner();
        let mut asking = host.skald_waiting(&["ask", "Which colour?"]);
        let id = host.pending(&owner)["request_id"].as_str().unwrap().to_owned();
        host.program.kill().unwrap();
        asking
            .wait_for("that the host is away", |l| l.contains("waiting for it to come back").then_some(()))
            .unwrap();
        let listen = if same_port { host.address() } else { "127.0.0.1:0".to_owned() };
        host.restart(&listen);
        let owner = host.owner();
        assert_eq!(host.pending(&owner)["request_id"], id.as_str(), "the question outlived the host");
        host.answer(&owner, &json!({"answer": "grey"}));
        let finished = asking.finished().unwrap();
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), "grey\n"), "{}", finished.stderr);
    }
}

#[test]
fn a_host_that_stays_away_beyond_the_questions_time_is_exit_code_4() {
    let mut host = Host::start();
    let owner = host.owner();
    let mut asking = host.skald_waiting(&["ask", "Which colour?", "--timeout", "1s"]);
    host.pending(&owner);
    host.program.kill().unwrap();
    let finished = asking.finished().unwrap();
    assert_eq!(finished.code, Some(4), "{}", finished.stderr);
    assert!(finished.stderr.contains("is not known"), "{}", finished.stderr);
}

#[test]
fn an_unreachable_host_is_exit_code_4() {
    let mut host = Host::start();
    host.program.kill().unwrap();
    for words in [
        &APPROVE[..],
        &["ask", "q"],
        &["notify", "t"],
        &["run", "--", "true"],
        &["status"],
        &["link"],
        &["token", "list"],
        &["devices"],
        &["plugins"],
        &["pair"],
    ] {
        refused(&host.skald(words), 4, "skald serve");
    }
    let nowhere = Scratch::new().unwrap();
    refused(&run(skald(&nowhere), &["ask", "q"]), 4, "skald serve");
}

#[test]
fn wrong_usage_and_wrong_configuration_are_exit_code_2() {
    let host = Host::start();
    refused(&host.skald(&[&APPROVE[..], &["--arguments", "{"]].concat()), 2, "--arguments");
    refused(&host.skald(&["approve", "--tool", "", "--summary", "s"]), 2, "tool_name");
    refused(&host.skald(&["ask", "q", "--url", "https://example.org"]), 2, "--url");
    refused(&host.skald(&["ask", "q", "--token", "nonsense"]), 2, "token create");
    refused(&host.skald(&["ask", "q", "--token", ""]), 2, "token");
    // Another host's address is not sent this one's token.
    refused(&host.skald(&["ask", "q", "--url", "http://127.0.0.1:1"]), 2, "no token");
    for words in [
        &["approve", "--tool", "t"][..],
        &["ask"],
        &["ask", "q", "--timeout", "soon"],
        &["ask", "q", "--timeout", "0s"],
        &["run"],
        &["token", "create"],
        &["nonsense"],
    ] {
        refused(&host.skald(words), 2, "skald --help");
    }
}

#[test]
fn the_host_is_found_by_flag_environment_and_record() {
    let host = Host::start();
    let elsewhere = Scratch::new().unwrap();
    let data = host.data();
    let data = data.to_str().unwrap();
    run(skald(&elsewhere), &["status", "--data", data]).ok().unwrap();
    let mut command = skald(&elsewhere);
    command.env("SKALD_DATA", data);
    run(command, &["status"]).ok().unwrap();
    let token = host.skald(&["token", "create", "other"]).ok().unwrap();
    let mut command = skald(&elsewhere);
    command.env("SKALD_URL", &host.url).env("SKALD_TOKEN", token.trim());
    run(command, &["status"]).ok().unwrap();
    run(skald(&elsewhere), &["status", "--url", &host.url, "--data", data]).ok().unwrap();
    host.skald(&["status", "--url", &host.url]).ok().unwrap();
}

#[test]
fn notifications_are_taken() {
    let host = Host::start();
    host.skald(&["notify", "Backup finished", "412 files"]).ok().unwrap();
    host.skald(&["notify", "Backup finished"]).ok().unwrap();
    refused(&host.skald(&["notify", ""]), 2, "title");
}
