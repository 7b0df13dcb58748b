//! What the operating system tells the program.

/// Signals, listened for from when this is made.
#[cfg(unix)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

/// What the program is told to do.
pub enum Told {
    /// To end.
    Stop,
    /// To read again what may have changed.
    Reload,
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen.
    pub fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next.
    pub async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }
}

/// Signals, listened for from when this is made.
#[cfg(not(unix))]
pub struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Begins to listen.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the next.
    pub async fn next(&mut self) -> Told {
        // Without this signal the program could only be killed, which it survives as well.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Told::Stop
    }
}

impl Signals {
    /// Waits until the program is to end; the rest is of no matter to it.
    pub async fn stop(&mut self) {
        while !matches!(self.next().await, Told::Stop) {}
    }
}
