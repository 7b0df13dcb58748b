//! A delay line in user space: what goes through takes half a round trip each way, a TCP handshake takes a whole one,
//! and now and then nothing moves at all. Kernels without netem are common, and this needs no rights.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};

/// What is taken from a side at once.
const CHUNK: usize = 64 * 1024;
/// What may be on its way in one direction of one connection; beyond, the sender waits. At 300 ms this is 100 MB/s.
const ON_ITS_WAY: usize = 32 << 20;

/// What a line does to what goes through.
#[derive(Debug, Clone, Copy)]
pub struct Delay {
    /// There and back.
    pub round_trip: Duration,
    /// Now and then nothing moves.
    pub stall: Option<Stall>,
}

/// Every `every`, nothing is delivered for as long as `lasting`; what waited then comes at once.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// From the beginning of one to the beginning of the next.
    pub every: Duration,
    /// How long.
    pub lasting: Duration,
}

impl Delay {
    /// A line without stalls.
    pub const fn of(round_trip: Duration) -> Self {
        Self { round_trip, stall: None }
    }

    /// When something sent at `at` is delivered on a line that began at `began`.
    fn due(&self, began: Instant, at: Instant) -> Instant {
        let due = at + self.round_trip / 2;
        let Some(stall) = self.stall else { return due };
        let since = due.saturating_duration_since(began);
        let count = since.as_nanos() / stall.every.as_nanos().max(1);
        // The first stretch passes undisturbed, so that a line works before it first stalls.
        let Some(number) = u32::try_from(count).ok().filter(|number| *number > 0) else { return due };
        due.max(began + stall.every * number + stall.lasting)
    }
}

/// A port of loopback behind which another lies, further away. Dropped, it and its connections are gone.
#[derive(Debug)]
pub struct DelayLine {
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl DelayLine {
    /// Leads to `target`. It has a thread of its own, so that what is measured does not wait for what measures.
    pub fn start(target: SocketAddr, delay: Delay) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).context("no port is free")?;
        let address = listener.local_addr()?;
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = serve(listener, target, delay) => {}
                }
            });
            runtime.shutdown_background();
        });
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, delay: Delay) {
    let began = Instant::now();
    // An accept that fails is one of too few file descriptors: then the measurement is over anyway.
    while let Ok((near, _)) = listener.accept().await {
        tokio::spawn(async move {
            let accepted = Instant::now();
            let Ok(far) = TcpStream::connect(target).await else { return };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = far.into_split();
            let line = Line { delay, began };
            // Loopback answers a connection request at once; on a real line it would have taken a round trip, and what
            // is sent first leaves after it.
            let there = line.carry(near_in, far_out, accepted + delay.round_trip);
            let back = line.carry(far_in, near_out, accepted);
            let _ = tokio::join!(there, back);
        });
    }
}

#[derive(Clone, Copy)]
struct Line {
    delay: Delay,
    began: Instant,
}

impl Line {
    /// Carries one direction to its end. Nothing leaves before `not_before`.
    async fn carry<R, W>(self, mut from: R, mut to: W, not_before: Instant) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let room = Arc::new(Semaphore::new(ON_ITS_WAY));
        let (queue, mut arriving) = mpsc::unbounded_channel();
        let taking = async move {
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = from.read(&mut chunk).await.unwrap_or(0);
                chunk.truncate(read);
                let Ok(place) = room.clone().acquire_many_owned(read.max(1) as u32).await else { return };
                let due = self.delay.due(self.began, Instant::now().max(not_before));
                // An empty piece is the end; it takes as long as everything else.
                if queue.send((due, chunk, place)).is_err() || read == 0 {
                    return;
                }
            }
        };
        let giving = async move {
            while let Some((due, chunk, _place)) = arriving.recv().await {
                sleep_until(due).await;
                if chunk.is_empty() {
                    break;
                }
                to.write_all(&chunk).await?;
            }
            to.shutdown().await
        };
        tokio::pin!(giving);
        tokio::select! {
            () = taking => giving.await,
            // Who takes nothing more is told to the sender by the end of this direction.
            ended = &mut giving => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn line(delay: Delay) -> Line {
        Line { delay, began: Instant::now() }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_take_half_a_round_trip_and_keep_their_order_to_the_end() {
        let ((mut near, from), (to, mut far)) = (duplex(1 << 20), duplex(1 << 20));
        let began = Instant::now();
        let carrying = tokio::spawn(line(Delay::of(MS(100))).carry(from, to, began));
        near.write_all(b"one").await.unwrap();
        tokio::task::yield_now().await;
        tokio::time::advance(MS(20)).await;
        near.write_all(b"two").await.unwrap();
        near.shutdown().await.unwrap();
        let mut got = [0; 3];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!((&got, began.elapsed()), (b"one", MS(50)));
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert_eq!((rest.as_slice(), began.elapsed()), (&b"two"[..], MS(70)));
        carrying.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_takes_a_round_trip_before_its_first_byte_leaves() {
        let ((mut near, from), (to, mut far)) = (duplex(64), duplex(64));
        let began = Instant::now();
        let carrying = tokio::spawn(line(Delay::of(MS(100))).carry(from, to, began + MS(100)));
        near.write_all(b"x").await.unwrap();
        far.read_exact(&mut [0; 1]).await.unwrap();
        assert_eq!(began.elapsed(), MS(150));
        drop(near);
        carrying.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_holds_back_what_is_due_in_it_and_nothing_else() {
        let delay = Delay { round_trip: MS(20), stall: Some(Stall { every: MS(1_000), lasting: MS(200) }) };
        let began = Instant::now();
        for (sent, due) in [(0, 10), (900, 910), (995, 1_200), (1_100, 1_200), (1_195, 1_205), (2_000, 2_200)]
        {
            assert_eq!(delay.due(began, began + MS(sent)), began + MS(due), "sent at {sent} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_bytes_are_on_their_way_at_once() {
        let ((mut near, from), (to, mut far)) = (duplex(1 << 20), duplex(1 << 20));
        let began = Instant::now();
        let carrying = tokio::spawn(line(Delay::of(MS(200))).carry(from, to, began));
        let sending = tokio::spawn(async move {
            near.write_all(&vec![7; 8 << 20]).await.unwrap();
            near.shutdown().await.unwrap();
        });
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        assert_eq!((got.len(), began.elapsed()), (8 << 20, MS(100)), "a long line is no slow one");
        sending.await.unwrap();
        carrying.await.unwrap().unwrap();
    }

    #[test]
    fn it_carries_real_connections() {
        use std::io::{Read as _, Write as _};
        let server = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let line = DelayLine::start(server.local_addr().unwrap(), Delay::of(MS(2))).unwrap();
        let mut near = std::net::TcpStream::connect(line.address()).unwrap();
        let (mut far, _) = server.accept().unwrap();
        near.write_all(b"question").unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let mut asked = String::new();
        far.read_to_string(&mut asked).unwrap();
        far.write_all(b"answer").unwrap();
        drop(far);
        let mut answered = String::new();
        near.read_to_string(&mut answered).unwrap();
        assert_eq!((asked.as_str(), answered.as_str()), ("question", "answer"));
    }
}
