//! What keeps the plugin from starting is said in a sentence, and nothing is lost by it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use async_trait::async_trait;
use plugin_mobile_connector::{HTTP_LOCAL_PROXY, ID};
use serde_json::json;
use skald_core_api::{ByteStream, PluginState, StreamError, StreamHandler, StreamOffer, StreamRegistry};
use tokio_util::sync::CancellationToken;

use crate::home::{Home, relay};

/// Waits for the failure and gives its sentence.
async fn failure(home: &Home) -> String {
    home.reaches(PluginState::Failed).await;
    let message = home.host.plugins().get(ID).unwrap().status.message.unwrap();
    assert!(message.ends_with('.') && message.starts_with(char::is_uppercase), "{message}");
    message
}

#[tokio::test]
async fn a_seed_that_others_can_read_or_of_another_length_stops_the_plugin_and_is_left_alone() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let seed = home.host.data_dir().join("relay/seed");
    let original = fs::read(&seed).unwrap();
    assert_eq!((original.len(), fs::metadata(&seed).unwrap().permissions().mode() & 0o777), (32, 0o600));
    let plugins = home.host.plugins();

    plugins.update(ID, Some(false), None).await.unwrap();
    fs::set_permissions(&seed, fs::Permissions::from_mode(0o644)).unwrap();
    plugins.update(ID, Some(true), None).await.unwrap();
    assert!(failure(&home).await.contains("seed"));
    assert_eq!(fs::read(&seed).unwrap(), original);

    plugins.update(ID, Some(false), None).await.unwrap();
    fs::set_permissions(&seed, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&seed, &original[..31]).unwrap();
    plugins.update(ID, Some(true), None).await.unwrap();
    assert!(failure(&home).await.contains("seed"));
    assert_eq!(fs::read(&seed).unwrap(), original[..31]);

    plugins.update(ID, Some(false), None).await.unwrap();
    fs::write(&seed, &original).unwrap();
    plugins.update(ID, Some(true), None).await.unwrap();
    home.reaches(PluginState::Running).await;
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn settings_that_do_not_hold_are_refused_and_the_plugin_runs_on() {
    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let plugins = home.host.plugins();
    let before = plugins.get(ID).unwrap().config;
    for (config, names) in [
        (json!({"relay_url": "ws://relay.example"}), "relay_url"),
        (json!({"relay_url": relay.url(), "relay_ca": "/nonexistent/ca.pem"}), "relay_ca"),
        (json!({"relay_url": relay.url(), "pairing_ttl": 0}), "pairing_ttl"),
        (json!({"relay_url": relay.url(), "pairing_ttl": "300"}), "pairing_ttl"),
        (json!({"relay_uri": relay.url()}), "relay_uri"),
    ] {
        let error = plugins.update(ID, None, Some(config)).await.unwrap_err();
        assert!(format!("{error:?}").contains(names), "{names}: {error:?}");
        assert_eq!(plugins.get(ID).unwrap().config, before);
    }
    home.reaches(PluginState::Running).await;
    home.stop().await;
    relay.shutdown().await;
}

#[tokio::test]
async fn a_certificate_file_without_a_usable_certificate_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    fs::write(&file, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let config = json!({"relay_url": "wss://relay.example", "relay_ca": file.to_str().unwrap()});
    let home = Home::configured(config).await;
    assert!(failure(&home).await.contains("ca.pem"));
    home.stop().await;
}

struct Other;

#[async_trait]
impl StreamHandler for Other {
    fn stream_type(&self) -> &str {
        HTTP_LOCAL_PROXY
    }
    async fn serve(
        &self,
        _: StreamOffer,
        _: Box<dyn ByteStream>,
        _: CancellationToken,
    ) -> Result<(), StreamError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_stream_type_that_another_serves_is_said_and_its_folder_given_back() {
    let relay = relay().await;
    let home = Home::configured(json!({})).await;
    home.reaches(PluginState::Idle).await;
    let taken = home.host.streams().register(Arc::new(Other)).unwrap();
    let plugins = home.host.plugins();
    plugins.update(ID, None, Some(json!({"relay_url": relay.url()}))).await.unwrap();
    assert!(failure(&home).await.contains(HTTP_LOCAL_PROXY));
    drop(taken);
    plugins.update(ID, Some(false), None).await.unwrap();
    plugins.update(ID, Some(true), None).await.unwrap();
    home.reaches(PluginState::Running).await;
    home.stop().await;
    relay.shutdown().await;
}
