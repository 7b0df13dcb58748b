//! The README's pictures: starts a relay, a host and a phone, asks for a few things, and photographs the pages into the
//! folder given.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;
use skald_testkit::Browser;
use skald_tests::{Home, verification_code};

fn main() -> Result<()> {
    let folder: PathBuf = std::env::args_os().nth(1).context("Name the folder for the pictures.")?.into();
    std::fs::create_dir_all(&folder)?;
    let home = Home::fresh()?;
    let browser = Browser::start()?;
    let page = browser.page("owner");
    page.look(1080, 720, "light")?;
    page.goto(&home.host.link()?)?;
    page.see("Nothing waits for you")?;
    page.goto(&format!("{}/plugins/mobile-connector", home.host.origin()))?;
    let take = |name: &str| page.picture(&folder.join(name), None);
    home.connect()?;
    page.act("reload", json!({}))?;
    page.act("wait", json!({ "selector": ".plugin-status.running" }))?;
    take("plugin.png")?;

    page.follow("Devices")?;
    page.press("Pair a device")?;
    page.act("wait", json!({ "selector": "img.qr" }))?;
    page.act("evaluate", json!({ "expression": "document.querySelector('img.qr').decode()" }))?;
    take("pairing.png")?;
    let qr = home.scratch.join("qr.png");
    page.picture(&qr, None)?;
    let phone = home.phone("phone");
    let mut pairing =
        phone.start(&["pair", "--qr", qr.to_str().context("no path")?, "--name", "Ann's phone"])?;
    pairing.wait_for("the verification code", verification_code)?;
    page.see("Waiting to be admitted")?;
    take("verification.png")?;
    page.press("Admit")?;
    pairing.finished()?.ok()?;

    ask(&home)?;
    // Opened anew, so that no message of what was done before lies over it.
    page.goto(&format!("{}/inbox", home.host.origin()))?;
    page.see("Which branch")?;
    take("inbox.png")?;

    let proxy = phone.start(&["proxy", "--listen", "127.0.0.1:0"])?;
    let address = proxy.wait_for("its address", |line| {
        line.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned)
    })?;
    let pocket = browser.page("pocket");
    pocket.look(390, 760, "light")?;
    pocket.goto(address.trim_end_matches(['.', ',']))?;
    pocket.see("Deploy")?;
    pocket.picture(&folder.join("inbox-phone.png"), None)?;
    Ok(())
}

fn ask(home: &Home) -> Result<()> {
    let command =
        "ssh web1 -- 'cd /srv/site && git fetch && git checkout v2.4.1 && systemctl --user restart site'";
    home.ask(
        "approvals",
        &json!({
            "tool_name": "shell",
            "summary": "Deploy v2.4.1 to web1",
            "agent_label": "release script",
            "session": "release-2.4.1",
            "arguments": { "command": command },
            "blocks": { "v": 1, "summary": "Deploy v2.4.1 to web1", "blocks": [
                { "type": "key_value", "key": "Host", "value": "web1", "value_type": "string" },
                { "type": "block", "label": "Command", "value": command, "value_type": "command" },
            ] },
        }),
    )?;
    home.ask(
        "clarifications",
        &json!({
            "question": "Which branch shall the fix go to?",
            "agent_label": "code agent",
            "suggested_answers": ["main", "release-2.4"],
        }),
    )?;
    Ok(())
}
