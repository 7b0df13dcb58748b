//! The device's side: pairing from a QR, and running afterwards.
//!
//! ```no_run
//! # async fn run(scanned: &str) -> Result<(), Box<dyn std::error::Error>> {
//! use skald_relay_client::{DeviceOptions, Platform, device};
//!
//! let options = DeviceOptions::new("/var/lib/phone", Platform::DESKTOP);
//! let qr = device::parse_qr(scanned)?;
//! let paired = device::pair(&options, &qr).await?;
//! println!("compare this code with the host's: {}", paired.verification_code);
//! let (client, mut events) = device::start(options).await?;
//! // It waits to be admitted by itself; `client.status()` says so. A first message may be put right away.
//! client.outbox_put("hello", br#"{"v":1,"kind":"hello"}"#).await?;
//! # Ok(()) }
//! ```

use std::path::Path;

use skald_e2e::{Direction, Identity, VerificationCode, verification_code};
use skald_relay_common::codes::ErrorCode;
use skald_relay_common::frame::{Auth, AuthPairing, FromPeer, FromRelay, Refusal, Role as WireRole};
use skald_relay_common::ids::{NamespaceId, PublicKey};

use crate::client::{RelayClient, Setup};
use crate::engine::AuthAs;
use crate::error::{StartError, StoreError};
use crate::event::Events;
use crate::keyring::Keyring;
use crate::link::Role;
use crate::net::{Dialer, RelayUrl};
use crate::options::DeviceOptions;
use crate::seed::Folder;
use crate::status::LinkProblem;
use crate::store::{PeerState, Store, fact, set_fact};
use crate::util;
use crate::wire;

pub use skald_e2e::{QrError, QrPayload};

/// Reads a scanned or pasted pairing code.
pub fn parse_qr(text: &str) -> Result<QrPayload, QrError> {
    QrPayload::parse(text)
}

/// What came of pairing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paired {
    /// The agent's namespace.
    pub namespace_id: NamespaceId,
    /// The agent's key.
    pub agent: PublicKey,
    /// This device's key.
    pub device: PublicKey,
    /// The six digits both screens show: they must be equal.
    pub verification_code: VerificationCode,
}

/// The device did not pair.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// The folder, seed, store or address cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The folder belongs to another host already.
    #[error("this device is paired with another host; log out there first, or use another folder")]
    OtherAgent,
    /// The agent's key in the code is not usable.
    #[error("the pairing code is damaged: its key is not usable")]
    Key,
    /// The window is closed.
    #[error("the pairing code has expired or was used already; show a new one on the host")]
    Closed,
    /// The relay has not heard of the host.
    #[error("the relay does not know this host; check that the host is connected, then show a new code")]
    UnknownHost,
    /// The relay refused for another reason.
    #[error("the relay refused to pair ({0})")]
    Refused(String),
    /// The relay could not be reached.
    #[error("{0}")]
    Link(LinkProblem),
}

impl From<StoreError> for PairError {
    fn from(error: StoreError) -> Self {
        Self::Start(error.into())
    }
}

/// Pairs: shows the relay the token of the QR and registers this device, which is then pending until the agent admits it.
/// Makes the folder's seed where there is none. The same device may pair with the same host again; its counters go on.
pub async fn pair(options: &DeviceOptions, qr: &QrPayload) -> Result<Paired, PairError> {
    let url = RelayUrl::parse(&qr.relay_url).map_err(StartError::from)?;
    let folder = Folder::open(&options.dir)?;
    let dialer = Dialer::new(url, options.extra_ca.as_deref(), options.timings.clone()).await?;
    let identity = Identity::from_seed(&folder.seed().map_err(StartError::from)?);
    if identity.session(&qr.agent_x25519_pub).is_err() || identity.public_key() == qr.agent_ed25519_pub {
        return Err(PairError::Key);
    }
    let store = Store::open(&folder.database()).await?;
    let outcome = pair_in(&store, options, &dialer, &identity, qr).await;
    store.close().await;
    outcome
}

async fn pair_in(
    store: &Store,
    options: &DeviceOptions,
    dialer: &Dialer,
    identity: &Identity,
    qr: &QrPayload,
) -> Result<Paired, PairError> {
    if !store.claim_role("device").await? {
        return Err(StartError::OtherRole(options.dir.clone()).into());
    }
    let agent = qr.agent_ed25519_pub;
    let paired = store.fact(fact::PAIRED).await?.is_some();
    if paired && store.fact(fact::AGENT).await?.is_some_and(|known| known != agent.as_bytes()) {
        return Err(PairError::OtherAgent);
    }
    offer(options, dialer, identity, qr).await?;
    let mut tx = store.begin().await?;
    Store::admit(&mut tx, &agent, &qr.agent_x25519_pub, PeerState::Authorized, 1, util::now_ms()).await?;
    set_fact(&mut tx, fact::AGENT, agent.as_bytes()).await?;
    set_fact(&mut tx, fact::RELAY_URL, dialer.url.to_string().as_bytes()).await?;
    set_fact(&mut tx, fact::PAIRED, b"1").await?;
    // Whoever pairs anew waits to be admitted anew; what was said about it before is of no account.
    set_fact(&mut tx, fact::ADMITTED, b"0").await?;
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Paired {
        namespace_id: qr.namespace_id,
        agent,
        device: identity.public_key(),
        verification_code: verification_code(
            &qr.namespace_id,
            &agent,
            &qr.agent_x25519_pub,
            &identity.public_key(),
            &identity.x_public_key(),
        ),
    })
}

