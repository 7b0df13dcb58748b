//! Takes what the relay client hands up: events to act upon and acknowledge, and pipes to serve or refuse.

use std::sync::Arc;
use std::time::Duration;

use skald_core_api::{Event, PluginStatus, StreamOffer};
use skald_relay_client::{Events, IncomingPipe, RelayEvent, SendFailure};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::DeviceKey;
use crate::client::Agent;
use crate::connector::{Connector, Poke};
use crate::health::{Health, Part};
use crate::http::sentence;
use crate::inbound::{self, Later};
use crate::streams::Place;

const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Acts upon events until `stop` is cancelled. One at a time and in order: an event that cannot be acted upon holds up
/// those behind it, which wait in the client's store.
pub(crate) async fn events(
    mut events: Events,
    connector: Arc<Connector>,
    health: Arc<Health>,
    stop: CancellationToken,
) {
    loop {
        let received = tokio::select! {
            () = stop.cancelled() => return,
            received = events.next() => received,
        };
        let Some(received) = received else { return };
        let mut pause = RETRY_FIRST;
        while let Err(error) = act(&connector, &received.event).await {
            tracing::warn!(%error, "a received event cannot be acted upon; it is tried again");
            health.part(
                Part::Inbox,
                Some(sentence(&format!("{error}; what devices sent waits and is tried again"))),
            );
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_MAX),
            }
        }
        if pause > RETRY_FIRST {
            health.part(Part::Inbox, None);
        }
        // Only now: what a crash interrupts comes again, and acting twice changes nothing.
        let acked = received.ack().await;
        health.part(Part::Devices, acked.err().map(|e| sentence(&e.to_string())));
    }
}

async fn act(connector: &Connector, event: &RelayEvent) -> Result<(), Later> {
    match event {
        RelayEvent::Message { peer, body, .. } => {
            inbound::receive(connector, DeviceKey(*peer.as_bytes()), body, PluginStatus::now_ms()).await?;
        }
        RelayEvent::Paired { key, window, authorized, .. } => {
            let key = DeviceKey(*key.as_bytes());
            tracing::info!(device = ?key, "a device has paired");
            connector.paired(*window, key, *authorized).await?;
        }
        RelayEvent::PresenceChanged { .. } => connector.devices_changed().await,
        // A live message that found nobody is not missed: who comes asks.
        RelayEvent::SendFailed { why: SendFailure::PeerOffline | SendFailure::Disconnected, .. } => {}
        RelayEvent::SendFailed { peer, why } => {
            let key = DeviceKey(*peer.as_bytes());
            tracing::warn!(device = ?key, %why, "a message was refused");
            connector.poke(Poke::Refused(key)).await;
        }
        RelayEvent::Revoked { .. } => connector.events.publish(Event::Devices),
        _ => {}
    }
    Ok(())
}

/// Serves or refuses the pipes that devices open, until `stop` is cancelled.
pub(crate) async fn pipes(
    mut invitations: broadcast::Receiver<IncomingPipe>,
    agent: Arc<Agent>,
    connector: Arc<Connector>,
    stop: CancellationToken,
) {
    loop {
        let invitation = tokio::select! {
            () = stop.cancelled() => return,
            invitation = invitations.recv() => invitation,
        };
        match invitation {
            Ok(invitation) => {
                let (agent, connector) = (agent.clone(), connector.clone());
                connector.streams.tasks().spawn({
                    let connector = connector.clone();
                    async move { serve(&agent, &connector, invitation).await }
                });
            }
            // Their initiators get no answer and try again.
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "pipe invitations came faster than they are served")
            }
            Err(RecvError::Closed) => return,
        }
    }
}

async fn serve(agent: &Agent, connector: &Arc<Connector>, invitation: IncomingPipe) {
    let key = DeviceKey(*invitation.peer.as_bytes());
    let (place, offer) = match admit(connector, key, &invitation).await {
        Ok(admitted) => admitted,
        Err(reason) => {
            tracing::info!(device = ?key, %reason, "a pipe was refused");
            if let Err(error) = agent.client.reject_pipe(&invitation, &reason).await {
                tracing::debug!(device = ?key, %error, "the refusal of a pipe did not leave");
            }
            return;
        }
    };
    if invitation.offers_streams() {
        return serve_many(agent, connector, &invitation, key, place, offer).await;
    }
    let accepted = tokio::select! {
        () = place.stop().cancelled() => return,
        accepted = agent.client.accept_pipe(&invitation) => accepted,
    };
    match accepted {
        Ok(pipe) => place.serve(offer, Box::new(pipe)).await,
        Err(error) => tracing::info!(device = ?key, %error, "a pipe could not be joined"),
    }
}

/// Every stream of the pipe is served as if it were a pipe of its own, and takes a place of its own.
async fn serve_many(
    agent: &Agent,
    connector: &Arc<Connector>,
    invitation: &IncomingPipe,
    key: DeviceKey,
    carrier: Place,
    offer: StreamOffer,
) {
    let accepted = tokio::select! {
        () = carrier.stop().cancelled() => return,
        accepted = agent.client.accept_streams(invitation) => accepted,
    };
    let mut streams = match accepted {
        Ok(streams) => streams,
        Err(error) => return tracing::info!(device = ?key, %error, "a pipe could not be joined"),
    };
    loop {
        let stream = tokio::select! {
            () = carrier.stop().cancelled() => return,
            stream = streams.accept() => stream,
        };
        let Some(stream) = stream else { return };
        if carrier.stop().is_cancelled() {
            return;
        }
        match connector.streams.admit(key, &offer) {
            Ok(place) => {
                let offer = offer.clone();
                connector.streams.tasks().spawn(async move { place.serve(offer, Box::new(stream)).await });
            }
            // Dropping the stream tells the device.
            Err(reason) => tracing::info!(device = ?key, %reason, "a stream was refused"),
        }
    }
}

async fn admit(
    connector: &Arc<Connector>,
    key: DeviceKey,
    invitation: &IncomingPipe,
) -> Result<(Place, StreamOffer), String> {
    const NOT_NOW: &str = "the host cannot serve it now";
    const NOT_ADMITTED: &str = "the device is not admitted";
    let device = connector.device(key).await.map_err(|_| NOT_NOW)?.ok_or(NOT_ADMITTED)?;
    let offer = StreamOffer {
        peer: device.as_peer(),
        stream_type: invitation.stream_type.clone(),
        headers: invitation.headers.clone(),
    };
    let place = connector.streams.admit(key, &offer)?;
    // Asked again after the place was taken: a revocation between the two has found the place and ends it, or is seen
    // here.
    let admitted = connector.device(key).await.map_err(|_| NOT_NOW)?.is_some_and(|d| d.peer.admitted);
    if admitted { Ok((place, offer)) } else { Err(NOT_ADMITTED.into()) }
}
