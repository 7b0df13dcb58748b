//! Tokens, links, plugins and status.

mod common;

use common::{Host, refused};
use serde_json::Value;

#[test]
fn tokens_are_made_listed_and_revoked() {
    let host = Host::start();
    let token = host.skald(&["token", "create", "build"]).ok().unwrap();
    let client = host.anonymous().with_token(token.trim());
    client.get("/api/v1/inbox").unwrap().expect(200).unwrap();
    refused(&host.skald(&["token", "create", "build"]), 1, "build");
    let listed: Value =
        serde_json::from_str(&host.skald(&["token", "list", "--json"]).ok().unwrap()).unwrap();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["build", "cli"]);
    let table = host.skald(&["token", "list"]).ok().unwrap();
    assert!(table.starts_with("NAME") && table.contains("build") && !table.contains(token.trim()), "{table}");
    assert!(host.skald(&["token", "revoke", "build"]).ok().unwrap().is_empty());
    client.get("/api/v1/inbox").unwrap().problem(401).unwrap();
    refused(&host.skald(&["token", "revoke", "build"]), 1, "build");
}

#[test]
fn a_link_signs_a_browser_in_once() {
    let host = Host::start();
    let client = host.anonymous();
    let printed = host.skald(&["link"]).ok().unwrap();
    let made: Value = serde_json::from_str(&host.skald(&["link", "--json"]).ok().unwrap()).unwrap();
    for link in [host.link.as_str(), printed.trim(), made["url"].as_str().unwrap()] {
        let token = link.strip_prefix(&format!("{}/#signin=", host.url)).unwrap();
        let sign_in = || client.post("/api/v1/session", &serde_json::json!({"token": token})).unwrap();
        sign_in().expect(204).unwrap();
        sign_in().problem(401).unwrap();
    }
}

#[test]
fn plugins_are_listed_and_configured() {
    let host = Host::start();
    let listed: Value = serde_json::from_str(&host.skald(&["plugins", "--json"]).ok().unwrap()).unwrap();
    assert_eq!(listed[0]["id"], "mobile-connector");
    assert!(host.skald(&["plugins"]).ok().unwrap().contains("mobile-connector"));
    let shown = host.skald(&["plugins", "config", "mobile-connector"]).ok().unwrap();
    assert!(shown.lines().any(|l| l == "pairing_ttl=300"), "{shown}");
    host.skald(&["plugins", "config", "mobile-connector", "pairing_ttl=120"]).ok().unwrap();
    let json = host.skald(&["plugins", "config", "mobile-connector", "--json"]).ok().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["pairing_ttl"], 120);
    refused(&host.skald(&["plugins", "config", "mobile-connector", "pairing_ttl=soon"]), 2, "pairing_ttl");
    refused(&host.skald(&["plugins", "config", "mobile-connector", "no_such=1"]), 2, "no_such");
    refused(&host.skald(&["plugins", "config", "mobile-connector", "pairing_ttl"]), 2, "KEY=VALUE");
    for words in
        [&["plugins", "enable", "none"][..], &["plugins", "disable", "none"], &["plugins", "config", "none"]]
    {
        refused(&host.skald(words), 1, "plugin");
    }
    let idle = host.skald(&["plugins", "enable", "mobile-connector"]);
    assert_eq!(idle.code, Some(0), "{}", idle.stderr);
    refused(&host.skald(&["pair"]), 2, "relay");
    host.skald(&["plugins", "disable", "mobile-connector"]).ok().unwrap();
}

#[test]
fn devices_of_a_connector_that_is_switched_off_are_a_matter_of_configuration() {
    let host = Host::start();
    refused(&host.skald(&["devices"]), 2, "switch it on");
    refused(&host.skald(&["pair"]), 2, "switch it on");
    refused(&host.skald(&["devices", "revoke", "x"]), 2, "key");
}

#[test]
fn status_says_how_the_host_fares() {
    let host = Host::start();
    let text = host.skald(&["status"]).ok().unwrap();
    assert!(text.contains(&host.url) && text.contains("Inbox: 0"), "{text}");
    let json: Value = serde_json::from_str(&host.skald(&["status", "--json"]).ok().unwrap()).unwrap();
    assert_eq!((json["url"].as_str(), json["badge"].as_i64()), (Some(host.url.as_str()), Some(0)));
    assert_eq!(json["plugins"][0]["id"], "mobile-connector");
}
