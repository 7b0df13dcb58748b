//! Opens a pipe from a device to its agent and streams through it both ways.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use skald_relay::{Relay, Settings};
use skald_relay_client::{AgentOptions, DeviceOptions, LinkState, Platform, RelayClient, RelayEvent, device};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
    let (agent, mut events) =
        RelayClient::start_agent(AgentOptions::new(relay.url(), home.path().join("agent"))).await?;
    let window = agent.open_pairing(Duration::from_secs(60)).await?;
    let options = DeviceOptions::new(home.path().join("device"), Platform::DESKTOP);
    device::pair(&options, &window.qr).await?;
    let received = events.next().await.context("the agent runs")?;
    let RelayEvent::Paired { key, .. } = received.event else { bail!("pairing was awaited") };
    let (phone, _phone_events) = device::start(options).await?;
    agent.authorize(&key).await?;
    phone.status().wait_for(|status| status.state == LinkState::Connected).await?;

    // The agent's side: take up what it knows, refuse the rest.
    let mut incoming = agent.incoming_pipes();
    let server = {
        let agent = agent.clone();
        tokio::spawn(async move {
            let invitation = incoming.recv().await?;
            if invitation.stream_type != "shout" {
                agent.reject_pipe(&invitation, "unsupported stream_type").await?;
                bail!("only `shout` is served here");
            }
            let mut pipe = agent.accept_pipe(&invitation).await?;
            while let Some(piece) = pipe.recv().await? {
                pipe.send(piece.to_ascii_uppercase().as_slice()).await?;
            }
            Ok(())
        })
    };

    // The device's side: any code that reads and writes streams can use it.
    let owner = phone.agent().context("a device has an agent")?;
    let mut pipe = phone.open_pipe(&owner, "shout", BTreeMap::new()).await?;
    pipe.write_all(b"hello from behind the relay").await?;
    let mut answer = [0; 27];
    pipe.read_exact(&mut answer).await?;
    println!("{}", String::from_utf8_lossy(&answer));
    pipe.close().await?;
    server.await??;

    phone.shutdown().await;
    agent.shutdown().await;
    relay.shutdown().await;
    Ok(())
}
