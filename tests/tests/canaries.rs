//! Blindness and discretion: what is secret turns up in no log, URL, database or error text.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skald_testkit::{Client, Rng, Trace, binary, free_port, is_in_memory, traces_in_text, traces_in_tree};
use skald_tests::{Home, canary};

/// Every secret of one run, by name.
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn in_text(&self, place: &str, text: &str) -> Vec<(&'static str, Trace)> {
        let find = |(name, secret): &(&'static str, String)| {
            let traces = traces_in_text(place, text, secret.as_bytes());
            let name = *name;
            traces.into_iter().map(move |trace| (name, trace)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(find).collect()
    }
}

#[test]
fn neither_the_relay_nor_a_log_nor_a_database_holds_what_is_secret() -> Result<()> {
    let mut rng = Rng::from_env(0x5ca1d);
    let metrics = format!("127.0.0.1:{}", free_port()?);
    let mut home =
        Home::with_relay_settings(&[("RELAY_LOG", "debug"), ("RELAY_METRICS_BIND", metrics.as_str())])?;
    home.connect()?;
    let phone = home.pair("phone")?;
    let [summary, argument, reason, question, reply, value, title] =
        std::array::from_fn(|_| canary(&mut rng));
    let token = home.host.token("canary")?;
    let link = home.host.link()?;
    let link = link.split("#signin=").nth(1).context("no sign-in token")?.to_owned();

    let body = json!({ "tool_name": "t", "summary": summary, "arguments": { "a": argument } });
    let id = home.ask("approvals", &body)?;
    phone.run(&["inbox"])?.ok()?;
    phone.run(&["reject", &id, "--reason", &reason])?.ok()?;
    home.outcome(&id)?;
    let id = home.ask("clarifications", &json!({ "question": question }))?;
    phone.run(&["answer", &id, &reply])?.ok()?;
    home.outcome(&id)?;
    let prompt =
        json!({ "server_name": "s", "message": "Password", "field_name": "password", "sensitive": true });
    let id = home.ask("elicitations", &prompt)?;
    let given = phone.run_with(&["elicit", &id, "--value-from-stdin"], &format!("{value}\n"))?;
    let given = format!("{}{}", given.stdout, given.stderr);
    home.outcome(&id)?;
    home.host.skald(&["notify", &title])?.ok()?;
    // One more item waits at the relay for the absent device, and one more QR is drawn.
    home.ask_approval("t", &summary)?;
    home.qr("another")?;
    let seed = std::fs::read(home.host.data().join("relay/seed"))?;
    let wrong = home.api.clone().with_token(&format!("{token}x")).get("/api/v1/inbox")?.text();

    let content = [&summary, &argument, &reason, &question, &reply, &title];
    let relay = home.relay.program().id();
    // What the relay has in hand at this moment it can be seen to have: the search would find a content.
    ensure!(is_in_memory(relay, home.relay.data().as_os_str().as_encoded_bytes())?, "the search is blind");
    for secret in content.into_iter().chain([&value]) {
        ensure!(!is_in_memory(relay, secret.as_bytes())?, "the relay's memory holds what is secret");
    }
    let metrics = Client::new(&format!("http://{metrics}"))?.get("/metrics")?;
    ensure!(metrics.status == 200 && metrics.text().contains("skald_relay_"), "{}", metrics.text());

    home.host.program().terminate()?;
    home.host.program().wait()?;
    home.relay.program().terminate()?;
    home.relay.program().wait()?;

    let mut secrets = Secrets(vec![("token", token), ("sign-in link", link), ("elicited value", value)]);
    let host_log = home.host.log();
    let relay_log = home.relay.log();
    secrets.0.extend(content.map(|text| ("content", text.clone())));

    let mut found = secrets.in_text("the host's log", &host_log);
    found.extend(secrets.in_text("the relay's log", &relay_log));
    found.extend(secrets.in_text("the relay's metrics", &metrics.text()));
    found.extend(secrets.in_text("what elicit printed", &given));
    found.extend(secrets.in_text("an error", &wrong));
    for (name, secret) in &secrets.0 {
        // The relay knows nothing of any of them.
        let traces = traces_in_tree(home.relay.data(), secret.as_bytes())?;
        found.extend(traces.into_iter().map(|trace| (*name, trace)));
    }
    for (name, secret) in secrets.0.iter().filter(|(name, _)| *name != "content") {
        // The host keeps what was asked and answered; credentials only as hashes, and elicited values not at all.
        let traces = traces_in_tree(&home.host.data(), secret.as_bytes())?;
        found.extend(traces.into_iter().map(|trace| (*name, trace)));
    }
    for tree in [home.relay.data(), phone.home()] {
        let traces = traces_in_tree(tree, &seed)?;
        found.extend(traces.into_iter().map(|trace| ("the host's seed", trace)));
    }
    ensure!(traces_in_text("log", &host_log, &seed).is_empty(), "the seed is in the host's log");
    ensure!(found.is_empty(), "seed {}: {found:#?}", rng.seed());
    Ok(())
}

#[test]
fn the_relays_binary_links_nothing_of_the_ends() -> Result<()> {
    let bytes = std::fs::read(binary("skald-relay")?)?;
    let names = |name: &str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
    // A stripped binary has no names, and would prove nothing.
    ensure!(names("skald_relay_common"), "the binary has no names: build it with `cargo build`");
    for end in ["skald_e2e", "skald_payloads", "skald_relay_client", "x25519_dalek"] {
        ensure!(!names(end), "the relay's binary links {end}");
    }
    Ok(())
}

#[test]
fn the_pairing_token_of_a_qr_reaches_no_disk_log_or_url_of_the_host() -> Result<()> {
    let home = Home::connected()?;
    let mut pairing = home.host.skald_waiting(&["pair"])?;
    pairing.wait_for("the QR", |line| line.contains('█').then_some(()))?;
    let (window, _) = home.qr("qr")?;
    let text = window.to_string();
    ensure!(!text.contains("pairing_token"), "{text}");
    let code = window["code"].as_str().context("no code")?;
    let state: Value = home.api.get(&home.connector(&format!("pairing/{code}")))?.expect(200)?;
    ensure!(state["state"] == "open", "{state}");
    ensure!(home.api.get(&home.connector("pairingqrcode?code=guessed"))?.status != 500);
    pairing.interrupt()?;
    pairing.wait()?;
    // The token itself is known to the QR alone; a phone that reads the picture must not print it either.
    let phone = home.phone("phone");
    let picture = home.scratch.join("qr.png");
    let waiting = phone.start(&["pair", "--qr", picture.to_str().context("no path")?])?;
    waiting.wait_for("the verification code", skald_tests::verification_code)?;
    ensure!(!longest_hex(&waiting.log(), 64), "{}", waiting.log());
    ensure!(!longest_hex(&home.relay.log(), 16), "the relay's log holds a whole key: {}", home.relay.log());
    Ok(())
}

/// Whether a text holds this many hex digits in a row.
fn longest_hex(text: &str, length: usize) -> bool {
    text.split(|c: char| !c.is_ascii_hexdigit()).any(|run| run.len() >= length)
}
