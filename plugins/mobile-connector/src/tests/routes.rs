//! The HTTP routes.

use serde_json::{Value, json};
use skald_core_api::{DevicePeer, PluginHttp, PluginRequest, PluginResponse, Principal};

use super::*;
use crate::fakes::{NAMESPACE, TOKEN, peer};
use crate::http::{IdleRoutes, Routes};

fn request(method: &str, path: &str, body: Value, principal: Principal) -> PluginRequest {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    PluginRequest {
        method: method.into(),
        path: path.split('/').map(Into::into).collect(),
        query: query
            .split('&')
            .filter_map(|q| q.split_once('='))
            .map(|(k, v)| (k.into(), v.into()))
            .collect(),
        body: if body.is_null() { Default::default() } else { body.to_string().into() },
        principal,
    }
}

struct Http {
    bench: Bench,
    routes: Routes,
}

impl Http {
    async fn new() -> Self {
        let bench = Bench::new(vec![peer(A, true), peer(B, false)], Settings::default()).await;
        let routes = Routes(bench.connector.clone());
        Self { bench, routes }
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> PluginResponse {
        self.routes.handle(request(method, path, body, Principal::Owner)).await
    }

    async fn json(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let response = self.call(method, path, body).await;
        (response.status, serde_json::from_slice(&response.body).unwrap_or_default())
    }
}

fn a_phone() -> Principal {
    Principal::Device(DevicePeer { key: A.to_string(), name: "Phone".into() })
}

#[tokio::test]
async fn devices_are_listed_with_the_code_only_while_they_wait() {
    let http = Http::new().await;
    let (status, devices) = http.json("GET", "devices", json!(null)).await;
    assert_eq!(status, 200);
    assert_eq!(
        devices[0],
        json!({"key": A.to_string(), "name": "Device 0a0a0a0a", "state": "authorized", "platform": "ios",
            "device_info": null, "created_at": 1, "last_seen": null, "online": true})
    );
    assert_eq!(devices[1]["state"], "pending");
    assert_eq!(devices[1]["verification_code"], "123 456");
}

#[tokio::test]
async fn a_pairing_is_named_by_a_code_and_its_token_is_only_in_the_picture() {
    let http = Http::new().await;
    let (status, opened) = http.json("POST", "pairing", json!(null)).await;
    assert_eq!(status, 200);
    let code = opened["code"].as_str().unwrap().to_owned();
    let left = opened["expires_at"].as_i64().unwrap() - PluginStatus::now_ms();
    assert!((290_000..=300_000).contains(&left), "the configured time: {left}");
    assert_eq!(opened["qr_url"], format!("/api/plugin/mobile-connector/pairingqrcode?code={code}"));
    let (_, state) = http.json("GET", &format!("pairing/{code}"), json!(null)).await;
    assert_eq!(state, json!({"state": "open"}));
    assert!(!opened.to_string().contains(TOKEN) && !state.to_string().contains(TOKEN));

    let picture = format!("pairingqrcode?code={code}");
    let open = http.call("GET", &picture, json!(null)).await;
    assert_eq!((open.status, open.content_type.as_str()), (200, "image/png"));
    http.bench.connector.paired(1, B, false).await.unwrap();
    let used = http.call("GET", &picture, json!(null)).await;
    assert_eq!((used.status, used.content_type.as_str()), (200, "image/png"));
    assert_ne!(open.body, used.body);
    let (_, state) = http.json("GET", &format!("pairing/{code}"), json!(null)).await;
    assert_eq!(state["state"], "paired");
    assert_eq!(state["device"]["key"], B.to_string());
    assert_eq!(state["device"]["verification_code"], "123 456");

    let (_, second) = http.json("POST", "pairing", json!({"ttl": 60})).await;
    http.json("POST", "pairing", json!({})).await;
    let (_, state) =
        http.json("GET", &format!("pairing/{}", second["code"].as_str().unwrap()), json!(null)).await;
    assert_eq!(state, json!({"state": "superseded"}));
}

#[tokio::test]
async fn bad_requests_are_told_what_to_send() {
    let http = Http::new().await;
    for body in
        [json!({"ttl": 0}), json!({"ttl": 601}), json!({"ttl": "5"}), json!({"tll": 5}), json!([]), json!(7)]
    {
        let (status, problem) = http.json("POST", "pairing", body.clone()).await;
        assert_eq!(status, 422, "{body}");
        assert!(problem["detail"].as_str().unwrap().ends_with('.'));
    }
    for (method, path, status) in [
        ("GET", "pairing/unknown", 404),
        ("GET", "pairingqrcode?code=unknown", 404),
        ("GET", "pairingqrcode", 404),
        ("POST", "devices/zz/authorize", 404),
        ("DELETE", &format!("devices/{}", DeviceKey([7; 32])), 404),
        ("POST", &format!("devices/{}/authorize", DeviceKey([7; 32])), 404),
        ("GET", "", 404),
        ("GET", "devices/a/b/c", 404),
        ("PATCH", "devices", 405),
        ("GET", &format!("devices/{A}"), 405),
        ("GET", "pairing", 405),
    ] {
        let (found, problem) = http.json(method, path, json!(null)).await;
        assert_eq!(found, status, "{method} {path}: {problem}");
        assert_eq!(problem["status"], status);
    }
    for body in [json!(null), json!({}), json!({"name": 7}), json!({"name": "x".repeat(61)})] {
        assert_eq!(http.json("PUT", &format!("devices/{A}"), body).await.0, 422);
    }
}

#[tokio::test]
async fn devices_are_admitted_renamed_and_revoked() {
    let http = Http::new().await;
    let (status, device) = http.json("POST", &format!("devices/{B}/authorize"), json!(null)).await;
    assert_eq!((status, &device["state"]), (200, &json!("authorized")));
    assert!(device.get("verification_code").is_none());
    let (_, device) = http.json("PUT", &format!("devices/{B}"), json!({"name": " My\nphone "})).await;
    assert_eq!(device["name"], "My phone");
    let (_, device) = http.json("PUT", &format!("devices/{B}"), json!({"name": ""})).await;
    assert_eq!(device["name"], "Device 0b0b0b0b");
    let upper = B.to_string().to_uppercase();
    assert_eq!(http.call("DELETE", &format!("devices/{upper}"), json!(null)).await.status, 204);
    assert_eq!(http.json("DELETE", &format!("devices/{B}"), json!(null)).await.0, 404);
}

#[tokio::test]
async fn a_device_reads_and_no_more() {
    let http = Http::new().await;
    for (method, path) in [
        ("POST", "pairing".to_owned()),
        ("GET", "pairingqrcode?code=a".into()),
        ("POST", format!("devices/{B}/authorize")),
        ("DELETE", format!("devices/{B}")),
        ("PUT", format!("devices/{B}")),
    ] {
        let response = http.routes.handle(request(method, &path, json!({"name": "x"}), a_phone())).await;
        assert_eq!(response.status, 403, "{method} {path}");
        assert!(String::from_utf8_lossy(&response.body).contains("not_from_a_device"));
    }
    for path in ["devices", "status"] {
        assert_eq!(http.routes.handle(request("GET", path, json!(null), a_phone())).await.status, 200);
    }
}

#[tokio::test]
async fn the_status_says_where_the_link_stands() {
    let (status, body) = Http::new().await.json("GET", "status", json!(null)).await;
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({"state": "connected", "relay_url": "", "namespace_id": hex::encode(NAMESPACE), "since": 1})
    );
}

#[tokio::test]
async fn failures_are_plain_sentences() {
    let http = Http::new().await;
    *http.bench.relay.refuse.lock().unwrap() = Some("pairing needs a connection to the relay".into());
    let (status, problem) = http.json("POST", "pairing", json!({})).await;
    assert_eq!((status, &problem["detail"]), (503, &json!("Pairing needs a connection to the relay.")));
    assert_eq!(http.json("GET", "devices", json!(null)).await.0, 500);
}

#[tokio::test]
async fn without_a_relay_the_routes_say_so() {
    let routes = IdleRoutes { since: 5 };
    let call = |method: &'static str, path: &'static str| {
        routes.handle(request(method, path, json!({}), Principal::Owner))
    };
    let status: Value = serde_json::from_slice(&call("GET", "status").await.body).unwrap();
    assert_eq!(status["state"], "idle");
    assert_eq!(&call("GET", "devices").await.body[..], b"[]");
    assert_eq!(call("POST", "pairing").await.status, 409);
    assert_eq!(call("GET", "elsewhere").await.status, 404);
}