/// One connection in the pairing role (relay-protocol §4.2).
async fn offer(
    options: &DeviceOptions,
    dialer: &Dialer,
    identity: &Identity,
    qr: &QrPayload,
) -> Result<(), PairError> {
    let mut socket = wire::Handshake::open(dialer).await.map_err(PairError::Link)?;
    let nonce = match socket.next(dialer.timings.challenge).await.map_err(PairError::Link)? {
        FromRelay::Challenge(nonce) => nonce,
        FromRelay::AuthError(refusal) | FromRelay::Error(refusal) => return Err(refused(&refusal)),
        _ => return Err(PairError::Link(LinkProblem::Protocol)),
    };
    let role = WireRole::Pairing(AuthPairing {
        namespace: qr.namespace_id,
        key: identity.public_key(),
        x_key: identity.x_public_key(),
        token: qr.pairing_token,
        device_token: options.device_token.clone(),
        platform: options.platform,
    });
    let auth = Auth { role, signature: identity.sign_challenge(&nonce) };
    socket.send(&FromPeer::Auth(auth)).await.map_err(PairError::Link)?;
    let verdict = socket.next(dialer.timings.verdict).await.map_err(PairError::Link)?;
    socket.close().await;
    match verdict {
        FromRelay::AuthOk(ok) if ok.namespace == qr.namespace_id => Ok(()),
        FromRelay::AuthOk(_) => Err(PairError::Link(LinkProblem::WrongNamespace)),
        FromRelay::AuthError(refusal) | FromRelay::Error(refusal) => Err(refused(&refusal)),
        _ => Err(PairError::Link(LinkProblem::Protocol)),
    }
}

fn refused(refusal: &Refusal) -> PairError {
    match refusal.code() {
        Some(ErrorCode::PairingClosed) => PairError::Closed,
        Some(ErrorCode::NotFound) => PairError::UnknownHost,
        Some(ErrorCode::RateLimited) => PairError::Link(LinkProblem::Busy),
        Some(code) => PairError::Refused(code.to_string()),
        None => PairError::Refused("no known reason".to_owned()),
    }
}

/// Starts a paired device. It connects by itself, waits to be admitted, and notices when it no longer is; see
/// [`RelayClient::status`]. Its one peer is [`RelayClient::agent`].
pub async fn start(options: DeviceOptions) -> Result<(RelayClient, Events), StartError> {
    if !options.dir.join("peers.db").exists() {
        return Err(StartError::NotPaired);
    }
    let folder = Folder::open(&options.dir)?;
    // A device without a seed is none: one that was paired has it.
    let Some(seed) = folder.read_seed()? else { return Err(StartError::NotPaired) };
    let identity = Identity::from_seed(&seed);
    let store = Store::open(&folder.database()).await?;
    if !store.claim_role("device").await? {
        return Err(StartError::OtherRole(options.dir));
    }
    let facts =
        (store.fact(fact::PAIRED).await?, store.fact(fact::AGENT).await?, store.fact(fact::RELAY_URL).await?);
    let (Some(_), Some(agent), Some(url)) = facts else { return Err(StartError::NotPaired) };
    let agent = PublicKey::try_from(agent.as_slice()).map_err(|_| StartError::NotPaired)?;
    let url = String::from_utf8(url).map_err(|_| StartError::NotPaired)?;
    let dialer = Dialer::new(RelayUrl::parse(&url)?, options.extra_ca.as_deref(), options.timings).await?;
    let admitted = store.fact(fact::ADMITTED).await?.is_some_and(|v| v == b"1");
    let namespace = skald_relay_common::namespace_id(&agent);
    let keys = Keyring::new(identity, namespace, Direction::ClientToAgent);
    let auth = AuthAs::Device { device_token: options.device_token, platform: options.platform };
    let role = Role::Device { admitted };
    Ok(RelayClient::start(Setup { folder, store, keys, dialer, role, auth, agent: Some(agent) }))
}

/// Logs out: stops the client and deletes the device's seed and store. Tell the agent first, with a message of your own
/// and [`RelayClient::flush`].
pub async fn forget(client: &RelayClient) -> Result<(), StartError> {
    client.erase().await
}

/// The same for a device that is not running.
pub fn forget_at(dir: &Path) -> Result<(), StartError> {
    Folder::open(dir)?.erase().map_err(|source| StartError::Folder { dir: dir.to_owned(), source })
}
