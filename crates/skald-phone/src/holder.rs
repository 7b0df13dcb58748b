//! The process that talks to the relay for a home: it owns the engine and serves the home's socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use skald_e2e::{Identity, Seed};
use skald_payloads::DeviceInfo;
use skald_relay_client::{DeviceOptions, Platform, RelayClient, device};
use skald_relay_common::ids::PublicKey;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use crate::desk::Desk;
use crate::engine::{Ask, Engine, Parts};
use crate::failure::{Failure, Outcome};
use crate::home::{Home, HomeLock, why};
use crate::pairing::{Pairing, not_paired};
use crate::shelf::Shelf;
use crate::splice::{Patience, splice};
use crate::vault::Vault;
use crate::ways::{Way, Ways};
use crate::wire::{self, Conversation, Link, Reply, Request, View};

pub use crate::erasure::{erase, introduce_again};

/// The folder that the relay connection keeps its seed and counters in.
pub const LINK: &str = "link";
pub const CA: &str = "ca.pem";
/// The host's pages (pipe §6.2).
pub const PAGES: &str = "http-local-proxy";
/// Commands beyond this wait their turn.
const MAX_CONVERSATIONS: usize = 256;
/// A command that does not take what it asked for is let go.
const WRITE: Duration = Duration::from_secs(30);
const STOPPING: Duration = Duration::from_secs(8);
/// A first connection takes a few round trips; one that broke is tried again after a second.
const CONNECTING: Duration = Duration::from_secs(15);
const RECONNECTING: Duration = Duration::from_secs(4);
/// Between a warm pipe that ended, or could not be opened, and the next.
const WARM_FIRST: Duration = Duration::from_millis(500);
const WARM_LAST: Duration = Duration::from_secs(30);
/// How long what waits for the relay may take when a command ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The engine and its socket, for as long as this process has the home.
pub struct Holder {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    lock: HomeLock,
}

