//! What a peer lives in, and how it is killed: a thread whose runtime is thrown away, or a process that gets SIGKILL.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use skald_testkit::{Program, Stream};
use tokio::sync::watch;

use crate::peer::{PeerConfig, Wish, run};
use crate::progress::{Progress, Tick, Ticker};

/// A running peer.
#[derive(Debug)]
pub enum Vessel {
    /// In this process, on a runtime of its own.
    Thread {
        /// What is wanted of it.
        wish: watch::Sender<Wish>,
        /// Throws the runtime away, wherever its tasks are.
        kill: watch::Sender<bool>,
        /// `None` inside: it was killed.
        thread: Option<JoinHandle<Option<Result<()>>>>,
    },
    /// A process of its own.
    Process(Program),
}

impl Vessel {
    /// Starts a peer in this process.
    pub fn thread(config: PeerConfig, wish: Wish, progress: &Arc<Progress>) -> Result<Self> {
        let (wish, wished) = watch::channel(wish);
        let (kill, mut killed) = watch::channel(false);
        let progress = Arc::clone(progress);
        let body = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return Some(Err(error.into())),
            };
            let ticker = Ticker::Here(Arc::clone(&progress));
            let outcome = runtime.block_on(async {
                tokio::select! {
                    outcome = Box::pin(run(config, wished, ticker)) => Some(outcome),
                    _ = killed.wait_for(|killed| *killed) => None,
                }
            });
            // No task of the client runs again: what they hold is dropped where they stand.
            runtime.shutdown_background();
            progress.nudge();
            outcome
        };
        let thread = std::thread::Builder::new().name("peer".to_owned()).spawn(body)?;
        Ok(Self::Thread { wish, kill, thread: Some(thread) })
    }

    /// Starts a peer as a process: `program` is this crate's binary.
    pub fn process(
        program: &PathBuf,
        config: &PeerConfig,
        wish: Wish,
        progress: &Arc<Progress>,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("peer").arg(serde_json::to_string(config)?);
        let progress = Arc::clone(progress);
        let told = move |stream, line: &str| {
            if let (Stream::Out, Some(tick)) = (stream, Tick::from_word(line)) {
                progress.tick(tick);
            }
        };
        let mut process = Program::start_with(format!("peer {}", config.index), command, told)?;
        process.write(&wish_line(wish))?;
        Ok(Self::Process(process))
    }

    /// Says what is wanted from now on.
    pub fn wish(&mut self, wanted: Wish) -> Result<()> {
        match self {
            Self::Thread { wish, .. } => drop(wish.send_replace(wanted)),
            Self::Process(process) => process.write(&wish_line(wanted))?,
        }
        Ok(())
    }

    /// Kills it, at once; gone when this returns.
    pub fn kill(&mut self) -> Result<()> {
        match self {
            Self::Thread { kill, thread, .. } => {
                kill.send_replace(true);
                match thread.take().map(JoinHandle::join) {
                    // It may have ended with an error just before.
                    Some(Ok(Some(outcome))) => outcome,
                    Some(Ok(None)) | None => Ok(()),
                    Some(Err(_)) => bail!("a peer panicked"),
                }
            }
            Self::Process(process) => {
                if process.has_ended()? {
                    return self.ended();
                }
                process.kill()
            }
        }
    }

    /// Waits until it has ended of its own will.
    pub fn ended(&mut self) -> Result<()> {
        match self {
            Self::Thread { thread, .. } => match thread.take().context("it was joined")?.join() {
                Ok(outcome) => outcome.unwrap_or(Ok(())),
                Err(_) => Err(anyhow!("a peer panicked")),
            },
            Self::Process(process) => {
                let finished = process.finished()?;
                if finished.code != Some(0) {
                    bail!("{}", finished.stderr);
                }
                Ok(())
            }
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        match self {
            Self::Thread { thread, .. } => Ok(thread.as_ref().is_none_or(JoinHandle::is_finished)),
            Self::Process(process) => process.has_ended(),
        }
    }
}

fn wish_line(wish: Wish) -> String {
    format!("{} {}\n", wish.rounds, wish.leave)
}

/// What a process was told by a line of its standard input.
pub fn wish_of(line: &str) -> Option<Wish> {
    let (rounds, leave) = line.trim().split_once(' ')?;
    Some(Wish { rounds: rounds.parse().ok()?, leave: leave.parse().ok()? })
}
