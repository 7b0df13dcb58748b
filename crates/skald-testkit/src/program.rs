//! A child process with its output kept, line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::PATIENCE;

/// Which of its two outputs a program wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A child process. Dropped, it is killed and joined.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Lines>,
    ended: Option<ExitStatus>,
}

/// How a program ended, and all that it printed.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Standard output, provided that the program ended well.
    pub fn ok(self) -> Result<String> {
        if self.code == Some(0) {
            return Ok(self.stdout);
        }
        bail!("ended with {:?}\n{}{}", self.code, self.stdout, self.stderr)
    }
}

#[derive(Debug, Default)]
struct Lines {
    state: Mutex<Written>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Written {
    lines: Vec<(Stream, String)>,
    /// Outputs that reached their end. Two means that the program, and whatever inherited from it, is gone.
    closed: usize,
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Written> {
        // A panic elsewhere leaves the lines as readable as they were.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program {
    /// Starts `command` with its outputs captured and its input open.
    pub fn start(name: impl Into<String>, command: Command) -> Result<Self> {
        Self::start_with(name, command, |_, _| {})
    }

    /// The same, and hands every line on as it comes.
    pub fn start_with(
        name: impl Into<String>,
        mut command: Command,
        each: impl Fn(Stream, &str) + Send + Clone + 'static,
    ) -> Result<Self> {
        let name = name.into();
        let mut child =
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .with_context(|| format!("{name} cannot be started ({})", command.get_program().display()))?;
        let lines = Arc::new(Lines::default());
        let stdin = child.stdin.take();
        if let Some(out) = child.stdout.take() {
            follow(out, Stream::Out, &lines, each.clone());
        }
        if let Some(err) = child.stderr.take() {
            follow(err, Stream::Err, &lines, each);
        }
        Ok(Self { name, child, stdin, lines, ended: None })
    }

    /// Runs `command` to its end with `input` on its standard input.
    pub fn run(name: impl Into<String>, command: Command, input: &str) -> Result<Finished> {
        let mut program = Self::start(name, command)?;
        program.write(input)?;
        program.close_stdin();
        program.finished()
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its standard input.
    pub fn write(&mut self, text: &str) -> Result<()> {
        let Some(stdin) = &mut self.stdin else { bail!("{}: standard input is closed", self.name) };
        match stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()) {
            // A program that needs no input may have ended already.
            Err(gone) if gone.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.with_context(|| format!("{}: standard input", self.name)),
        }
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits until `find` recognises a line of either output, the earlier ones included.
    pub fn wait_for<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        self.wait_from(0, what, find).map(|(_, found)| found)
    }

    /// The same from line number `from` on; tells where the next search begins.
    pub fn wait_from<T>(
        &self,
        from: usize,
        what: &str,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<(usize, T)> {
        let until = Instant::now() + PATIENCE;
        let mut next = from;
        let mut written = self.lines.lock();
        loop {
            while let Some((_, line)) = written.lines.get(next) {
                next += 1;
                if let Some(found) = find(line) {
                    return Ok((next, found));
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if written.closed == 2 || left.is_zero() {
                let why = if left.is_zero() { "does not come" } else { "did not come before it ended" };
                return Err(anyhow!("{}: {what} {why}. It printed:\n{}", self.name, text(&written, None)));
            }
            written =
                self.lines.changed.wait_timeout(written, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How many lines it has printed so far.
    pub fn position(&self) -> usize {
        self.lines.lock().lines.len()
    }

    /// All that it has printed so far, both outputs.
    pub fn log(&self) -> String {
        text(&self.lines.lock(), None)
    }

    /// All that it has printed so far to one of them.
    pub fn printed(&self, stream: Stream) -> String {
        text(&self.lines.lock(), Some(stream))
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.wait_at_most(PATIENCE)
    }

    /// Waits for its end; past `limit` it is killed, and that is an error.
    pub fn wait_at_most(&mut self, limit: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let until = Instant::now() + limit;
        let mut written = self.lines.lock();
        while written.closed < 2 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let log = text(&written, None);
                drop(written);
                self.kill()?;
                bail!("{} does not end. It printed:\n{log}", self.name);
            }
            written =
                self.lines.changed.wait_timeout(written, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(written);
        self.join()
    }

    /// Waits for its end and gives what it printed.
    pub fn finished(&mut self) -> Result<Finished> {
        let status = self.wait()?;
        Ok(Finished {
            code: status.code(),
            stdout: self.printed(Stream::Out),
            stderr: self.printed(Stream::Err),
        })
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().context("the child cannot be looked at")?;
        }
        Ok(self.ended.is_some())
    }

    /// SIGKILL, at once; gone when this returns.
    pub fn kill(&mut self) -> Result<()> {
        if self.ended.is_none() {
            self.child.kill().with_context(|| format!("{} cannot be killed", self.name))?;
            self.join()?;
        }
        Ok(())
    }

    /// SIGTERM; does not wait.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGINT, what Ctrl-C sends; does not wait.
    pub fn interrupt(&self) -> Result<()> {
        self.signal(Signal::INT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, signal).with_context(|| format!("{} cannot be told to stop", self.name))
    }

    fn join(&mut self) -> Result<ExitStatus> {
        let status = self.child.wait().with_context(|| format!("{} cannot be joined", self.name))?;
        self.ended = Some(status);
        Ok(status)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("{}: {error:#}", self.name);
        }
        if std::thread::panicking() {
            eprintln!("--- {} printed:\n{}---", self.name, self.log());
        }
    }
}

fn follow(
    output: impl Read + Send + 'static,
    stream: Stream,
    lines: &Arc<Lines>,
    each: impl Fn(Stream, &str) + Send + 'static,
) {
    let lines = Arc::clone(lines);
    // The thread ends with the output, which ends with the child that the fixture owns.
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            line.clear();
            each(stream, &text);
            lines.lock().lines.push((stream, text));
            lines.changed.notify_all();
        }
        lines.lock().closed += 1;
        lines.changed.notify_all();
    });
}

fn text(written: &Written, only: Option<Stream>) -> String {
    let lines = written.lines.iter().filter(|(stream, _)| only.is_none_or(|only| only == *stream));
    lines.flat_map(|(_, line)| [line.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_line_is_awaited_and_the_outputs_are_told_apart() {
        let mut program =
            Program::start("shell", shell("echo ready 7; echo oops >&2; read line; echo got $line")).unwrap();
        let number = program
            .wait_for("the ready line", |line| line.strip_prefix("ready ").map(str::to_owned))
            .unwrap();
        assert_eq!(number, "7");
        program.write("it\n").unwrap();
        let finished = program.finished().unwrap();
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), "oops\n"));
        assert_eq!(finished.stdout, "ready 7\ngot it\n");
    }

    #[test]
    fn a_program_that_ends_without_its_ready_line_says_what_it_printed() {
        let program = Program::start("shell", shell("echo the port is taken; exit 2")).unwrap();
        let said = format!(
            "{:#}",
            program.wait_for("its URL", |line| line.strip_prefix("http").map(str::to_owned)).unwrap_err()
        );
        assert!(
            said.contains("did not come before it ended") && said.contains("the port is taken"),
            "{said}"
        );
    }

    #[test]
    fn a_dropped_program_is_gone() {
        let program = Program::start("shell", shell("echo up; exec tail -f /dev/null")).unwrap();
        program.wait_for("up", |line| (line == "up").then_some(())).unwrap();
        let process = std::path::PathBuf::from(format!("/proc/{}", program.id()));
        assert!(process.exists());
        drop(program);
        assert!(!process.exists());
    }
}
