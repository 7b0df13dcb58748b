//! The connector's routes below `/api/plugin/mobile-connector/`.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use skald_core_api::{Permission, PluginHttp, PluginRequest, PluginResponse};
use skald_payloads::{clip, one_line};

use crate::DeviceKey;
use crate::connector::{Connector, Failed, Listed, NAME_CHARS, Picture};
use crate::settings::MAX_PAIRING_TTL;
use crate::windows::WindowState;

/// The routes of a connector that is configured.
pub(crate) struct Routes(pub Arc<Connector>);

/// The routes while there is no relay: they say so.
pub(crate) struct IdleRoutes {
    /// When the plugin became idle, unix milliseconds.
    pub since: i64,
}

const IDLE: &str = "The mobile connector has no relay; write its address into the plugin's settings.";

#[async_trait]
impl PluginHttp for IdleRoutes {
    async fn handle(&self, request: PluginRequest) -> PluginResponse {
        let path: Vec<_> = request.path.iter().map(String::as_str).collect();
        match (request.method.as_str(), &path[..]) {
            ("GET", ["status" | "devices"]) if !request.principal.may(Permission::Read) => forbidden(),
            ("GET", ["status"]) => PluginResponse::json(
                200,
                &json!({"state": "idle", "relay_url": "", "namespace_id": null, "since": self.since}),
            ),
            ("GET", ["devices"]) => PluginResponse::json(200, &json!([])),
            (_, ["pairing" | "pairingqrcode" | "devices" | "status", ..]) => {
                PluginResponse::problem(409, "no_relay", IDLE)
            }
            _ => not_found(),
        }
    }
}

