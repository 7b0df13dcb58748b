//! Pairing, admitting, revoking.

use serde_json::json;
use skald_core_api::PluginState;
use skald_payloads::{DeviceInfo, Hello, Payload};
use skald_relay_client::{LinkState, device};

use crate::home::{Home, Phone, options, relay, soon};

#[tokio::test]
async fn a_device_waits_until_its_digits_were_compared_and_it_was_admitted() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let (code, qr) = home.window().await;
    let folder = home.dir.path().join("phone");
    device::pair(&options(&folder), &qr).await.unwrap();
    let waiting = home.paired(&code).await;
    assert_eq!(waiting["state"], "pending");
    let key = waiting["key"].as_str().unwrap().to_owned();
    let phone = Phone::start(&folder, key.clone()).await;
    let mut status = phone.client.status();
    soon(status.wait_for(|s| s.state == LinkState::AwaitingAdmission)).await.unwrap();
    // Both screens show the same digits.
    let shown = phone.client.verification_code().await.unwrap().unwrap();
    assert_eq!(waiting["verification_code"], shown.to_string());
    // The code is used up: its picture says so, and no second device gets in by it.
    let picture = home.call("GET", &format!("pairingqrcode?code={code}"), json!({})).await;
    assert_eq!(picture.status, 200);
    assert!(device::pair(&options(&home.dir.path().join("thief")), &qr).await.is_err());

    let admitted = home.json("POST", &format!("devices/{key}/authorize"), json!({})).await;
    assert_eq!(admitted["state"], "authorized");
    phone.is_connected().await;
    phone
        .send(Payload::Hello(Hello {
            device_info: DeviceInfo {
                platform: "cli".into(),
                device_name: Some("née ☂".into()),
                ..DeviceInfo::default()
            },
        }))
        .await;
    let mut events = home.host.events().subscribe();
    soon(async {
        while home.json("GET", "devices", json!({})).await[0]["name"] != "née ☂" {
            events.next().await;
        }
    })
    .await;
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn without_confirmation_a_device_is_admitted_at_once() {
    let relay = relay().await;
    let home =
        Home::configured(json!({"relay_url": relay.url(), "require_device_confirmation": false})).await;
    home.reaches(PluginState::Running).await;
    let (code, qr) = home.window().await;
    let folder = home.dir.path().join("phone");
    device::pair(&options(&folder), &qr).await.unwrap();
    let key = home.paired(&code).await["key"].as_str().unwrap().to_owned();
    Phone::start(&folder, key).await.is_connected().await;
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn a_revoked_device_is_gone_here_and_at_the_relay() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let phone = home.phone("phone").await;
    phone.is_connected().await;
    let response = home.call("DELETE", &format!("devices/{}", phone.key), json!({})).await;
    assert_eq!(response.status, 204);
    assert_eq!(home.json("GET", "devices", json!({})).await, json!([]));
    let mut status = phone.client.status();
    soon(status.wait_for(|s| s.state == LinkState::Revoked)).await.unwrap();
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn logout_drops_the_device() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let phone = home.phone("phone").await;
    phone.is_connected().await;
    let mut events = home.host.events().subscribe();
    phone.send(Payload::Logout).await;
    soon(async {
        while home.json("GET", "devices", json!({})).await != json!([]) {
            events.next().await;
        }
    })
    .await;
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn devices_and_names_outlive_a_restart_and_a_change_of_settings() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let phone = home.phone("phone").await;
    home.json("PUT", &format!("devices/{}", phone.key), json!({"name": "Kitchen"})).await;
    let home = home.restarted().await;
    home.reaches(PluginState::Running).await;
    let devices = home.json("GET", "devices", json!({})).await;
    assert_eq!((&devices[0]["name"], &devices[0]["state"]), (&json!("Kitchen"), &json!("authorized")));
    // Idle and back: nothing is lost.
    let plugins = home.host.plugins();
    plugins.update(plugin_mobile_connector::ID, None, Some(json!({}))).await.unwrap();
    home.reaches(PluginState::Idle).await;
    plugins.update(plugin_mobile_connector::ID, None, Some(json!({"relay_url": relay.url()}))).await.unwrap();
    home.reaches(PluginState::Running).await;
    assert_eq!(home.json("GET", "devices", json!({})).await[0]["name"], "Kitchen");
    phone.is_connected().await;
    home.stop().await;
    relay.shutdown().await;
}