struct Shared {
    home: Home,
    agent: PublicKey,
    client: RelayClient,
    asks: mpsc::Sender<Ask>,
    view: watch::Receiver<View>,
    ways: Ways,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Holder {
    /// Starts the engine, and the socket for other processes.
    pub async fn start(
        home: Home,
        lock: HomeLock,
        pairing: Pairing,
        ca: Option<PathBuf>,
        listener: UnixListener,
    ) -> Outcome<Self> {
        let (namespace, agent, _) = pairing.keys().ok_or_else(not_paired)?;
        let seed = seed(&home)?;
        let vault = Vault::new(seed.expose()).ok_or_else(|| Failure::refused("The seed cannot be used."))?;
        let shelf = Shelf::open(home.clone(), vault)?;
        let found = shelf.load()?;
        let mut desk = Desk::new(found.memory, found.outbox);
        if found.damaged > 0 {
            desk.note(
                "An answer was damaged on disk and was not sent",
                "Look at the inbox again.",
                crate::out::now_ms(),
            );
        }
        let (client, events) = device::start(options(&home, ca)).await.map_err(|e| start_failure(&e))?;
        let parts = Parts {
            identity: Identity::from_seed(&seed),
            namespace,
            agent,
            info: info(&pairing.name),
            shelf,
            desk,
            client: client.clone(),
        };
        let (engine, view) = Engine::new(parts);
        let (asks, asked) = mpsc::channel(64);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(engine.run(events, asked, stop.child_token()));
        let shared = Arc::new(Shared {
            home,
            agent,
            client,
            asks,
            view,
            ways: Ways::default(),
            stop,
            tasks: tasks.clone(),
        });
        tasks.spawn(listen(shared.clone(), listener));
        Ok(Self { shared, tasks, lock })
    }

    /// This process's own way in. `None`: the engine has ended.
    pub fn converse(&self) -> Option<Conversation> {
        if self.shared.stop.is_cancelled() || self.shared.asks.is_closed() {
            return None;
        }
        let (own, other) = UnixStream::pair().ok()?;
        let shared = self.shared.clone();
        self.tasks.spawn(async move { shared.clone().serve(own).await });
        Some(Conversation::new(other))
    }

    /// Stops everything, waits for it, and gives the home free.
    pub async fn stop(self) {
        // What was taken over is durable and would leave with the next run; better now.
        if self.shared.view.borrow().link == Link::Connected && !self.shared.stop.is_cancelled() {
            self.shared.client.flush(LAST_WORDS).await;
        }
        self.shared.stop.cancel();
        self.tasks.close();
        let _ = timeout(STOPPING, self.shared.client.shutdown()).await;
        let _ = timeout(STOPPING, self.tasks.wait()).await;
        drop(self.lock);
    }
}

async fn listen(shared: Arc<Shared>, listener: UnixListener) {
    let places = Arc::new(Semaphore::new(MAX_CONVERSATIONS));
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let serving = shared.clone();
        shared.tasks.spawn(async move {
            serving.serve(stream).await;
            drop(place);
        });
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, stream: UnixStream) {
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.talk(stream) => {}
        }
    }

    async fn talk(&self, stream: UnixStream) {
        let mut conversation = Conversation::new(stream);
        let Some(first) = conversation.hear::<Request>().await else { return };
        match first {
            Request::Pipe => return self.pipe(conversation, PAGES, BTreeMap::new()).await,
            Request::Warm => return self.keep_warm(conversation).await,
            Request::Stream { stream_type, headers } => {
                return self.pipe(conversation, &stream_type, headers).await;
            }
            _ => {}
        }
        let (mut reader, mut writer) = conversation.split();
        // Reading a line cannot be interrupted half-way, so it is a future of its own beside the answers.
        let (heard, mut requests) = mpsc::channel(8);
        let reading = async move {
            let mut next = Some(first);
            while let Some(request) = next {
                if heard.send(request).await.is_err() {
                    break;
                }
                next = wire::hear(&mut reader).await;
            }
            // Dropping the sender ends the answers.
        };
        let answering = async {
            let mut view = self.view.clone();
            let mut watching = false;
            loop {
                let reply = tokio::select! {
                    request = requests.recv() => match request {
                        Some(Request::Watch) => {
                            watching = true;
                            let now = view.borrow_and_update().clone();
                            if !say(&mut writer, &Reply::View(Box::new(now))).await {
                                return;
                            }
                            let _ = self.asks.send(Ask::Refresh).await;
                            None
                        }
                        Some(request) => self.answer(request).await,
                        None => return,
                    },
                    changed = view.changed(), if watching => match changed {
                        Ok(()) => Some(Reply::View(Box::new(view.borrow_and_update().clone()))),
                        Err(_) => return,
                    },
                };
                if let Some(reply) = reply
                    && !say(&mut writer, &reply).await
                {
                    return;
                }
            }
        };
        // When the command has no more to ask, what it asked for is still answered.
        let reading = async {
            reading.await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = answering => {}
            () = reading => {}
        }
    }

    async fn answer(&self, request: Request) -> Option<Reply> {
        match request {
            Request::Watch => None,
            Request::Pipe | Request::Warm | Request::Stream { .. } => {
                Some(Failure::usage("A pipe must be the first thing that is asked for.").into())
            }
            Request::Shown { digests, notes_below } => {
                let (reply, remembered) = oneshot::channel();
                let _ = self.asks.send(Ask::Shown { digests, notes_below, reply }).await;
                // Whatever is asked next over this conversation is answered behind it.
                let _ = remembered.await;
                None
            }
            Request::Answer { request_id, digest, draft } => {
                let (reply, token) = oneshot::channel();
                self.asks.send(Ask::Answer { request_id, digest, draft, reply }).await.ok()?;
                Some(match token.await.ok()? {
                    Ok(token) => Reply::Kept { token },
                    Err(failure) => failure.into(),
                })
            }
            Request::Logout { force, wait_ms } => {
                let (reply, left) = oneshot::channel();
                let wait = Duration::from_millis(wait_ms);
                self.asks.send(Ask::Leave { wait, reply }).await.ok()?;
                match left.await.ok()? {
                    Err(failure) if !force => Some(failure.into()),
                    _ => Some(match self.erase().await {
                        Ok(()) => Reply::Done,
                        Err(failure) => failure.into(),
                    }),
                }
            }
        }
    }

    /// Deletes this device's keys and everything it kept. The seed goes first: counters must not be lost while the key
    /// that they belong to can still be used.
    async fn erase(&self) -> Outcome<()> {
        // Its own files first, the seed before the counters; what it cannot delete is deleted with the rest.
        let _ = timeout(STOPPING, device::forget(&self.client)).await;
        // The engine must not write anything down behind the deletion.
        let _ = timeout(STOPPING, self.asks.closed()).await;
        let done = erase(&self.home);
        // Whoever still talks to this holder finds the home without a pairing.
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            stop.cancel();
        });
        done
    }

    /// Gives a connection that is being made, or made again, the time it usually needs.
    async fn until_connected(&self) {
        let mut view = self.view.clone();
        let hopeless = |v: &View| v.link != Link::Connecting || v.error.is_some();
        let _ = timeout(CONNECTING, view.wait_for(hopeless)).await;
        let _ = timeout(RECONNECTING, view.wait_for(|v| v.link != Link::Connecting)).await;
    }

    /// Opens a pipe of this type to the host and copies until either side is over.
    async fn pipe(
        &self,
        mut conversation: Conversation,
        stream_type: &str,
        headers: BTreeMap<String, String>,
    ) {
        self.until_connected().await;
        let way = match self.ways.open(&self.client, &self.agent, stream_type, headers).await {
            Ok(way) => way,
            Err(error) => {
                let failure = crate::explain::stream(&error, &self.view.borrow(), stream_type);
                let _ = timeout(WRITE, conversation.say(&Reply::from(failure))).await;
                return;
            }
        };
        let ready = Reply::Ready { cheap: matches!(way, Way::Stream(..)) };
        if !matches!(timeout(WRITE, conversation.say(&ready)).await, Ok(Ok(()))) {
            return;
        }
        // The command at the other end keeps its side open for as long as an answer may come.
        match way {
            Way::Stream(stream, _keeps) => {
                let stream = tokio::io::split(stream);
                splice(&[], conversation.split(), stream, Patience::none()).await;
            }
            Way::Pipe(pipe) => {
                let (sender, receiver) = pipe.split();
                splice(&[], conversation.split(), (receiver, sender), Patience::none()).await;
            }
        }
    }

    /// Keeps a pipe to the host's pages open while the command at the other end of the conversation wants it.
    async fn keep_warm(&self, mut conversation: Conversation) {
        let gone = async { while conversation.hear::<Request>().await.is_some() {} };
        let keeping = async {
            let mut pause = WARM_FIRST;
            loop {
                self.until_connected().await;
                match self.ways.warm(&self.client, &self.agent, PAGES).await {
                    Ok(Some(streams)) => {
                        pause = WARM_FIRST;
                        streams.over().await;
                    }
                    // A host of the first form: there is nothing to keep.
                    Ok(None) => return std::future::pending().await,
                    Err(_) => pause = (pause * 2).min(WARM_LAST),
                }
                tokio::time::sleep(pause).await;
            }
        };
        tokio::select! {
            () = gone => {}
            () = keeping => {}
        }
    }
}

