//! A TCP proxy that treats its connections badly, by a seed.
//!
//! What happens to a connection is drawn from the seed and from the connection's number, so a run can be had again. What
//! is beyond a seed: when the operating system lets a task run, and how it cuts a stream into reads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Rng;

/// What can be done to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetFault {
    /// It is reset as soon as it is accepted.
    Refused,
    /// Both sides get a reset, in the middle of a frame as likely as not.
    Reset,
    /// Both sides get an orderly end.
    Closed,
    /// From here on what the client sends is lost, and the connection looks alive.
    VanishUp,
    /// The same for what the server sends.
    VanishDown,
    /// The client gets a reset; the server keeps a connection behind which there is nobody.
    Ghost,
    /// Nothing passes until the stall is lifted; nothing is lost.
    Stalled,
    /// For a while a few bytes pass at a time.
    Trickled,
    /// Everything is written in small pieces of uneven size.
    Split,
}

impl NetFault {
    /// Every kind, in the order in which [`FaultCounts::list`] names them.
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::Reset,
        Self::Closed,
        Self::VanishUp,
        Self::VanishDown,
        Self::Ghost,
        Self::Stalled,
        Self::Trickled,
        Self::Split,
    ];

    /// In a word or two.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::VanishUp => "bytes to the server vanish",
            Self::VanishDown => "bytes to the client vanish",
            Self::Ghost => "half-open at the server",
            Self::Stalled => "stalled",
            Self::Trickled => "trickled",
            Self::Split => "split writes",
        }
    }
}

/// How often each fault was really injected.
#[derive(Debug, Default)]
pub struct FaultCounts([AtomicU64; NetFault::ALL.len()]);

