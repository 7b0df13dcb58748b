//! Nothing private is left anywhere: searched in every file of the data folder and in everything logged.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use skald_core_api::{Actor, Principal};
use skald_host::NewElicitation;
use skald_payloads::{ElicitationAction, ElicitationResponse, Payload};
use skald_testkit::{Rng, traces_in_text, traces_in_tree};
use tracing_subscriber::fmt::MakeWriter;

use crate::home::{Home, relay};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn neither_the_token_nor_what_was_typed_is_kept_or_logged() {
    let log = Log::default();
    let filter = tracing_subscriber::EnvFilter::new("trace");
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(log.clone()).finish();
    // One subscriber for the process: the tasks under test run on any thread. Other tests in this binary log into it as
    // well, which does no harm.
    let _ = tracing::subscriber::set_global_default(subscriber);

    let relay = relay().await;
    let home = Home::connected(&relay.url()).await;
    let (_, qr) = home.window().await;
    let token = *qr.pairing_token.as_bytes();
    let mut phone = home.phone("phone").await;
    let password = Rng::new(77).word(24);
    let source = Actor::Token { name: "script".into() };
    let form = NewElicitation {
        server_name: "vault".into(),
        message: "Passphrase?".into(),
        field_name: Some("passphrase".into()),
        sensitive: Some(true),
        ..NewElicitation::default()
    };
    let id = home.host.inbox().create_elicitation(&source, form).await.unwrap().request_id();
    phone.shows(1).await;
    phone
        .send(Payload::ElicitationResponse(ElicitationResponse {
            request_id: id.to_string(),
            action: ElicitationAction::Accept,
            content: json!({"passphrase": password}).as_object().cloned(),
        }))
        .await;
    let asker = Principal::Token { name: "script".into() };
    let status = home.host.inbox().wait(id, &asker, Duration::from_secs(60)).await.unwrap();
    assert_eq!(status.content.unwrap().expose()["passphrase"], password);
    let folder = home.host.data_dir().to_owned();
    for secret in [password.as_bytes(), &token] {
        assert_eq!(traces_in_tree(&folder, secret).unwrap(), []);
        let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
        assert!(logged.contains("mobile_connector"), "something was logged at all");
        assert_eq!(traces_in_text("log", &logged, secret), []);
    }
    let _kept = home.stop().await;
    assert_eq!(traces_in_tree(&folder, password.as_bytes()).unwrap(), []);
    relay.shutdown().await;
}
