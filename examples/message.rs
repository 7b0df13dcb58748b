//! Pairs a device with an agent over a relay, and sends a message each way.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use skald_relay::{Relay, Settings};
use skald_relay_client::{
    AgentOptions, Class, DeviceOptions, Events, Platform, RelayClient, RelayEvent, device,
};

#[tokio::main]
async fn main() -> Result<()> {
    let home = tempfile::tempdir()?;
    let relay = Relay::start(Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        data: home.path().join("relay"),
        insecure: true,
        ..Settings::default()
    })
    .await?;

    // The agent owns the namespace. It opens a window and shows the code, here as the text that a QR would hold.
    let (agent, mut agent_events) =
        RelayClient::start_agent(AgentOptions::new(relay.url(), home.path().join("agent"))).await?;
    let window = agent.open_pairing(Duration::from_secs(60)).await?;
    let code = window.qr.to_json();

    // The device scans it. Both screens show the same six digits.
    let options = DeviceOptions::new(home.path().join("device"), Platform::DESKTOP);
    let paired = device::pair(&options, &device::parse_qr(&code)?).await?;
    println!("the device shows  {}", paired.verification_code);
    let received = agent_events.next().await.context("the agent runs")?;
    let RelayEvent::Paired { key, verification_code, .. } = received.event else {
        bail!("pairing was awaited")
    };
    println!("the agent shows   {verification_code}");

    // They are equal, so the owner admits the device, which has been waiting for that.
    let (phone, mut phone_events) = device::start(options).await?;
    agent.authorize(&key).await?;
    agent.send(&key, br#"{"kind":"notification","title":"Hello"}"#, Class::Stored).await?;
    println!("the device reads  {}", message(&mut phone_events).await?);

    // An answer stays in the device's outbox until the application knows that it arrived.
    phone.outbox_put("answer", br#"{"kind":"ack"}"#).await?;
    println!("the agent reads   {}", message(&mut agent_events).await?);
    phone.outbox_confirm("answer").await?;

    phone.shutdown().await;
    agent.shutdown().await;
    relay.shutdown().await;
    Ok(())
}

/// The next message, acknowledged: it would come again after a restart otherwise.
async fn message(events: &mut Events) -> Result<String> {
    loop {
        let received = events.next().await.context("the client runs")?;
        if let RelayEvent::Message { body, .. } = &received.event {
            let text = String::from_utf8(body.clone())?;
            received.ack().await?;
            return Ok(text);
        }
        received.ack().await?;
    }
}
