//! The relay as a process.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{Authority, Program, ServerCertificate, binary};

/// `skald-relay` on loopback with TLS from a private authority. Dropped, it is killed.
#[derive(Debug)]
pub struct RelayProcess {
    program: Program,
    binary: PathBuf,
    data: PathBuf,
    certificate: ServerCertificate,
    settings: Vec<(String, String)>,
    url: String,
    address: String,
}

impl RelayProcess {
    /// Starts a relay on a free port with its data in `folder`, and waits until it says that it is ready.
    pub fn start(folder: &Path, authority: &Authority) -> Result<Self> {
        Self::start_with(folder, authority, &[])
    }

    /// The same with settings from the environment (`RELAY_LIMIT_…`, `RELAY_PIPE_…`).
    pub fn start_with(folder: &Path, authority: &Authority, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_binary(&binary("skald-relay")?, "127.0.0.1:0", folder, authority, settings)
    }

    /// The same for the relay's binary at this path, on this address.
    pub fn start_binary(
        binary: &Path,
        listen: &str,
        folder: &Path,
        authority: &Authority,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let certificate = authority.issue("relay")?;
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (program, url) = launch(binary, listen, folder, &certificate, &settings)?;
        let address = url.split("://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.context("the relay's URL has no address")?.to_owned();
        let binary = binary.to_path_buf();
        Ok(Self { program, binary, data: folder.to_path_buf(), certificate, settings, url, address })
    }

    /// What the mobile connector's `relay_url` is set to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where its database is.
    pub fn data(&self) -> &Path {
        &self.data
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
        let (program, _) =
            launch(&self.binary, &self.address, &self.data, &self.certificate, &self.settings)?;
        self.program = program;
        Ok(())
    }
}

fn launch(
    binary: &Path,
    listen: &str,
    data: &Path,
    certificate: &ServerCertificate,
    settings: &[(String, String)],
) -> Result<(Program, String)> {
    let mut command = Command::new(binary);
    command.args(["--listen", listen, "--data"]).arg(data);
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| keep(&name.to_string_lossy())));
    command.env("RELAY_TLS_CERT", &certificate.certificate).env("RELAY_TLS_KEY", &certificate.key);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    let program = Program::start("skald-relay", command)?;
    let url = program.wait_for("its URL", url_in)?;
    Ok((program, url))
}

/// Settings of the machine that the test runs on must not reach the relay.
fn keep(name: &str) -> bool {
    !name.starts_with("RELAY_")
}

/// The first WebSocket URL of a line.
fn url_in(line: &str) -> Option<String> {
    let start = line.find("wss://").or_else(|| line.find("ws://"))?;
    let url: String =
        line[start..].chars().take_while(|c| !c.is_whitespace() && !matches!(c, '"' | '\'' | ',')).collect();
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_may_say_more_than_the_url() {
        let found = url_in("ready: wss://127.0.0.1:8080/v1/ws (TLS)");
        assert_eq!(found.as_deref(), Some("wss://127.0.0.1:8080/v1/ws"));
        assert_eq!(url_in("nothing yet"), None);
    }
}
