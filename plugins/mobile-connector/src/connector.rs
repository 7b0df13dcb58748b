//! The connector at work: what the routes, the received payloads and the sending loop share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skald_core_api::{DevicePeer, Event, Events, Inbox, PluginStatus};
use skald_payloads::{clip, one_line};
use tokio::sync::mpsc;

use crate::relay::{Peer, Relay, RelayError};
use crate::settings::Checked;
use crate::store::{Profile, Store, StoreError};
use crate::streams::StreamTable;
use crate::windows::{WindowState, Windows};
use crate::{DeviceKey, picture};

/// How long a request to pair waits for a link that was lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Characters of a device's name.
pub(crate) const NAME_CHARS: usize = 60;

/// What the sending loop is told by others. The mailbox holds 64; who writes waits for room, so nothing is lost.
#[derive(Debug)]
pub(crate) enum Poke {
    /// Devices came, went or changed.
    Devices,
    /// A device asks for the Inbox.
    Request(DeviceKey),
    /// A device holds something other than what is pending.
    Refresh(DeviceKey),
    /// The relay refused a message to a device.
    Refused(DeviceKey),
    /// A device's answer was dealt with.
    Ack {
        /// The device.
        to: DeviceKey,
        /// The answer's envelope, named as the device wrote it.
        ref_id: String,
    },
}

/// An operation failed; the text is for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the operating system gives no random numbers")]
    Random,
}

/// A device with what people know it by.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub peer: Peer,
    pub profile: Profile,
}

impl Listed {
    /// The name people know it by: the owner's, else its own, else the beginning of its key.
    pub(crate) fn name(&self) -> String {
        let own = self.profile.info.as_ref().and_then(|i| i.device_name.as_deref().or(i.model.as_deref()));
        let given = [self.profile.name.as_deref(), own].into_iter().flatten();
        given.map(|name| clip(&one_line(name), NAME_CHARS)).find(|name| !name.is_empty()).unwrap_or_else(
            || {
                let key = self.peer.key.to_string();
                format!("Device {}", &key[..8])
            },
        )
    }

    /// The device as other parts of Skald name it.
    pub(crate) fn as_peer(&self) -> DevicePeer {
        DevicePeer { key: self.peer.key.to_string(), name: self.name() }
    }
}

/// What a request for a window's picture finds.
pub(crate) enum Picture {
    Png(Vec<u8>),
    Unknown,
    Failed,
}

/// See the module.
pub(crate) struct Connector {
    pub relay: Arc<dyn Relay>,
    pub store: Store,
    pub inbox: Arc<dyn Inbox>,
    pub events: Arc<dyn Events>,
    pub streams: Arc<StreamTable>,
    pub settings: Checked,
    pub pokes: mpsc::Sender<Poke>,
    windows: Mutex<Windows>,
}

impl Connector {
    pub(crate) fn new(
        relay: Arc<dyn Relay>,
        store: Store,
        inbox: Arc<dyn Inbox>,
        events: Arc<dyn Events>,
        streams: Arc<StreamTable>,
        settings: Checked,
    ) -> (Arc<Self>, mpsc::Receiver<Poke>) {
        let (pokes, mailbox) = mpsc::channel(64);
        let windows = Mutex::default();
        (Arc::new(Self { relay, store, inbox, events, streams, settings, pokes, windows }), mailbox)
    }

    /// Tells the sending loop something. It only fails once that has ended, and then nobody waits for the effect.
    pub(crate) async fn poke(&self, poke: Poke) {
        let _ = self.pokes.send(poke).await;
    }

    /// Every device with its names, in the order they paired.
    pub(crate) async fn devices(&self) -> Result<Vec<Listed>, Failed> {
        let mut profiles: BTreeMap<_, _> = self.store.profiles().await?;
        let mut peers = self.relay.devices().await?;
        peers.sort_by_key(|p| (p.created_at, p.key));
        let listed = peers
            .into_iter()
            .map(|peer| Listed { profile: profiles.remove(&peer.key).unwrap_or_default(), peer });
        Ok(listed.collect())
    }

    /// One device.
    pub(crate) async fn device(&self, key: DeviceKey) -> Result<Option<Listed>, Failed> {
        Ok(self.devices().await?.into_iter().find(|d| d.peer.key == key))
    }