impl FaultCounts {
    fn count(&self, fault: NetFault) {
        self.0[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Each fault with its number.
    pub fn list(&self) -> Vec<(NetFault, u64)> {
        NetFault::ALL.iter().map(|fault| (*fault, self.0[*fault as usize].load(Ordering::Relaxed))).collect()
    }
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    seed: u64,
    calm: AtomicBool,
    refuse: AtomicBool,
    gone: AtomicBool,
    stalled: watch::Sender<bool>,
    /// What befalls every open connection; the number tells one order from the next.
    orders: watch::Sender<(u64, Option<NetFault>)>,
    counts: Arc<FaultCounts>,
}

/// A proxy in front of one server. Dropped, it ends with all its connections.
#[derive(Debug)]
pub struct ChaosProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl ChaosProxy {
    /// Listens on a free loopback port and leads to `target`. New connections draw no faults until [`Self::calm`] says
    /// otherwise.
    pub async fn start(target: SocketAddr, seed: u64, counts: Arc<FaultCounts>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("the proxy finds no port")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            seed,
            calm: AtomicBool::new(true),
            refuse: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            stalled: watch::channel(false).0,
            orders: watch::channel((0, None)).0,
            counts,
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, task })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether new connections are spared what the seed has for them.
    pub fn calm(&self, calm: bool) {
        self.shared.calm.store(calm, Ordering::Relaxed);
    }

    /// Whether new connections are reset at once.
    pub fn refuse(&self, refuse: bool) {
        self.shared.refuse.store(refuse, Ordering::Relaxed);
    }

    /// Says that the server is not running: new connections are reset, and its port is not dialled. (To dial a port at which
    /// nobody listens may connect a socket with itself, and then the port is taken when the server comes back.)
    pub fn server_gone(&self, gone: bool) {
        self.shared.gone.store(gone, Ordering::Relaxed);
    }

    /// Holds everything up, or lets it flow again. Nothing is lost by it.
    pub fn stall(&self, stalled: bool) {
        if self.shared.stalled.send_replace(stalled) != stalled && stalled {
            self.shared.counts.count(NetFault::Stalled);
        }
    }

    /// Does this to every connection that is open now.
    pub fn inflict(&self, fault: NetFault) {
        self.shared.orders.send_modify(|(number, order)| {
            *number += 1;
            *order = Some(fault);
        });
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with the proxy, and every connection with it.
    let mut connections = tokio::task::JoinSet::new();
    for number in 0_u64.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        if shared.refuse.load(Ordering::Relaxed) {
            shared.counts.count(NetFault::Refused);
            reset(client);
            continue;
        }
        if shared.gone.load(Ordering::Relaxed) {
            reset(client);
            continue;
        }
        let shared = Arc::clone(&shared);
        connections.spawn(async move { connection(client, &shared, number).await });
    }
}

fn reset(stream: TcpStream) {
    // A stream that is gone already needs no reset.
    let _ = stream.set_zero_linger();
}

/// What the seed has for one direction of a connection.
struct Style {
    rng: Rng,
    passed: u64,
    fault: Option<(u64, NetFault)>,
    trickle: Option<(u64, u64)>,
    pieces: Option<usize>,
}

impl Style {
    fn draw(seed: u64, number: u64, calm: bool) -> [Self; 2] {
        let mut rng = Rng::new(Rng::new(seed).next_u64() ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        let mut styles = [(); 2].map(|()| Self {
            rng: Rng::new(rng.next_u64()),
            passed: 0,
            fault: None,
            trickle: None,
            pieces: None,
        });
        let (direction, at) = (rng.below(2), 500 + rng.below(120_000) as u64);
        let length = 100 + rng.below(1500) as u64;
        let (kind, pieces) = (rng.below(100), rng.one_in(3).then(|| 2 + rng.below(600)));
        if calm {
            return styles;
        }
        let fault = match kind {
            40..58 => Some(NetFault::Reset),
            58..66 => Some(NetFault::Closed),
            66..74 => Some(NetFault::VanishUp),
            74..82 => Some(NetFault::VanishDown),
            82..90 => Some(NetFault::Ghost),
            _ => None,
        };
        styles[direction].fault = fault.map(|fault| (at, fault));
        if kind >= 90 {
            styles[direction].trickle = Some((at, at + length));
        }
        styles.iter_mut().for_each(|style| style.pieces = pieces);
        styles
    }

    /// How much of what waits goes next.
    fn next(&mut self, waiting: usize) -> usize {
        let mut most = self.pieces.map_or(waiting, |pieces| 1 + self.rng.below(pieces));
        if let Some((from, to)) = self.trickle {
            if (from..to).contains(&self.passed) {
                most = most.min(1 + self.rng.below(8));
            } else if self.passed < from {
                most = most.min(usize::try_from(from - self.passed).unwrap_or(usize::MAX));
            }
        }
        if let Some((at, _)) = self.fault {
            most = most.min(usize::try_from(at.saturating_sub(self.passed)).unwrap_or(usize::MAX));
        }
        most.min(waiting)
    }

    fn trickles(&self) -> bool {
        self.trickle.is_some_and(|(from, to)| (from..to).contains(&self.passed))
    }

    fn due(&mut self) -> Option<NetFault> {
        let (at, fault) = self.fault?;
        (self.passed >= at).then(|| {
            self.fault = None;
            fault
        })
    }
}

enum End {
    /// This direction has ended in order.
    Over,
    Broken,
    Fault(NetFault),
}

async fn connection(mut client: TcpStream, shared: &Shared, number: u64) {
    let Ok(mut server) = TcpStream::connect(shared.target).await else { return reset(client) };
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let [mut up, mut down] = Style::draw(shared.seed, number, shared.calm.load(Ordering::Relaxed));
    if up.pieces.is_some() {
        shared.counts.count(NetFault::Split);
    }
    let mut orders = shared.orders.subscribe();
    let vanish = Vanish::default();
    let end = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let (mut up_open, mut down_open) = (true, true);
        let up = pump(&mut from_client, &mut to_server, &mut up, &vanish, NetFault::VanishUp, shared);
        let down = pump(&mut from_server, &mut to_client, &mut down, &vanish, NetFault::VanishDown, shared);
        // Made once and never begun anew: what a pump has read must not be lost by what happens beside it.
        tokio::pin!(up, down);
        loop {
            let end = tokio::select! {
                end = &mut up, if up_open => {
                    up_open = false;
                    end
                }
                end = &mut down, if down_open => {
                    down_open = false;
                    end
                }
                order = orders.changed() => match order.map(|()| orders.borrow_and_update().1) {
                    Ok(Some(fault)) => End::Fault(fault),
                    Ok(None) => continue,
                    Err(_) => End::Broken,
                },
            };
            match end {
                End::Over if up_open || down_open => {}
                End::Fault(fault @ (NetFault::VanishUp | NetFault::VanishDown)) => {
                    vanish.begin(fault, shared)
                }
                end => break end,
            }
        }
    };
    let End::Fault(fault) = end else { return };
    shared.counts.count(fault);
    match fault {
        NetFault::Reset => {
            reset(client);
            reset(server);
        }
        NetFault::Ghost => {
            reset(client);
            // Whatever the server still says goes nowhere, until it gives up by itself.
            let mut nowhere = vec![0; 4096];
            while server.read(&mut nowhere).await.is_ok_and(|read| read > 0) {}
        }
        _ => {}
    }
}

/// Which directions lead nowhere any more.
#[derive(Default)]
struct Vanish([AtomicBool; 2]);

impl Vanish {
    fn of(&self, direction: NetFault) -> &AtomicBool {
        &self.0[usize::from(direction == NetFault::VanishDown)]
    }