async fn say(writer: &mut (impl tokio::io::AsyncWrite + Unpin), reply: &Reply) -> bool {
    matches!(timeout(WRITE, wire::say(writer, reply)).await, Ok(Ok(())))
}

/// The settings of the relay connection.
pub fn options(home: &Home, ca: Option<PathBuf>) -> DeviceOptions {
    let mut options = DeviceOptions::new(home.path(LINK), Platform::DESKTOP);
    options.extra_ca = ca;
    options
}

/// The private authority to trust: the one named now, or the one named when the device was paired.
pub fn authority(home: &Home, named: Option<&Path>) -> Option<PathBuf> {
    match named {
        Some(path) => Some(path.to_path_buf()),
        None => Some(home.path(CA)).filter(|p| p.exists()),
    }
}

/// Reads the named authority.
pub fn read_authority(path: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(path).map_err(|e| {
        Failure::usage(format!("The certificate authority {} cannot be read ({}).", path.display(), why(&e)))
    })
}

/// Keeps a copy of an authority, so that later commands need not name it.
pub fn keep_authority(home: &Home, pem: &[u8]) -> Outcome<()> {
    home.write(CA, pem).map_err(|e| keep_failed(&e))
}

fn keep_failed(error: &std::io::Error) -> Failure {
    Failure::refused(format!("The certificate authority cannot be kept ({}).", why(error)))
}

/// This device's seed.
pub fn seed(home: &Home) -> Outcome<Seed> {
    let path = home.path(LINK).join("seed");
    let bytes = std::fs::read(&path).map(Zeroizing::new).map_err(|e| {
        Failure::usage(format!(
            "The device's seed {} cannot be read ({}); run `skald-phone logout --force` and pair again.",
            path.display(),
            why(&e)
        ))
    })?;
    Seed::try_from(bytes.as_slice()).map_err(|_| {
        Failure::usage(format!(
            "The device's seed {} is damaged; run `skald-phone logout --force` and pair again.",
            path.display()
        ))
    })
}

/// What this device says of itself to the host, end to end.
fn info(name: &str) -> DeviceInfo {
    let uname = rustix::system::uname();
    let system = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    DeviceInfo {
        platform: "cli".into(),
        model: None,
        os_version: Some(system),
        app_version: Some(env!("CARGO_PKG_VERSION").into()),
        device_name: Some(name.into()),
    }
}

/// Why the relay connection could not start, as a sentence.
pub fn start_failure(error: &impl std::fmt::Display) -> Failure {
    Failure::usage(crate::explain::sentence(&error.to_string()))
}
