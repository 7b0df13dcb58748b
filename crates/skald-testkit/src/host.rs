//! The host as a process, with its command line.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{Client, Finished, Program, binary};

/// `skald serve` on loopback. Dropped, it is killed.
#[derive(Debug)]
pub struct HostProcess {
    program: Program,
    home: PathBuf,
    signin: String,
    origin: String,
}

impl HostProcess {
    /// Starts a host on a free port with everything it writes below `home`, and waits for its sign-in link.
    pub fn start(home: &Path) -> Result<Self> {
        let (program, signin) = launch(home, "127.0.0.1:0")?;
        let origin = Client::new(&signin)?.origin();
        Ok(Self { program, home: home.to_path_buf(), signin, origin })
    }

    /// `http://HOST:PORT`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The one-time link that this start printed.
    pub fn signin_link(&self) -> &str {
        &self.signin
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        data(&self.home)
    }

    /// The process.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// All that it has printed.
    pub fn log(&self) -> String {
        self.program.log()
    }

    /// SIGKILL. Its data stays.
    pub fn kill(&mut self) -> Result<()> {
        self.program.kill()
    }

    /// Starts it again on the same address with the same data.
    pub fn restart(&mut self) -> Result<()> {
        self.program.kill()?;
        let listen = self.origin.trim_start_matches("http://").to_owned();
        let (program, signin) = launch(&self.home, &listen)?;
        self.program = program;
        self.signin = signin;
        Ok(())
    }

    /// A client without credentials.
    pub fn anonymous(&self) -> Result<Client> {
        Client::new(&self.origin)
    }

    /// A client with a fresh API token, made by the command line as a person makes one.
    pub fn client(&self, name: &str) -> Result<Client> {
        Ok(self.anonymous()?.with_token(&self.token(name)?))
    }

    /// A fresh API token.
    pub fn token(&self, name: &str) -> Result<String> {
        let made: Value = serde_json::from_str(&self.skald(&["token", "create", name, "--json"])?.ok()?)?;
        made["token"].as_str().map(str::to_owned).context("`skald token create` printed no token")
    }

    /// A fresh sign-in link.
    pub fn link(&self) -> Result<String> {
        let made: Value = serde_json::from_str(&self.skald(&["link", "--json"])?.ok()?)?;
        made["url"].as_str().map(str::to_owned).context("`skald link` printed no link")
    }

    /// A client signed in as a browser is, by a fresh link.
    pub fn signed_in(&self) -> Result<Client> {
        let link = self.link()?;
        let token = link.split("#signin=").nth(1);
        let token = token.with_context(|| format!("`skald link` printed no link: {link}"))?;
        let client = self.anonymous()?;
        let origin = client.origin();
        let answer = client
            .clone()
            .with_header("Origin", &origin)
            .post("/api/v1/session", &json!({ "token": token }))?;
        answer.expect(204)?;
        client.with_session(&answer)
    }

    /// Runs `skald ARGS` against this host to its end.
    pub fn skald(&self, args: &[&str]) -> Result<Finished> {
        self.skald_with(args, "")
    }

    /// The same with something on its standard input.
    pub fn skald_with(&self, args: &[&str], input: &str) -> Result<Finished> {
        let name = format!("skald {}", args.first().unwrap_or(&""));
        Program::run(name, self.command(args)?, input)
    }

    /// Starts `skald ARGS` against this host, for a command that waits.
    pub fn skald_waiting(&self, args: &[&str]) -> Result<Program> {
        Program::start(format!("skald {}", args.first().unwrap_or(&"")), self.command(args)?)
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = skald(&self.home)?;
        command.env("SKALD_DATA", self.data()).args(args);
        Ok(command)
    }
}

fn launch(home: &Path, listen: &str) -> Result<(Program, String)> {
    let mut command = skald(home)?;
    command.args(["serve", "--listen", listen, "--data"]).arg(data(home));
    let program = Program::start("skald serve", command)?;
    let link = program.wait_for("its sign-in link", |line| {
        let start = line.find("http://")?;
        let link = line[start..].split_whitespace().next()?;
        link.contains("#signin=").then(|| link.to_owned())
    })?;
    Ok((program, link))
}

/// `skald` with every folder it could write to below `home`, and no settings from the machine that the test runs on.
fn skald(home: &Path) -> Result<Command> {
    let mut command = Command::new(binary("skald")?);
    command
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("SKALD_")));
    command
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("XDG_DATA_HOME", home.join("share"));
    command.env("XDG_CONFIG_HOME", home.join("config"));
    Ok(command)
}

fn data(home: &Path) -> PathBuf {
    home.join("data")
}
