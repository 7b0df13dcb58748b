//! What a client is started with.

use std::path::PathBuf;
use std::time::Duration;

use skald_relay_common::frame::Platform;

/// An agent's settings.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Where the relay is: `wss://host[:port][/v1/ws]`, or `ws://` on a loopback address.
    pub relay_url: String,
    /// The agent's own folder; it holds `seed` and `peers.db`. Created, readable by the owner alone, where missing.
    pub dir: PathBuf,
    /// PEM file of certificate authorities to trust beside the system's.
    pub extra_ca: Option<PathBuf>,
    /// Deadlines and intervals.
    pub timings: Timings,
}

/// A device's settings. Which relay and which agent it belongs to comes from the QR and is in its folder.
#[derive(Debug, Clone)]
pub struct DeviceOptions {
    /// The device's own folder; it holds `seed` and `peers.db`. Created, readable by the owner alone, where missing.
    pub dir: PathBuf,
    /// PEM file of certificate authorities to trust beside the system's.
    pub extra_ca: Option<PathBuf>,
    /// What the device says it runs on.
    pub platform: Platform,
    /// The push token; empty keeps the one the relay knows.
    pub device_token: String,
    /// Deadlines and intervals.
    pub timings: Timings,
}

impl DeviceOptions {
    /// A device of `platform` in `dir`, with defaults for the rest.
    pub fn new(dir: impl Into<PathBuf>, platform: Platform) -> Self {
        Self {
            dir: dir.into(),
            extra_ca: None,
            platform,
            device_token: String::new(),
            timings: Timings::default(),
        }
    }
}

impl AgentOptions {
    /// An agent of the relay at `relay_url` in `dir`, with defaults for the rest.
    pub fn new(relay_url: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        Self { relay_url: relay_url.into(), dir: dir.into(), extra_ca: None, timings: Timings::default() }
    }
}

/// Deadlines and intervals. The defaults are what a home connection needs; tests shorten them.
#[derive(Debug, Clone, PartialEq)]
pub struct Timings {
    /// Finding the relay's address.
    pub dns: Duration,
    /// The TCP connection, for each address tried.
    pub connect: Duration,
    /// The TLS handshake.
    pub tls: Duration,
    /// The WebSocket upgrade.
    pub upgrade: Duration,
    /// The relay's challenge, once the socket is open.
    pub challenge: Duration,
    /// The relay's verdict on the answer, and on the list of devices.
    pub verdict: Duration,
    /// One write to the socket.
    pub write: Duration,
    /// Silence after which the client pings.
    pub ping_after: Duration,
    /// Silence after which the connection is dead.
    pub dead_after: Duration,
    /// How long a message may be under way before the connection counts as dead.
    pub proof: Duration,
    /// The first pause between two attempts.
    pub backoff_min: Duration,
    /// The longest pause between two attempts.
    pub backoff_max: Duration,
    /// How long a session must have held to begin at the first pause again.
    pub held_after: Duration,
    /// The longest pause while a device waits to be admitted.
    pub admission_max: Duration,
    /// How long a peer whose queue is full is left alone.
    pub queue_full_pause: Duration,
    /// Opening a pairing window, the link's setting up included.
    pub pairing: Duration,
    /// The peer's answer to a pipe invitation, waiting for the pace included.
    pub pipe_answer: Duration,
    /// Joining a pipe at the relay.
    pub pipe_join: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            dns: s(10),
            connect: s(10),
            tls: s(10),
            upgrade: s(10),
            challenge: s(15),
            verdict: s(15),
            write: s(15),
            ping_after: s(25),
            dead_after: s(75),
            proof: s(30),
            backoff_min: s(1),
            backoff_max: s(60),
            held_after: s(30),
            admission_max: s(5),
            queue_full_pause: s(30),
            pairing: s(10),
            pipe_answer: s(20),
            pipe_join: s(20),
        }
    }
}