#[async_trait]
impl PluginHttp for Routes {
    async fn handle(&self, request: PluginRequest) -> PluginResponse {
        let path: Vec<_> = request.path.iter().map(String::as_str).collect();
        let method = request.method.as_str();
        let needs = match (method, &path[..]) {
            ("GET", ["status"] | ["devices"] | ["pairing", _]) => Permission::Read,
            // The picture admits whoever photographs it, so it is for those who may pair.
            ("GET", ["pairingqrcode"]) | ("POST", ["pairing"] | ["devices", _, "authorize"]) => {
                Permission::Administer
            }
            ("PUT" | "DELETE", ["devices", _]) => Permission::Administer,
            (_, ["status" | "devices" | "pairing" | "pairingqrcode"])
            | (_, ["pairing" | "devices", _] | ["devices", _, "authorize"]) => {
                return PluginResponse::problem(
                    405,
                    "method_not_allowed",
                    "This path is not for that method.",
                );
            }
            _ => return not_found(),
        };
        if !request.principal.may(needs) {
            return forbidden();
        }
        match (method, &path[..]) {
            (_, ["status"]) => self.status(),
            ("GET", ["devices"]) => self.devices().await,
            ("POST", ["pairing"]) => self.pair(&request.body).await,
            (_, ["pairing", code]) => self.window(code).await,
            (_, ["pairingqrcode"]) => self.picture(request.query.get("code").map_or("", String::as_str)),
            (_, ["devices", key, rest @ ..]) => match key.parse() {
                Ok(key) => self.change(method, key, rest, &request.body).await,
                Err(_) => unknown_device(),
            },
            _ => not_found(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct PairBody {
    ttl: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameBody {
    name: String,
}

impl Routes {
    fn status(&self) -> PluginResponse {
        let link = self.0.relay.link().borrow().clone();
        let mut status = json!({
            "state": link.state,
            "relay_url": self.0.settings.relay_url.as_deref().unwrap_or_default(),
            "namespace_id": hex::encode(self.0.relay.namespace()),
            "since": link.since,
        });
        if let Some(error) = link.last_error {
            status["last_error"] = error.into();
        }
        PluginResponse::json(200, &status)
    }

    async fn devices(&self) -> PluginResponse {
        match self.0.devices().await {
            Ok(devices) => PluginResponse::json(200, &devices.iter().map(device_json).collect::<Vec<_>>()),
            Err(error) => failed(&error),
        }
    }

    async fn pair(&self, body: &[u8]) -> PluginResponse {
        let body: PairBody = if body.is_empty() {
            PairBody::default()
        } else {
            match serde_json::from_slice(body) {
                Ok(body) => body,
                Err(_) => return PluginResponse::problem(422, "invalid", r#"Send {} or {"ttl": SECONDS}."#),
            }
        };
        let ttl = body.ttl.unwrap_or(self.0.settings.pairing_ttl);
        if !(1..=MAX_PAIRING_TTL).contains(&ttl) {
            let detail = format!("The field ttl must be a number of seconds from 1 to {MAX_PAIRING_TTL}.");
            return PluginResponse::problem(422, "invalid", &detail);
        }
        match self.0.open_pairing(ttl).await {
            Ok((code, expires_at)) => {
                let qr_url = format!("/api/plugin/mobile-connector/pairingqrcode?code={code}");
                PluginResponse::json(200, &json!({"code": code, "qr_url": qr_url, "expires_at": expires_at}))
            }
            // Pairing needs the relay; everything else about it is sound.
            Err(Failed::Relay(error)) => PluginResponse::problem(503, "relay", &sentence(&error.to_string())),
            Err(error) => failed(&error),
        }
    }

    async fn window(&self, code: &str) -> PluginResponse {
        let Some(state) = self.0.window(code) else { return unknown_code() };
        let mut answer = json!({"state": state.as_str()});
        if let WindowState::Paired(key) = state {
            match self.0.device(key).await {
                Ok(Some(device)) => answer["device"] = device_json(&device),
                // It was refused or logged out meanwhile.
                Ok(None) => {}
                Err(error) => return failed(&error),
            }
        }
        PluginResponse::json(200, &answer)
    }

    fn picture(&self, code: &str) -> PluginResponse {
        match self.0.picture(code) {
            Picture::Png(png) => {
                PluginResponse { status: 200, content_type: "image/png".into(), body: png.into() }
            }
            Picture::Unknown => unknown_code(),
            Picture::Failed => PluginResponse::problem(500, "internal", "The picture could not be drawn."),
        }
    }

    async fn change(&self, method: &str, key: DeviceKey, rest: &[&str], body: &[u8]) -> PluginResponse {
        let done = match (method, rest) {
            ("POST", ["authorize"]) => self.0.authorize(key).await,
            ("DELETE", []) => self.0.revoke(key).await,
            ("PUT", []) => {
                let Ok(NameBody { name }) = serde_json::from_slice(body) else {
                    return PluginResponse::problem(422, "invalid", r#"Send {"name": TEXT}."#);
                };
                let name = one_line(&name);
                if name.chars().count() > NAME_CHARS {
                    let detail = format!("A device's name has at most {NAME_CHARS} characters.");
                    return PluginResponse::problem(422, "invalid", &detail);
                }
                self.0.rename(key, Some(name.as_str()).filter(|n| !n.is_empty())).await
            }
            _ => return not_found(),
        };
        match done {
            Ok(true) if method == "DELETE" => no_content(),
            Ok(true) => match self.0.device(key).await {
                Ok(Some(device)) => PluginResponse::json(200, &device_json(&device)),
                Ok(None) => unknown_device(),
                Err(error) => failed(&error),
            },
            Ok(false) => unknown_device(),
            Err(error) => failed(&error),
        }
    }
}

/// A device as the API shows it.
fn device_json(device: &Listed) -> Value {
    let peer = &device.peer;
    let mut value = json!({
        "key": peer.key.to_string(),
        "name": device.name(),
        "state": if peer.admitted { "authorized" } else { "pending" },
        "platform": peer.platform,
        "device_info": device.profile.info,
        "created_at": peer.created_at,
        "last_seen": peer.last_seen,
        "online": peer.online,
    });
    // It is compared while the device waits, and means nothing afterwards.
    if !peer.admitted {
        value["verification_code"] = peer.verification_code.clone().into();
    }
    value
}

fn no_content() -> PluginResponse {
    PluginResponse { status: 204, content_type: "application/json".into(), body: Default::default() }
}

fn not_found() -> PluginResponse {
    PluginResponse::problem(404, "not_found", "The mobile connector has no such path.")
}

fn forbidden() -> PluginResponse {
    PluginResponse::problem(403, "not_from_a_device", "A device may not do this; open Skald's page at home.")
}

fn unknown_device() -> PluginResponse {
    PluginResponse::problem(
        404,
        "unknown_device",
        "No device of this key is paired; look at the list of devices.",
    )
}

fn unknown_code() -> PluginResponse {
    PluginResponse::problem(404, "unknown_code", "There is no pairing of this code; begin a new one.")
}

fn failed(error: &Failed) -> PluginResponse {
    tracing::warn!(%error, "a request could not be answered");
    PluginResponse::problem(500, "internal", &sentence(&error.to_string()))
}

/// An error's text as a sentence for people.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(char::to_uppercase).into_iter().flatten().collect();
    let rest = clip(letters.as_str(), 300);
    let end = if rest.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    format!("{first}{rest}{end}")
}
