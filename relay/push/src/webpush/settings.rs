//! What an operator sets for Web Push.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::vapid::Contact;
use crate::guard::{Guard, HostEntry};

/// The services of the browsers that there are: Chrome, Firefox, Safari, Edge.
const BROWSERS: [&str; 4] =
    ["fcm.googleapis.com", "updates.push.services.mozilla.com", "*.push.apple.com", "*.notify.windows.com"];

/// The section `[push.webpush]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebPushSettings {
    /// How push services reach the operator: `mailto:ops@example.org`, or an https page. It must be real, for some
    /// services refuse everything otherwise.
    pub contact: Contact,
    /// More hosts than those of the browsers: UnifiedPush servers, such as `ntfy.sh` or `*.push.example.org`.
    #[serde(default)]
    pub hosts: Vec<HostEntry>,
    /// Hosts that may be in a private network. Devices can make the relay call them, so name as few as possible.
    #[serde(default)]
    pub private_hosts: Vec<HostEntry>,
    /// The page that a notification opens in browsers which show it by themselves (Safari since 18.4). Without it,
    /// every notification is left to the page's worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_url: Option<PageUrl>,
}

impl WebPushSettings {
    /// Settings with this contact and nothing else.
    pub fn new(contact: Contact) -> Self {
        Self { contact, hosts: Vec::new(), private_hosts: Vec::new(), page_url: None }
    }

    /// The hosts that these settings allow.
    pub fn guard(&self) -> Guard {
        let browsers = BROWSERS.iter().filter_map(|text| text.parse().ok());
        Guard::new(browsers.chain(self.hosts.iter().cloned()).collect(), self.private_hosts.clone())
    }
}

/// An https address of at most 200 bytes, without anything secret in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PageUrl(String);

/// Text that is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no https address of at most 200 bytes")]
pub struct PageUrlError(String);

impl PageUrl {
    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PageUrl {
    type Err = PageUrlError;

    fn from_str(text: &str) -> Result<Self, PageUrlError> {
        let wrong = || PageUrlError(text.to_owned());
        let url = reqwest::Url::parse(text).map_err(|_| wrong())?;
        let page = url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
        let text = String::from(url);
        if page && text.len() <= 200 { Ok(Self(text)) } else { Err(wrong()) }
    }
}

impl TryFrom<String> for PageUrl {
    type Error = PageUrlError;
    fn try_from(text: String) -> Result<Self, PageUrlError> {
        text.parse()
    }
}

impl From<PageUrl> for String {
    fn from(url: PageUrl) -> Self {
        url.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_of_the_browsers_are_allowed_from_the_start() {
        let guard = WebPushSettings::new("mailto:ops@example.org".parse().unwrap()).guard();
        for host in [
            "fcm.googleapis.com",
            "updates.push.services.mozilla.com",
            "web.push.apple.com",
            "wns2-by3p.notify.windows.com",
        ] {
            assert!(guard.check(&format!("https://{host}/x")).is_ok(), "{host}");
        }
        assert!(guard.check("https://ntfy.sh/x").is_err());
    }

    #[test]
    fn a_page_is_https_and_short() {
        assert!("https://app.example.org/inbox".parse::<PageUrl>().is_ok());
        for bad in ["http://app.example.org", "/inbox", "javascript:alert(1)", "https://user@app.example.org"]
        {
            assert!(bad.parse::<PageUrl>().is_err(), "{bad}");
        }
        assert!(format!("https://app.example.org/{}", "x".repeat(200)).parse::<PageUrl>().is_err());
    }
}
