//! Pipes from a device to the host's own page.

use std::collections::BTreeMap;

use serde_json::json;
use skald_core_api::Actor;
use skald_host::NewApproval;
use skald_relay_client::PipeError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::home::{Home, Phone, relay, soon};

async fn open(phone: &Phone, stream_type: &str) -> Result<skald_relay_client::PipeConnection, PipeError> {
    let agent = phone.client.agent().unwrap();
    soon(phone.client.open_pipe(&agent, stream_type, BTreeMap::new())).await
}

#[tokio::test]
async fn a_pipe_reaches_the_page_as_that_device_and_carries_bytes_unchanged() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let phone = home.phone("phone").await;
    phone.is_connected().await;
    home.json("PUT", &format!("devices/{}", phone.key), json!({"name": "Kitchen"})).await;
    let mut pipe = open(&phone, "http-local-proxy").await.unwrap();
    let (peer, mut server) = home.connection().await;
    assert_eq!((peer.key.as_str(), peer.name.as_str()), (phone.key.as_str(), "Kitchen"));
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let sent = bytes.clone();
    let echo = tokio::spawn(async move {
        let mut got = vec![0; sent.len()];
        server.read_exact(&mut got).await.unwrap();
        assert!(got == sent);
        server.write_all(&got).await.unwrap();
        server
    });
    pipe.write_all(&bytes).await.unwrap();
    pipe.flush().await.unwrap();
    let mut back = vec![0; bytes.len()];
    soon(pipe.read_exact(&mut back)).await.unwrap();
    assert!(back == bytes);
    // The page's end reaches the device.
    drop(echo.await.unwrap());
    assert_eq!(soon(pipe.read(&mut [0; 8])).await.unwrap_or(0), 0);
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn what_nobody_serves_is_refused_with_a_reason() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let phone = home.phone("phone").await;
    phone.is_connected().await;
    let Err(PipeError::Rejected(reason)) = open(&phone, "shell").await else { panic!("accepted") };
    assert_eq!(reason, "unsupported stream_type");
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn fault_09_revoking_a_device_ends_its_streams() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let phone = home.phone("phone").await;
    phone.is_connected().await;
    let mut pipe = open(&phone, "http-local-proxy").await.unwrap();
    let (_, mut server) = home.connection().await;
    pipe.write_all(b"x").await.unwrap();
    pipe.flush().await.unwrap();
    soon(server.read_exact(&mut [0; 1])).await.unwrap();
    home.call("DELETE", &format!("devices/{}", phone.key), json!({})).await;
    assert_eq!(soon(server.read(&mut [0; 1])).await.unwrap(), 0);
    assert_eq!(soon(pipe.read(&mut [0; 8])).await.unwrap_or(0), 0);
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn stopping_the_plugin_ends_every_stream() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let phone = home.phone("phone").await;
    phone.is_connected().await;
    let _pipe = open(&phone, "http-local-proxy").await.unwrap();
    let (_, mut server) = home.connection().await;
    soon(home.host.plugins().update(plugin_mobile_connector::ID, Some(false), None)).await.unwrap();
    assert_eq!(soon(server.read(&mut [0; 1])).await.unwrap(), 0);
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn fault_19_many_pipes_leave_the_link_up_and_a_question_still_arrives() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let mut phone = home.phone("phone").await;
    phone.is_connected().await;
    for _ in 0..20 {
        let mut pipe = open(&phone, "http-local-proxy").await.unwrap();
        let (_, server) = home.connection().await;
        drop(server);
        assert_eq!(soon(pipe.read(&mut [0; 8])).await.unwrap_or(0), 0);
    }
    let asked = NewApproval { tool_name: "t".into(), summary: "s".into(), ..NewApproval::default() };
    home.host.inbox().create_approval(&Actor::Owner, asked).await.unwrap();
    phone.shows(1).await;
    assert_eq!(home.json("GET", "status", json!({})).await["state"], "connected");
    home.stop().await;
    relay.shutdown().await;
}
