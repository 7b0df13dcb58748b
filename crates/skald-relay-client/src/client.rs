//! The handle.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skald_e2e::framing;
use skald_e2e::{Direction, Identity, VerificationCode, verification_code};
use skald_relay_common::ids::PublicKey;
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::{AuthAs, Command, Engine};
use crate::error::{DeviceError, PairingError, PipeError, SendError, StartError, StoreError};
use crate::event::Events;
use crate::keyring::Keyring;
use crate::link::Role;
use crate::net::{Dialer, RelayUrl};
use crate::options::AgentOptions;
use crate::outbox::fits;
use crate::pipe::{self, IncomingPipe, Opened, PipeConnection, PipeStreams};
use crate::seed::Folder;
use crate::status::{LinkState, LinkStatus};
use crate::store::{Peer, Store};
use crate::types::{Class, Device, PairingWindow, PublicIdentity};
use crate::util;

/// One running client, agent or device. Cheap to clone; the client runs until [`Self::shutdown`] or until the last handle
/// is dropped.
#[derive(Clone)]
pub struct RelayClient {
    inner: Arc<Inner>,
}

pub(crate) struct Shared {
    pub(crate) keys: Arc<Keyring>,
    pub(crate) store: Store,
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) incoming: broadcast::Sender<IncomingPipe>,
    pub(crate) online: watch::Sender<Arc<BTreeSet<PublicKey>>>,
    pub(crate) status: watch::Sender<LinkStatus>,
    pub(crate) arrived: Arc<Notify>,
    pub(crate) stop: CancellationToken,
    /// Everything this client spawned: the engine, sockets, writers of pipes. Shutting down joins it.
    pub(crate) tasks: TaskTracker,
    /// Ends the pipes of a peer that is revoked (fault 9, from this side).
    pipe_ends: Mutex<HashMap<PublicKey, CancellationToken>>,
    /// A device's agent.
    pub(crate) agent: Option<PublicKey>,
}

impl Shared {
    pub(crate) fn pipe_end(&self, peer: &PublicKey) -> CancellationToken {
        let mut ends = self.pipe_ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.entry(*peer).or_insert_with(|| self.stop.child_token()).child_token()
    }

    pub(crate) fn end_pipes(&self, peer: &PublicKey) {
        let end = self.pipe_ends.lock().unwrap_or_else(PoisonError::into_inner).remove(peer);
        if let Some(end) = end {
            end.cancel();
        }
    }
}

struct Inner {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    dir: PathBuf,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

/// What both roles start with.
pub(crate) struct Setup {
    pub(crate) folder: Folder,
    pub(crate) store: Store,
    pub(crate) keys: Keyring,
    pub(crate) dialer: Dialer,
    pub(crate) role: Role,
    pub(crate) auth: AuthAs,
    pub(crate) agent: Option<PublicKey>,
}

/// How many commands may wait for the engine; a caller waits for a place, and may stop waiting without harm.
const COMMANDS: usize = 64;
/// How many passing events may wait for the application; further ones are dropped.
const PASSING: usize = 256;
/// How many pipe invitations may wait for a handler; the oldest are dropped, and their initiators get no answer.
const INVITATIONS: usize = 64;

pub(crate) fn code_of(keys: &Keyring, peer: &Peer) -> VerificationCode {
    let (me, my_x) = (keys.me(), keys.identity.x_public_key());
    match keys.outgoing() {
        Direction::AgentToClient => verification_code(&keys.namespace, &me, &my_x, &peer.ed, &peer.x),
        Direction::ClientToAgent => verification_code(&keys.namespace, &peer.ed, &peer.x, &me, &my_x),
    }
}

impl RelayClient {
    /// Starts an agent: makes or reads its seed, opens its store, and keeps a connection to the relay from then on. An
    /// unreachable relay is no error here; see [`Self::status`].
    pub async fn start_agent(options: AgentOptions) -> Result<(Self, Events), StartError> {
        let url = RelayUrl::parse(&options.relay_url)?;
        let folder = Folder::open(&options.dir)?;
        let dialer = Dialer::new(url, options.extra_ca.as_deref(), options.timings).await?;
        let identity = Identity::from_seed(&folder.seed()?);
        let store = Store::open(&folder.database()).await?;
        if !store.claim_role("agent").await? {
            return Err(StartError::OtherRole(options.dir));
        }
        let namespace = identity.namespace_id();
        let keys = Keyring::new(identity, namespace, Direction::AgentToClient);
        let auth = AuthAs::Agent;
        Ok(Self::start(Setup { folder, store, keys, dialer, role: Role::Agent, auth, agent: None }))
    }

