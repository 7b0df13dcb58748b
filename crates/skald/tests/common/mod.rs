//! A host and its command line as processes, everything they write below one scratch folder.
#![allow(dead_code)] // Each test file uses its part.

pub mod fake;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use skald_testkit::{Client, Finished, Program, Scratch};

pub struct Host {
    pub scratch: Scratch,
    pub program: Program,
    pub url: String,
    pub link: String,
}

/// `skald` with every folder it could use below the scratch folder, and no settings of the machine's.
pub fn skald(scratch: &Scratch) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skald"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SKALD_") {
            command.env_remove(name);
        }
    }
    command
        .env("HOME", scratch.path())
        .env("XDG_STATE_HOME", scratch.join("state"))
        .env("XDG_DATA_HOME", scratch.join("share"))
        .env_remove("RUST_LOG")
        .current_dir(scratch.path());
    command
}

pub fn run(mut command: Command, words: &[&str]) -> Finished {
    command.args(words);
    Program::run(format!("skald {}", words.first().unwrap_or(&"")), command, "").unwrap()
}

fn launch(scratch: &Scratch, listen: &str, log: Option<&str>) -> (Program, String, String) {
    let mut command = skald(scratch);
    command.args(["serve", "--listen", listen, "--data"]).arg(scratch.join("data"));
    if let Some(log) = log {
        command.env("RUST_LOG", log);
    }
    let program = Program::start("skald serve", command).unwrap();
    let url =
        program.wait_for("its address", |l| l.strip_prefix("Skald is ready at ").map(str::to_owned)).unwrap();
    let link = program
        .wait_for("its link", |l| l.split_whitespace().find(|w| w.contains("#signin=")).map(str::to_owned))
        .unwrap();
    (program, url, link)
}

impl Host {
    pub fn start() -> Self {
        Self::start_logging(None)
    }

    pub fn start_logging(log: Option<&str>) -> Self {
        let scratch = Scratch::new().unwrap();
        let (program, url, link) = launch(&scratch, "127.0.0.1:0", log);
        Self { scratch, program, url, link }
    }

    /// SIGKILL, then again with the same data at `listen`.
    pub fn restart(&mut self, listen: &str) {
        self.program.kill().unwrap();
        (self.program, self.url, self.link) = launch(&self.scratch, listen, None);
    }

    pub fn address(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }

    pub fn data(&self) -> PathBuf {
        self.scratch.join("data")
    }

    /// `skald WORDS` against this host, found by the record of the host started last.
    pub fn skald(&self, words: &[&str]) -> Finished {
        run(skald(&self.scratch), words)
    }

    /// The same for a command that waits.
    pub fn skald_waiting(&self, words: &[&str]) -> Program {
        let mut command = skald(&self.scratch);
        command.args(words);
        Program::start(format!("skald {}", words[0]), command).unwrap()
    }

    pub fn anonymous(&self) -> Client {
        Client::new(&self.url).unwrap()
    }

    /// The owner's browser.
    pub fn owner(&self) -> Client {
        let link = self.skald(&["link"]).ok().unwrap();
        let token = link.trim().split("#signin=").nth(1).unwrap().to_owned();
        let client = self.anonymous();
        let signed_in = client.post("/api/v1/session", &json!({"token": token})).unwrap();
        signed_in.expect(204).unwrap();
        client.with_session(&signed_in).unwrap()
    }

    /// The one pending item, once it is there.
    pub fn pending(&self, owner: &Client) -> Value {
        owner
            .until("/api/v1/inbox", "one item is pending", |inbox| {
                ["approvals", "clarifications", "elicitations"]
                    .iter()
                    .find_map(|kind| inbox[kind].as_array()?.first().cloned())
            })
            .unwrap()
    }

    pub fn answer(&self, owner: &Client, body: &Value) -> Value {
        let id = self.pending(owner)["request_id"].as_str().unwrap().to_owned();
        owner.post(&format!("/api/v1/inbox/requests/{id}/answer"), body).unwrap().expect(200).unwrap()
    }

    pub fn state(&self, owner: &Client, id: &str) -> Value {
        owner.get(&format!("/api/v1/inbox/requests/{id}")).unwrap().expect(200).unwrap()
    }
}

/// One plain sentence on standard error, and this exit code.
#[track_caller]
pub fn refused(finished: &Finished, code: i32, about: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    let said = finished.stderr.trim_end();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("skald: ") && said.ends_with('.'), "{said}");
    assert!(said.contains(about), "does not name {about}: {said}");
    assert!(finished.stdout.is_empty(), "{}", finished.stdout);
}
