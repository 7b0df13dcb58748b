//! Google's service: FCM v1, with access tokens for a service account.

mod access;
mod answer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::json;
use zeroize::Zeroizing;

use self::access::{Access, ServiceAccount};
use self::answer::Next;
use crate::bridge::{Bridge, Provider};
use crate::bridges::SetupError;
use crate::http::{self as client, Roots, Versions};
use crate::payload;
use crate::push::{Push, WallClock};
use crate::settings::FcmSettings;
use crate::verdict::Verdict;

const GOOGLE: &str = "https://fcm.googleapis.com";
/// Google keeps a message for four weeks at most.
const LONGEST: Duration = Duration::from_secs(28 * 24 * 60 * 60);
/// A later push takes the place of an earlier one that the device has not fetched.
const COLLAPSE: &str = "inbox";

/// The way to Google's service.
pub struct Fcm {
    client: reqwest::Client,
    url: String,
    access: Access,
    clock: WallClock,
}

impl Fcm {
    /// Reads the service account and makes ready. Nothing is sent yet.
    pub fn new(settings: &FcmSettings, roots: &Roots, clock: &WallClock) -> Result<Self, SetupError> {
        let account = ServiceAccount::load(&settings.service_account)?;
        let base = client::base_url("push.fcm.base_url", settings.base_url.as_deref(), GOOGLE)?;
        let client = client::finish(client::builder(roots, Versions::Two))?;
        let url = format!("{base}/v1/projects/{}/messages:send", account.project_id());
        Ok(Self { access: Access::new(account, client.clone()), client, url, clock: clock.clone() })
    }

    fn body(&self, push: &Push) -> Zeroizing<Vec<u8>> {
        let ttl = self.clock.now().until(push.expires).min(LONGEST).as_secs();
        let message = json!({"message": {
            "token": push.token.as_str(),
            "data": payload::fcm(push),
            "android": {"priority": "HIGH", "ttl": format!("{ttl}s"), "collapse_key": COLLAPSE},
        }});
        Zeroizing::new(message.to_string().into_bytes())
    }

    /// One request; a connection that was lost under it is replaced once.
    async fn request(&self, token: &str, body: &[u8]) -> Result<reqwest::Response, Verdict> {
        let bearer = HeaderValue::try_from(Zeroizing::new(format!("Bearer {token}")).as_str());
        let mut bearer = bearer.map_err(|_| Verdict::operator("an access token that is none"))?;
        bearer.set_sensitive(true);
        let request = || {
            let request = self.client.post(&self.url).header(AUTHORIZATION, bearer.clone());
            request.header(CONTENT_TYPE, "application/json").body(body.to_vec()).send()
        };
        client::twice(request).await
    }
}

#[async_trait]
impl Bridge for Fcm {
    fn provider(&self) -> Provider {
        Provider::Fcm
    }

    async fn send(&self, push: &Push) -> Verdict {
        let body = self.body(push);
        let mut refreshed = false;
        loop {
            let token = match self.access.token(&self.clock).await {
                Ok(token) => token,
                Err(verdict) => return verdict,
            };
            let response = match self.request(&token, &body).await {
                Ok(response) => response,
                Err(verdict) => return verdict,
            };
            let status = response.status().as_u16();
            let after = client::retry_after(response.headers(), self.clock.now());
            match answer::judge(status, &client::answer(response).await, after) {
                Next::Done(verdict) => return verdict,
                Next::OtherProject => {
                    tracing::error!(
                        device = %push.device.short(),
                        "a device's token belongs to another Firebase project than the one in \
                         push.fcm.service_account; it is forgotten"
                    );
                    return Verdict::TokenDead { since: None };
                }
                Next::Refresh if !refreshed => {
                    refreshed = true;
                    self.access.refused(&token).await;
                }
                Next::Refresh => return Verdict::operator("UNAUTHENTICATED"),
            }
        }
    }
}

impl Fcm {
    /// The bridge to hand to [`crate::Bridges`].
    pub fn shared(self) -> Arc<dyn Bridge> {
        Arc::new(self)
    }
}
