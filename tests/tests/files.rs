//! Files between a device and its host, with the relay, the host and the device killed in the middle.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skald_testkit::{Phone, Program, Rng};
use skald_tests::Home;

const MIB: usize = 1024 * 1024;

struct Shared {
    home: Home,
    phone: Phone,
}

impl Shared {
    /// A home that offers a folder to read and one to write, over a relay that is slow enough to be killed in time.
    fn new() -> Result<Self> {
        let home = Home::with_relay_settings(&[("RELAY_PIPE_MAX_BPS", "16000000")])?;
        home.connect()?;
        let phone = home.pair("phone")?;
        let shared = Self { home, phone };
        for folder in ["photos", "inbox"] {
            fs::create_dir(shared.at(folder))?;
        }
        shared.offer(json!({}))?;
        Ok(shared)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.home.scratch.join(path)
    }

    fn path(&self, path: &str) -> String {
        self.at(path).display().to_string()
    }

    fn offer(&self, more: Value) -> Result<()> {
        let folders =
            [format!("photos ro {}", self.path("photos")), format!("inbox rw {}", self.path("inbox"))];
        let mut config = json!({ "file_enabled": true, "file_folders": folders });
        for (name, value) in more.as_object().into_iter().flatten() {
            config[name] = value.clone();
        }
        let wish = json!({ "enabled": true, "config": config });
        self.home.api.put("/api/v1/plugins/local-streams", &wish)?.expect(200)?;
        let path = "/api/v1/plugins/local-streams";
        let settled = |plugin: &Value| {
            matches!(plugin["status"]["state"].as_str(), Some("running" | "idle" | "degraded")).then_some(())
        };
        self.home.api.until(path, "the plugin has its settings", settled)
    }

    /// Says why a command that must fail with `code` failed.
    fn refused(&self, args: &[&str], code: i32) -> Result<String> {
        let finished = self.phone.run(args)?;
        ensure!(finished.code == Some(code), "{args:?}: {finished:?}");
        let said = finished.stderr.trim().lines().last().unwrap_or_default().to_owned();
        ensure!(said.ends_with('.'), "{args:?}: {said}");
        Ok(said)
    }
}

fn content(len: usize) -> Vec<u8> {
    let mut rng = Rng::new(len as u64);
    let block: Vec<u8> = rng.word(4096).into_bytes();
    (0..len).map(|at| block[at % block.len()] ^ (at / 4096) as u8).collect()
}

/// Waits until a transfer has moved so many bytes.
fn moved(program: &Program, bytes: u64) -> Result<()> {
    program.wait_for("its progress", |line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["event"] == "progress" && event["done"].as_u64()? >= bytes).then_some(())
    })
}

fn done(program: &mut Program) -> Result<Value> {
    let out = program.finished()?.ok()?;
    let last = out.lines().last().context("it printed nothing")?;
    Ok(serde_json::from_str(last)?)
}

#[test]
fn a_download_goes_on_where_the_relay_was_killed_and_where_the_device_was() -> Result<()> {
    let mut shared = Shared::new()?;
    let all = content(50 * MIB);
    fs::write(shared.at("photos/a film.mkv"), &all)?;
    let to = shared.path("got");
    let args = ["--json", "get", "photos/a film.mkv", &to];
    let mut fetching = shared.phone.start(&args)?;
    moved(&fetching, 5 * MIB as u64)?;
    fetching.kill()?;
    ensure!(!shared.at("got").exists(), "nothing has the name before it is whole");
    let mut fetching = shared.phone.start(&args)?;
    moved(&fetching, 20 * MIB as u64)?;
    shared.home.relay.kill()?;
    shared.home.relay.restart()?;
    let told = done(&mut fetching)?;
    ensure!(told["continued_at"].as_u64() >= Some(4 * MIB as u64), "{told}");
    ensure!(fs::read(shared.at("got"))? == all);
    ensure!(!shared.at("got.skald-part").exists() && !shared.at("got.skald-part.sums").exists());
    Ok(())
}

#[test]
fn an_upload_goes_on_where_the_relay_was_killed_and_where_the_host_was() -> Result<()> {
    let mut shared = Shared::new()?;
    let all = content(50 * MIB);
    fs::write(shared.at("mine.bin"), &all)?;
    let file = shared.path("mine.bin");
    let mut putting = shared.phone.start(&["--json", "put", &file, "inbox"])?;
    moved(&putting, 5 * MIB as u64)?;
    shared.home.relay.kill()?;
    shared.home.relay.restart()?;
    moved(&putting, 20 * MIB as u64)?;
    ensure!(!shared.at("inbox/mine.bin").exists(), "nothing has the name before it is whole");
    shared.home.host.kill()?;
    shared.home.host.restart()?;
    done(&mut putting)?;
    ensure!(fs::read(shared.at("inbox/mine.bin"))? == all);
    ensure!(fs::read_dir(shared.at("inbox"))?.count() == 1, "a partial file was left");
    Ok(())
}

