//! The relay client behind the connector's boundary.

use std::time::Duration;

use async_trait::async_trait;
use skald_relay_client::{
    AgentOptions, Class, DeviceError, DeviceState, Events, LinkState, LinkStatus, Platform, RelayClient,
    StartError,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::DeviceKey;
use crate::relay::{How, Link, Opened, Peer, Relay, RelayError};

/// An agent at work.
pub(crate) struct Agent {
    pub(crate) client: RelayClient,
    link: watch::Sender<Link>,
}

impl Agent {
    /// Starts the agent; an unreachable relay is no error.
    pub(crate) async fn start(options: AgentOptions) -> Result<(Self, Events), StartError> {
        let (client, events) = RelayClient::start_agent(options).await?;
        let link = watch::Sender::new(seen(&client.status().borrow()));
        Ok((Self { client, link }, events))
    }

    /// Passes the link's state on until `stop` is cancelled.
    pub(crate) async fn watch_link(&self, stop: CancellationToken) {
        let mut status = self.client.status();
        loop {
            let now = seen(&status.borrow_and_update());
            self.link.send_if_modified(|link| {
                let changed = *link != now;
                *link = now.clone();
                changed
            });
            tokio::select! {
                () = stop.cancelled() => return,
                changed = status.changed() => if changed.is_err() { return },
            }
        }
    }
}

fn seen(status: &LinkStatus) -> Link {
    Link {
        up: status.state == LinkState::Connected,
        state: status.state.as_str(),
        last_error: status.last_error.as_ref().map(ToString::to_string),
        since: ms(status.since),
    }
}

fn ms(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// An error of the client's as a sentence for people. The client's errors bear no content.
fn failed(error: impl std::fmt::Display) -> RelayError {
    RelayError(error.to_string())
}

/// Whether there was such a device.
fn found(result: Result<(), DeviceError>) -> Result<bool, RelayError> {
    match result {
        Ok(()) => Ok(true),
        Err(DeviceError::Unknown) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

#[async_trait]
impl Relay for Agent {
    async fn send(&self, to: DeviceKey, json: &[u8], how: How) -> Result<(), RelayError> {
        let to = to.0.into();
        match how {
            How::Stored(Some(slot)) => self.client.send_latest(&to, slot, json, Class::Stored).await,
            How::Stored(None) => self.client.send(&to, json, Class::Stored).await,
            // Only snapshots go live. One that waits for the pace is replaced, so that no device fills the queue by asking.
            How::Live => self.client.send_latest(&to, "inbox", json, Class::Live).await,
        }
        .map_err(failed)
    }

    async fn devices(&self) -> Result<Vec<Peer>, RelayError> {
        let devices = self.client.devices().await.map_err(failed)?;
        let peer = |d: skald_relay_client::Device| Peer {
            key: DeviceKey(*d.key.as_bytes()),
            platform: d.platform.map_or("unknown", Platform::name),
            admitted: d.state == DeviceState::Authorized,
            verification_code: d.verification_code.to_string(),
            created_at: ms(d.created_at),
            last_seen: d.last_seen.map(ms),
            online: d.online,
        };
        Ok(devices.into_iter().map(peer).collect())
    }

    async fn authorize(&self, key: DeviceKey) -> Result<bool, RelayError> {
        found(self.client.authorize(&key.0.into()).await)
    }

    async fn revoke(&self, key: DeviceKey) -> Result<bool, RelayError> {
        found(self.client.revoke(&key.0.into()).await)
    }

    async fn open_pairing(&self, ttl: u32) -> Result<Opened, RelayError> {
        let window = self.client.open_pairing(Duration::from_secs(ttl.into())).await.map_err(failed)?;
        let qr = Zeroizing::new(window.qr.to_json());
        Ok(Opened { id: window.id, qr, expires_at: ms(window.expires_at) })
    }

    fn link(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    fn namespace(&self) -> [u8; 32] {
        *self.client.identity().namespace_id.as_bytes()
    }
}