    pub(crate) fn start(setup: Setup) -> (Self, Events) {
        let initial = LinkStatus { state: LinkState::Connecting, last_error: None, since: util::now_ms() };
        let (commands, queue) = mpsc::channel(COMMANDS);
        let (passing_tx, passing) = mpsc::channel(PASSING);
        let shared = Arc::new(Shared {
            keys: Arc::new(setup.keys),
            store: setup.store,
            dialer: Arc::new(setup.dialer),
            incoming: broadcast::channel(INVITATIONS).0,
            online: watch::channel(Arc::default()).0,
            status: watch::channel(initial).0,
            arrived: Arc::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            pipe_ends: Mutex::default(),
            agent: setup.agent,
        });
        let dir = setup.folder.path().to_owned();
        let engine = Engine::new(shared.clone(), setup.folder, setup.role, setup.auth, passing_tx);
        shared.tasks.spawn(engine.run(queue));
        let events = Events {
            store: shared.store.clone(),
            keys: shared.keys.clone(),
            arrived: shared.arrived.clone(),
            passing,
            stopped: shared.stop.clone(),
            cursor: 0,
        };
        let inner = Inner { shared, commands, dir };
        (Self { inner: Arc::new(inner) }, events)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// The link's state, to be watched.
    pub fn status(&self) -> watch::Receiver<LinkStatus> {
        self.shared().status.subscribe()
    }

    /// Who this client is.
    pub fn identity(&self) -> PublicIdentity {
        let keys = &self.shared().keys;
        PublicIdentity {
            namespace_id: keys.namespace,
            ed25519_pub: keys.me(),
            x25519_pub: keys.identity.x_public_key(),
        }
    }

    /// Which of this client's peers the relay says are connected, to be watched. Empty without a connection.
    pub fn online(&self) -> watch::Receiver<Arc<BTreeSet<PublicKey>>> {
        self.shared().online.subscribe()
    }

    /// Tries to connect at once instead of waiting: there is a new network, or the device came to the foreground.
    pub fn reconnect_now(&self) {
        // A full queue means that the engine is busy, which it is not while it waits.
        let _ = self.inner.commands.try_send(Command::Nudge);
    }

    /// Sends `command`, then waits for its answer. Cancelled before the command is queued, nothing has happened; after,
    /// the engine carries it out whole.
    async fn ask<T, E>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Command,
        stopped: impl Fn() -> E,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        let place = self.inner.commands.reserve().await.map_err(|_| stopped())?;
        place.send(command(reply));
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Sends a JSON payload to a peer: for [`Class::Stored`] it is durable when this returns, for [`Class::Live`] it waits
    /// for its turn. What becomes of it later, if it fails, is told by [`crate::RelayEvent::SendFailed`].
    pub async fn send(
        &self,
        peer: &PublicKey,
        body: impl AsRef<[u8]>,
        class: Class,
    ) -> Result<(), SendError> {
        self.send_in(peer, None, body.as_ref(), class, false).await
    }

    /// The same, but in its `slot` only the newest message leaves: one that still waits is replaced.
    pub async fn send_latest(
        &self,
        peer: &PublicKey,
        slot: &str,
        body: impl AsRef<[u8]>,
        class: Class,
    ) -> Result<(), SendError> {
        self.send_in(peer, Some(slot.to_owned()), body.as_ref(), class, false).await
    }

    pub(crate) async fn send_in(
        &self,
        peer: &PublicKey,
        slot: Option<String>,
        body: &[u8],
        class: Class,
        kept: bool,
    ) -> Result<(), SendError> {
        let live = class == Class::Live;
        let framed = framing::encode_json(body);
        fits(&framed, live)?;
        let peer = *peer;
        self.ask(|reply| Command::Send { peer, slot, framed, live, kept, reply }, || SendError::Stopped).await
    }

    /// Waits until nothing stored waits to be handed to the relay, at most `limit`. Whether it came to that.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.inner.commands.send(Command::Flush(reply)).await.ok()?;
            answer.await.ok()
        };
        matches!(tokio::time::timeout(limit, asked).await, Ok(Some(())))
    }

    /// Opens a pairing window: `ttl` of zero means the relay's default of five minutes, the longest is ten. While the link
    /// is being set up it waits for it a few seconds. A window opened before is closed by this.
    pub async fn open_pairing(&self, ttl: Duration) -> Result<PairingWindow, PairingError> {
        self.ask(|reply| Command::OpenPairing { ttl, reply }, || PairingError::Stopped).await
    }