    /// Where the host's notifications stand: a device that comes now is told what comes after.
    pub(crate) fn log_head(&self) -> i64 {
        *self.inbox.notification_head().borrow()
    }

    /// Admits a device; whether there is one.
    pub(crate) async fn authorize(&self, key: DeviceKey) -> Result<bool, Failed> {
        let found = self.relay.authorize(key).await?;
        self.devices_changed().await;
        Ok(found)
    }

    /// Drops a device everywhere; whether there was one.
    pub(crate) async fn revoke(&self, key: DeviceKey) -> Result<bool, Failed> {
        let found = self.relay.revoke(key).await?;
        // Its admission is gone first, so that no stream begins between these two.
        self.streams.end(key);
        self.store.forget(key).await?;
        self.devices_changed().await;
        Ok(found)
    }

    /// Names a device; whether there is one.
    pub(crate) async fn rename(&self, key: DeviceKey, name: Option<&str>) -> Result<bool, Failed> {
        if self.device(key).await?.is_none() {
            return Ok(false);
        }
        self.store.set_name(key, name, self.log_head()).await?;
        self.events.publish(Event::Devices);
        Ok(true)
    }

    /// Tells everyone who shows or serves devices that they have changed.
    pub(crate) async fn devices_changed(&self) {
        self.events.publish(Event::Devices);
        self.poke(Poke::Devices).await;
    }

    /// A device has paired: the window is used, and the policy says whether the device waits. Safe to repeat.
    pub(crate) async fn paired(&self, window: u64, key: DeviceKey, admitted: bool) -> Result<(), Failed> {
        self.windows().paired(window, key);
        if !admitted {
            // It may come under the name of a known device with other keys, which a relay can offer at will: nothing of
            // what was known speaks for it.
            self.store.forget(key).await?;
        }
        if !self.settings.require_device_confirmation {
            self.relay.authorize(key).await?;
        }
        self.devices_changed().await;
        Ok(())
    }

    /// Opens a pairing window and names it by a code of its own.
    pub(crate) async fn open_pairing(&self, ttl: u32) -> Result<(String, i64), Failed> {
        let mut code = [0; 16];
        getrandom::fill(&mut code).map_err(|_| Failed::Random)?;
        let code = hex::encode(code);
        self.reached().await?;
        let opened = self.relay.open_pairing(ttl).await?;
        let expires_at = opened.expires_at;
        self.windows().open(PluginStatus::now_ms(), opened.id, code.clone(), expires_at, opened.qr);
        self.events.publish(Event::Devices);
        Ok((code, expires_at))
    }

    /// Waits a moment for a link that is just coming back, and says why there is none otherwise.
    async fn reached(&self) -> Result<(), RelayError> {
        let mut link = self.relay.link();
        let known = link.borrow().clone();
        let (false, Some(error)) = (known.up, known.last_error) else { return Ok(()) };
        match tokio::time::timeout(PATIENCE, link.wait_for(|link| link.up)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(RelayError(format!("pairing needs the relay, and it is not reached. {error}"))),
        }
    }

    /// Where the window of this code stands.
    pub(crate) fn window(&self, code: &str) -> Option<WindowState> {
        self.windows().state(PluginStatus::now_ms(), code)
    }

    /// The picture of the window of this code: the QR, or words that say why there is none.
    pub(crate) fn picture(&self, code: &str) -> Picture {
        let again: &[&str] = &["MAKE A NEW CODE TO PAIR", "ANOTHER DEVICE."];
        let now = PluginStatus::now_ms();
        let (state, qr) = {
            let mut windows = self.windows();
            (windows.state(now, code), windows.qr(now, code))
        };
        let drawn = match (state, qr) {
            (None, _) => return Picture::Unknown,
            (Some(WindowState::Open), Some(text)) => picture::qr_png(&text),
            (Some(WindowState::Paired(_)), _) => picture::words_png("USED", again),
            (Some(WindowState::Superseded), _) => {
                picture::words_png("REPLACED", &["A NEWER CODE IS SHOWN", "IN ITS PLACE."])
            }
            (Some(WindowState::Open | WindowState::Expired), _) => picture::words_png("EXPIRED", again),
        };
        drawn.map_or(Picture::Failed, Picture::Png)
    }

    fn windows(&self) -> std::sync::MutexGuard<'_, Windows> {
        // A window is entered in one step, so a panic elsewhere leaves none half-entered.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
