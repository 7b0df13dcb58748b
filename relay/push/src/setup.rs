//! From settings to bridges.

use std::path::Path;
use std::sync::Arc;

use crate::apns::Apns;
use crate::bridges::{Bridges, SetupError};
use crate::fcm::Fcm;
use crate::gateway::GatewayBridge;
use crate::http::Roots;
use crate::ntfy::Ntfy;
use crate::push::WallClock;
use crate::settings::PushSettings;
use crate::webpush::WebPush;

impl Bridges {
    /// Every bridge that the settings name. Keys that are made on first use are kept in `folder`.
    pub fn set_up(settings: &PushSettings, folder: &Path, clock: &WallClock) -> Result<Self, SetupError> {
        let mut bridges = Self::none();
        if settings.is_empty() {
            return Ok(bridges);
        }
        let roots = Roots::load(settings.extra_ca.as_deref())?;
        if let Some(apns) = &settings.apns {
            bridges = bridges.with(Apns::new(apns, &roots, clock)?.shared());
        }
        if let Some(fcm) = &settings.fcm {
            bridges = bridges.with(Fcm::new(fcm, &roots, clock)?.shared());
        }
        if let Some(settings) = &settings.webpush {
            let webpush = WebPush::open(settings, folder, &roots, clock.clone())?;
            bridges = bridges.with_vapid_key(webpush.public_key()).with(Arc::new(webpush));
        }
        if let Some(settings) = &settings.ntfy {
            bridges = bridges.with(Arc::new(Ntfy::open(settings, &roots, clock.clone())?));
        }
        if let Some(settings) = &settings.gateway {
            bridges = bridges.with(Arc::new(GatewayBridge::open(settings, &roots, clock.clone())?));
        }
        Ok(bridges)
    }
}