#[test]
fn folders_are_listed_with_nothing_raw_and_every_refusal_says_what_to_do() -> Result<()> {
    let shared = Shared::new()?;
    fs::write(shared.at("photos/a\u{1b}[31mred"), b"12345")?;
    fs::create_dir(shared.at("photos/sub"))?;
    fs::write(shared.at("inbox/there"), b"other")?;
    std::os::unix::fs::symlink("/etc/passwd", shared.at("photos/link"))?;
    let folders = shared.phone.run(&["ls"])?.ok()?;
    ensure!(folders.contains("ro  photos/") && folders.contains("rw  inbox/"), "{folders}");
    let listed = shared.phone.run(&["ls", "photos"])?.ok()?;
    ensure!(
        !listed.contains('\u{1b}') && listed.contains("sub/") && listed.contains("not opened"),
        "{listed}"
    );
    let raw: Value = serde_json::from_str(&shared.phone.run(&["--json", "ls", "photos"])?.ok()?)?;
    ensure!(raw["entries"].as_array().is_some_and(|e| e.len() == 3), "{raw}");
    let (to, file) = (shared.path("got"), shared.path("mine"));
    fs::write(shared.at("mine"), b"mine")?;
    for (args, code, word) in [
        (vec!["get", "photos/link", &to], 1, "link"),
        (vec!["get", "photos/../../etc/passwd", &to], 2, "FOLDER/PATH"),
        (vec!["get", "photos/nothing", &to], 1, "There is no"),
        (vec!["get", "photos/sub", &to], 1, "is a folder"),
        (vec!["get", "secrets/a", &to], 1, "offers no folder"),
        (vec!["put", &file, "photos"], 1, "may not be put"),
        (vec!["put", &file, "inbox/there"], 1, "--overwrite"),
        (vec!["put", &file, "inbox/no/such"], 1, "There is no"),
        (vec!["put", "/nonexistent", "inbox"], 2, "cannot be read"),
        (vec!["get", "photos/a\u{1b}[31mred", &file], 1, "exists already"),
    ] {
        let said = shared.refused(&args, code)?;
        ensure!(said.contains(word) && !said.contains('\u{1b}'), "{args:?}: {said}");
    }
    shared.phone.run(&["put", &file, "inbox/there", "--overwrite"])?.ok()?;
    ensure!(fs::read(shared.at("inbox/there"))? == b"mine");
    shared.phone.run(&["get", "inbox/there", &to])?.ok()?;
    ensure!(fs::read(shared.at("got"))? == b"mine");
    Ok(())
}

#[test]
fn only_the_devices_that_are_named_may_and_only_while_it_is_offered() -> Result<()> {
    let shared = Shared::new()?;
    let key = shared.home.devices()?[0]["key"].as_str().context("no key")?.to_owned();
    shared.offer(json!({ "file_devices": [format!("{}  the phone", &key[..16])] }))?;
    shared.phone.run(&["ls"])?.ok()?;
    shared.offer(json!({ "file_devices": ["0123456789abcdef"] }))?;
    ensure!(shared.refused(&["ls"], 1)?.contains("may not use files"));
    shared.offer(json!({ "file_enabled": false }))?;
    ensure!(shared.refused(&["ls"], 1)?.contains("does not offer files"));
    for (args, what) in [(["logs", "-n", "1"], "its log"), (["put", "/etc/hostname", "inbox"], "files")] {
        ensure!(shared.refused(&args, 1)?.contains(what), "{args:?}");
    }
    Ok(())
}

#[test]
fn a_file_that_changed_between_two_runs_is_told_and_fetched_anew_when_asked() -> Result<()> {
    let shared = Shared::new()?;
    let all = content(50 * MIB);
    fs::write(shared.at("photos/a"), &all)?;
    let to = shared.path("got");
    let mut fetching = shared.phone.start(&["--json", "get", "photos/a", &to])?;
    moved(&fetching, 5 * MIB as u64)?;
    fetching.kill()?;
    let other: Vec<u8> = content(3 * MIB).into_iter().rev().collect();
    fs::write(shared.at("photos/a"), &other)?;
    ensure!(shared.refused(&["get", "photos/a", &to], 1)?.contains("--restart"));
    shared.phone.run(&["get", "photos/a", &to, "--restart"])?.ok()?;
    ensure!(fs::read(shared.at("got"))? == other);
    Ok(())
}

#[test]
fn the_log_is_read_and_followed_and_says_who_fetched_what() -> Result<()> {
    let shared = Shared::new()?;
    shared.offer(json!({ "log_enabled": true }))?;
    fs::write(shared.at("photos/a"), b"a")?;
    let following = shared.phone.start(&["logs", "--follow", "--lines", "5"])?;
    following.wait_for("a line", |line| line.contains("INFO").then_some(()))?;
    shared.phone.run(&["get", "photos/a", &shared.path("got")])?.ok()?;
    let line = following.wait_for("the record", |line| line.contains("photos/a").then(|| line.to_owned()))?;
    let key = shared.home.devices()?[0]["key"].as_str().context("no key")?.to_owned();
    ensure!(line.contains(&key) && line.contains("bytes=1"), "{line}");
    let last = shared.phone.run(&["--json", "logs", "--lines", "3"])?.ok()?;
    ensure!(last.lines().count() == 3, "{last}");
    ensure!(shared.phone.run(&["logs", "--level", "error"])?.ok()?.is_empty());
    Ok(())
}
