//! What an operator sets for push. Keys are in files of their own, never in the settings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::gateway::GatewaySettings;
use crate::ntfy::NtfySettings;
use crate::webpush::settings::WebPushSettings;

/// The section `[push]`. A provider without its section is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PushSettings {
    /// Messages to one device within this time make one push.
    pub window_ms: u32,
    /// PEM file with certificates that are trusted for every provider besides the public ones: for a private
    /// deployment, or a test.
    pub extra_ca: Option<PathBuf>,
    /// Apple's service.
    pub apns: Option<ApnsSettings>,
    /// Google's service.
    pub fcm: Option<FcmSettings>,
    /// Browsers' services, and UnifiedPush.
    pub webpush: Option<WebPushSettings>,
    /// Plain ntfy.
    pub ntfy: Option<NtfySettings>,
    /// A gateway that has Apple's and Google's keys, for whichever of the two has no section here.
    pub gateway: Option<GatewaySettings>,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self {
            window_ms: 2000,
            extra_ca: None,
            apns: None,
            fcm: None,
            webpush: None,
            ntfy: None,
            gateway: None,
        }
    }
}

impl PushSettings {
    /// Whether no provider is set up.
    pub fn is_empty(&self) -> bool {
        let Self { window_ms: _, extra_ca: _, apns, fcm, webpush, ntfy, gateway } = self;
        apns.is_none() && fcm.is_none() && webpush.is_none() && ntfy.is_none() && gateway.is_none()
    }
}

/// The section `[push.apns]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApnsSettings {
    /// The `.p8` file with the signing key.
    pub key: PathBuf,
    /// The key's identifier, 10 characters.
    pub key_id: String,
    /// The team's identifier, 10 characters.
    pub team_id: String,
    /// The app's bundle identifier.
    pub topic: String,
    /// Use Apple's development servers, which apps run from Xcode belong to.
    #[serde(default)]
    pub sandbox: bool,
    /// Another server than Apple's, such as `https://localhost:8443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
}

/// The section `[push.fcm]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FcmSettings {
    /// The service account's JSON file.
    pub service_account: PathBuf,
    /// Another server than Google's, such as `https://localhost:8443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
}