    /// Closes the pairing window, if one is open.
    pub async fn close_pairing(&self) -> Result<(), PairingError> {
        self.ask(Command::ClosePairing, || PairingError::Stopped).await
    }

    /// The devices that paired, oldest first.
    pub async fn devices(&self) -> Result<Vec<Device>, StoreError> {
        let online = self.shared().online.borrow().clone();
        let keys = &self.shared().keys;
        let peers = self.shared().store.peers().await?;
        Ok(peers.iter().map(|peer| Device::from_peer(keys, peer, online.contains(&peer.ed))).collect())
    }

    /// Admits a device. Durable when this returns; the relay is told at once or with the next connection. The device's
    /// state does not change otherwise, so asking twice does no harm.
    pub async fn authorize(&self, key: &PublicKey) -> Result<(), DeviceError> {
        let key = *key;
        self.ask(|reply| Command::Authorize { key, reply }, || DeviceError::Stopped).await
    }

    /// Drops a device: its entry, what waits for it and from it, and its pipes, at once here and as soon as can be at the
    /// relay. Only a hash of its keys stays, beside the counters that must not begin anew if it ever pairs again.
    pub async fn revoke(&self, key: &PublicKey) -> Result<(), DeviceError> {
        let key = *key;
        self.ask(|reply| Command::Revoke { key, reply }, || DeviceError::Stopped).await
    }

    /// Invites a peer to a pipe and waits until both ends are about to meet at the relay. Bounded in time: the error says
    /// whether the peer, the relay, or this client's own pace was in the way.
    pub async fn open_pipe(
        &self,
        peer: &PublicKey,
        stream_type: &str,
        headers: BTreeMap<String, String>,
    ) -> Result<PipeConnection, PipeError> {
        // Boxed: a TLS handshake is within, and callers should not carry it on their stack.
        Box::pin(pipe::open(self.shared(), &self.inner.commands, *peer, stream_type, headers)).await
    }

    /// Invitations from peers. While nobody listens here, every invitation is refused. Each is open for 30 seconds.
    pub fn incoming_pipes(&self) -> broadcast::Receiver<IncomingPipe> {
        self.shared().incoming.subscribe()
    }

    /// Takes an invitation up. It can be taken up, or refused, once.
    pub async fn accept_pipe(&self, invitation: &IncomingPipe) -> Result<PipeConnection, PipeError> {
        Box::pin(pipe::accept(self.shared(), &self.inner.commands, invitation)).await
    }

    /// Like [`Self::open_pipe`], for a pipe that carries many streams of this type, each cheap to open. A peer that knows
    /// only the plain form gives a pipe in it.
    pub async fn open_streams(
        &self,
        peer: &PublicKey,
        stream_type: &str,
        headers: BTreeMap<String, String>,
    ) -> Result<Opened, PipeError> {
        Box::pin(pipe::open_streams(self.shared(), &self.inner.commands, *peer, stream_type, headers)).await
    }

    /// Takes up an invitation that [`IncomingPipe::offers_streams`]. Each stream is one of the invitation's type.
    pub async fn accept_streams(&self, invitation: &IncomingPipe) -> Result<PipeStreams, PipeError> {
        Box::pin(pipe::accept_streams(self.shared(), &self.inner.commands, invitation)).await
    }

    /// Refuses an invitation; `reason` is shown at the other end.
    pub async fn reject_pipe(&self, invitation: &IncomingPipe, reason: &str) -> Result<(), PipeError> {
        pipe::reject(&self.inner.commands, invitation, reason).await
    }

    /// Stops: ends pipes and connection, waits for every task, closes the store. Stored messages stay stored.
    pub async fn shutdown(&self) {
        let shared = self.shared();
        shared.stop.cancel();
        shared.tasks.close();
        shared.tasks.wait().await;
    }

    /// Stops and forgets: afterwards the folder holds neither seed nor store.
    pub(crate) async fn erase(&self) -> Result<(), StartError> {
        self.shutdown().await;
        let dir = &self.inner.dir;
        Folder::open(dir)?.erase().map_err(|source| StartError::Folder { dir: dir.clone(), source })
    }
}

/// A reply that nobody waits for any more is dropped: the caller was cancelled.
pub(crate) fn reply<T, E>(to: oneshot::Sender<Result<T, E>>, outcome: Result<T, E>) {
    let _ = to.send(outcome);
}