    fn begin(&self, direction: NetFault, shared: &Shared) {
        if !self.of(direction).swap(true, Ordering::Relaxed) {
            shared.counts.count(direction);
        }
    }
}

/// One direction; `direction` names the fault by which it would vanish.
async fn pump(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    style: &mut Style,
    vanish: &Vanish,
    direction: NetFault,
    shared: &Shared,
) -> End {
    let mut stalled = shared.stalled.subscribe();
    let mut buf = vec![0; 16 * 1024];
    loop {
        if stalled.wait_for(|stalled| !stalled).await.is_err() {
            return End::Broken;
        }
        let Ok(read) = from.read(&mut buf).await else { return End::Broken };
        if read == 0 {
            return if to.shutdown().await.is_ok() { End::Over } else { End::Broken };
        }
        let mut waiting = &buf[..read];
        while !waiting.is_empty() {
            if stalled.wait_for(|stalled| !stalled).await.is_err() {
                return End::Broken;
            }
            let take = style.next(waiting.len());
            let (piece, rest) = waiting.split_at(take);
            if !vanish.of(direction).load(Ordering::Relaxed) && to.write_all(piece).await.is_err() {
                return End::Broken;
            }
            let trickled = style.trickles();
            style.passed += take as u64;
            waiting = rest;
            match style.due() {
                Some(fault @ (NetFault::VanishUp | NetFault::VanishDown)) => vanish.begin(fault, shared),
                Some(fault) => return End::Fault(fault),
                None => {}
            }
            if trickled {
                if !style.trickles() {
                    shared.counts.count(NetFault::Trickled);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else if style.pieces.is_some() {
                tokio::task::yield_now().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_draws_one_fate() {
        let fate = |seed, number| {
            Style::draw(seed, number, false).map(|style| (style.fault, style.trickle, style.pieces))
        };
        assert_eq!(fate(1, 7), fate(1, 7));
        assert!((0..40).any(|number| fate(1, number) != fate(2, number)));
        assert!((0..40).all(|number| Style::draw(1, number, true).iter().all(|style| style.fault.is_none())));
    }

    #[test]
    fn a_fault_falls_on_its_byte() {
        let mut style = Style {
            rng: Rng::new(1),
            passed: 0,
            fault: Some((10, NetFault::Reset)),
            trickle: None,
            pieces: None,
        };
        assert_eq!(style.next(100), 10);
        style.passed = 10;
        assert_eq!(style.due(), Some(NetFault::Reset));
        assert_eq!(style.due(), None);
    }
}
