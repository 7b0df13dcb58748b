//! Being asked to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// SIGINT, SIGTERM and SIGHUP. From its making on they no longer kill the process by themselves.
pub struct Signals([Signal; 3]);

impl Signals {
    /// Begins to listen.
    pub fn new() -> Result<Self, Failure> {
        let on =
            |kind| signal(kind).map_err(|e| Failure::failed(format!("Signals cannot be received: {e}.")));
        Ok(Self([on(SignalKind::interrupt())?, on(SignalKind::terminate())?, on(SignalKind::hangup())?]))
    }

    /// Returns when one arrives.
    pub async fn recv(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
