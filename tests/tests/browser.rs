//! The page in a real browser, against the real programs.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skald_testkit::{Browser, Page, Phone};
use skald_tests::{Home, verification_code};

/// Signs the tab in by a fresh link, which the page takes from the address and removes there.
fn sign_in(home: &Home, page: &Page<'_>) -> Result<()> {
    page.goto(&home.host.link()?)?;
    page.see("Nothing waits for you")?;
    let address = page.act("url", json!({}))?;
    ensure!(!address.to_string().contains("signin"), "the token stays in the address: {address}");
    Ok(())
}

/// Pairs `phone` with the QR on the page, as a person does who holds it before the screen.
fn pair_on_the_page(home: &Home, page: &Page<'_>, phone: &Phone) -> Result<()> {
    page.follow("Devices")?;
    page.press("Pair a device")?;
    page.act("wait", json!({ "selector": "img.qr" }))?;
    page.act("evaluate", json!({ "expression": "document.querySelector('img.qr').decode()" }))?;
    let picture = home.scratch.join("screenshot.png");
    page.picture(&picture, None)?;
    let picture = picture.to_str().context("no path")?;
    let mut pairing = phone.start(&["pair", "--qr", picture, "--name", "Ann's terminal"])?;
    let code = pairing.wait_for("the verification code", verification_code)?;
    page.see("Waiting to be admitted")?;
    let shown = page.text(".code-large")?;
    ensure!(digits(&shown) == digits(&code), "the page shows {shown}, the device {code}");
    page.press("Admit")?;
    pairing.finished()?.ok()?;
    page.see("Ann's terminal")
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

/// The page reported nothing, unless it is that a request was answered with this status. (A plugin that is on its way up
/// answers 503, and the page asks again.)
fn no_faults_but(page: &Page<'_>, status: &str) -> Result<()> {
    let faults = page.faults()?;
    let unexpected: Vec<_> =
        faults.iter().filter(|fault| !fault.contains(&format!("status of {status}"))).collect();
    ensure!(unexpected.is_empty(), "{unexpected:?}");
    Ok(())
}

#[test]
fn a_person_signs_in_enables_the_connector_pairs_and_answers_on_both_screens() -> Result<()> {
    let home = Home::fresh()?;
    let browser = Browser::start()?;
    let page = browser.page("owner");
    sign_in(&home, &page)?;

    page.follow("Plugins")?;
    page.act("click", json!({ "selector": "a[href='/plugins/mobile-connector']" }))?;
    page.fill("Relay address", home.relay.url())?;
    page.fill("Relay's certificate authority", home.authority.certificate().to_str().context("no path")?)?;
    page.fill("Delay before phones are told", "0")?;
    page.press("Save settings")?;
    page.see("Settings saved.")?;
    page.act("click", json!({ "selector": "[role=switch]" }))?;
    page.act("wait", json!({ "selector": ".plugin-status.running" }))?;
    home.until_connected()?;

    let phone = home.phone("phone");
    pair_on_the_page(&home, &page, &phone)?;

    // Loading the page again, which the host answers with "unchanged", leaves it working.
    page.act("reload", json!({}))?;
    page.see("Ann's terminal")?;

    page.follow("Inbox")?;
    let mut on_page =
        home.host.skald_waiting(&["approve", "--tool", "deploy", "--summary", "Deploy to the moon"])?;
    page.see("Deploy to the moon")?;
    page.press("Approve")?;
    ensure!(on_page.finished()?.code == Some(0));

    let mut on_phone =
        home.host.skald_waiting(&["approve", "--tool", "deploy", "--summary", "Deploy to the sun"])?;
    page.see("Deploy to the sun")?;
    let id = home.until_pending(1)?["approvals"][0]["request_id"].as_str().context("no id")?.to_owned();
    phone.run(&["reject", &id, "--reason", "too hot"])?.ok()?;
    ensure!(on_phone.finished()?.code == Some(1));
    // No ghost stays on the page; it tells who was first.
    page.act(
        "wait",
        json!({ "selector": format!("article.card:not(.closed)[data-item='{id}']"), "state": "detached" }),
    )?;
    page.follow("History")?;
    page.see("Deploy to the sun")?;
    page.act("click", json!({ "text": "Deploy to the sun" }))?;
    page.see("too hot")?;
    no_faults_but(&page, "503")
}

#[test]
fn the_page_is_browsed_through_the_relay_as_the_device_and_lives() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let proxy = phone.start(&["proxy", "--listen", "127.0.0.1:0"])?;
    let address = proxy.wait_for("its address", |line| {
        line.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned)
    })?;
    let browser = Browser::start()?;
    let page = browser.page("device");
    page.goto(address.trim_end_matches(['.', ',']))?;
    // Signed in as itself, without a link, and told so.
    page.see("Nothing waits for you")?;
    let session =
        page.act("evaluate", json!({ "expression": "fetch('/api/v1/session').then((r) => r.json())" }))?;
    ensure!(session["principal"]["kind"] == "device", "{session}");
    ensure!(session["principal"]["name"] == "phone", "{session}");
    let permissions: Vec<&str> =
        session["permissions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    ensure!(permissions == ["read", "answer"], "{session}");
    let plugins = "fetch('/api/v1/plugins/mobile-connector', { method: 'PUT', body: '{\"enabled\":false}', \
                   headers: { 'content-type': 'application/json' } }).then((r) => r.status)";
    ensure!(page.act("evaluate", json!({ "expression": plugins }))? == 403, "a device administers");

    let id = home.ask_approval("deploy", "Seen from afar")?;
    page.see("Seen from afar")?;
    page.press("Approve")?;
    let outcome = home.outcome(&id)?;
    ensure!(outcome["outcome"]["decision"] == "approved", "{outcome}");
    ensure!(outcome["resolved_by"].to_string().contains("phone"), "{outcome}");

    // A change made at home is seen there without anybody touching the page.
    home.ask("clarifications", &json!({ "question": "Which way?", "suggested_answers": ["left", "right"] }))?;
    page.see("Which way?")?;
    page.press("left")?;
    home.until_pending(0)?;
    // The refusal provoked above is the one that the browser reports.
    no_faults_but(&page, "403")
}

#[test]
fn a_used_signin_link_says_what_to_do_instead() -> Result<()> {
    let home = Home::fresh()?;
    let browser = Browser::start()?;
    let link = home.host.signin_link();
    browser.page("owner").goto(link)?;
    browser.page("owner").see("Nothing waits for you")?;
    browser.page("stranger").goto(link)?;
    browser.page("stranger").see("skald link")?;
    Ok(())
}
