//! Looking over a relay's set-up before it is started, or while it runs. Nothing is changed.

mod push;
mod store;
mod tls;

use std::path::Path;

use serde::Serialize;

use crate::settings::Settings;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Fine,
    /// It works, and somebody should look at it.
    Warning,
    /// It does not work.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: `settings`, `folder`, `database`, `tls` or `push`.
    pub about: &'static str,
    /// How bad it is.
    pub level: Level,
    /// A plain sentence, which says what to do where something is to be done.
    pub text: String,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Adds one.
    pub fn add(&mut self, about: &'static str, level: Level, text: impl Into<String>) {
        self.0.push(Finding { about, level, text: text.into() });
    }

    fn fine(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(about, Level::Fine, text);
    }

    fn warning(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(about, Level::Warning, text);
    }

    fn problem(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(about, Level::Problem, text);
    }

    /// In the order in which they were found.
    pub fn all(&self) -> &[Finding] {
        &self.0
    }

    /// The worst of them.
    pub fn worst(&self) -> Level {
        self.0.iter().map(|finding| finding.level).max().unwrap_or(Level::Fine)
    }
}

/// Looks at everything that the settings name. `now` is in seconds since 1970.
pub async fn check(settings: &Settings, now: i64) -> Findings {
    let mut findings = Findings::default();
    match settings.validate() {
        Ok(()) => findings.fine("settings", "The settings can be read and make sense together."),
        Err(error) => findings.problem("settings", sentence(&error)),
    }
    if let Some(metrics) = settings.metrics_listen
        && !metrics.ip().is_loopback()
    {
        let text = format!(
            "Metrics are served at {metrics}, where others than this machine may read them: a firewall should keep \
             strangers out."
        );
        findings.warning("settings", text);
    }
    folder(&settings.data, &mut findings);
    store::check(&settings.data, &mut findings).await;
    tls::check(settings, now, &mut findings);
    push::check(settings, &mut findings);
    findings
}

/// Sends a test push to the stored device `NAMESPACE:DEVICE`, and says what its provider made of it.
pub async fn test_push(settings: &Settings, device: &str, findings: &mut Findings) {
    push::test(settings, device, findings).await;
}

/// An error as a sentence of its own.
fn sentence(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// Below this much room an operator should look, and below the other the relay will soon stop taking messages in.
const LITTLE_ROOM: u64 = 1024 * 1024 * 1024;
const NO_ROOM: u64 = 64 * 1024 * 1024;

fn folder(data: &Path, findings: &mut Findings) {
    let shown = data.display();
    if !data.exists() {
        let parent = data.ancestors().skip(1).find(|above| above.exists());
        let above = parent.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if writable(above) {
            findings.fine(
                "folder",
                format!("The data folder {shown} is not there yet: the first start makes it."),
            );
        } else {
            let text = format!(
                "The data folder {shown} is not there, and this user may not make it in {}.",
                above.display()
            );
            findings.problem("folder", text);
        }
        return;
    }
    if !data.is_dir() {
        findings.problem("folder", format!("{shown} is no folder: name another one as data."));
        return;
    }
    if !writable(data) {
        let text = format!(
            "This user may not write in the data folder {shown}: run this as the relay's user, or change the folder's \
             owner."
        );
        findings.problem("folder", text);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(data).map(|about| about.permissions().mode() & 0o777);
        if let Ok(mode) = mode
            && mode & 0o077 != 0
        {
            let text =
                format!("Others can enter the data folder {shown} (mode {mode:o}): make it 700 with chmod.");
            findings.warning("folder", text);
        }
        let Ok(room) = rustix::fs::statvfs(data) else { return };
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        let text = format!("{} MiB are free where the data folder {shown} is.", free / (1024 * 1024));
        if free < NO_ROOM {
            findings.problem("folder", format!("{text} Messages will soon be refused: make room."));
        } else if free < LITTLE_ROOM {
            findings.warning("folder", format!("{text} That is little: make room."));
        } else {
            findings.fine("folder", text);
        }
    }
}

#[cfg(unix)]
fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn writable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| !about.permissions().readonly())
}
