//! `/v1/pipe`: two members of a namespace meet, and from then on the relay carries bytes between them.
//!
//! [`rendezvous::Rendezvous`] decides who meets whom, without sockets or clock. [`driver`] brings a side from its
//! challenge to its partner, and [`splice`] carries the bytes.

mod carry;
pub(crate) mod driver;
mod limiter;
pub(crate) mod model;
mod rendezvous;
mod splice;
mod transfer;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use skald_relay_common::ids::{NamespaceId, PublicKey};
use skald_relay_common::limits::PipeLimits;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::hub::lock;
use driver::PipeEnd;
use rendezvous::{Arrival, Rendezvous, Side, SideId};

/// The goodbye to a side for whose pipe there is no room.
const FULL: &str = "this namespace has as many pipes as are allowed";

/// Every pipe of the relay, waiting or streaming.
pub(crate) struct Pipes {
    limits: PipeLimits,
    inner: Mutex<Inner>,
}

struct Inner {
    rendezvous: Rendezvous,
    sides: HashMap<SideId, Handle>,
}

/// How a side that waits is reached.
struct Handle {
    /// Takes the partner's end; gone once it has come.
    partner: Option<oneshot::Sender<PipeEnd>>,
    /// Ends the side, and the pipe once it streams.
    stop: CancellationToken,
}

/// A side's place at the rendezvous. Dropping it gives the place up, and with it the pipe.
pub(crate) struct Ticket<'a> {
    pipes: &'a Pipes,
    id: SideId,
    stop: CancellationToken,
}

/// What a side finds when it arrives.
enum Found<'a> {
    /// It is the first, and its partner's end will come through here.
    Wait(Ticket<'a>, oneshot::Receiver<PipeEnd>),
    /// Its partner waits, and takes its end.
    Partner(oneshot::Sender<PipeEnd>),
    /// It may not meet anyone here.
    Refused(&'static str),
}

impl Pipes {
    pub(crate) fn new(limits: &PipeLimits) -> Self {
        let pending_ttl = Duration::from_secs(limits.pending_ttl_secs.into());
        let rendezvous = Rendezvous::new(limits.max_per_ns, pending_ttl);
        Self { limits: limits.clone(), inner: Mutex::new(Inner { rendezvous, sides: HashMap::new() }) }
    }

    pub(crate) fn limits(&self) -> &PipeLimits {
        &self.limits
    }

    /// Ends every pipe of a device, waiting and streaming (relay-server "Details").
    pub(crate) fn revoke(&self, namespace: &NamespaceId, key: &PublicKey) {
        let mut inner = lock(&self.inner);
        for id in inner.rendezvous.revoke(namespace, key) {
            inner.end(id);
        }
    }

    fn arrive(&self, now: Instant, side: Side) -> Found<'_> {
        let mut inner = lock(&self.inner);
        match inner.rendezvous.arrive(now, side) {
            Arrival::Wait(id) => {
                let (send, receive) = oneshot::channel();
                let stop = CancellationToken::new();
                inner.sides.insert(id, Handle { partner: Some(send), stop: stop.clone() });
                Found::Wait(Ticket { pipes: self, id, stop }, receive)
            }
            Arrival::Match(partner) => {
                match inner.sides.get_mut(&partner).and_then(|side| side.partner.take()) {
                    Some(partner) => Found::Partner(partner),
                    None => Found::Refused("the other side has gone"),
                }
            }
            Arrival::Mismatch(partner) => {
                inner.end(partner);
                Found::Refused("the two sides do not name each other")
            }
            Arrival::Taken => Found::Refused("this connection id is used up"),
            Arrival::Full => Found::Refused(FULL),
        }
    }
}

impl Inner {
    fn end(&mut self, id: SideId) {
        if let Some(side) = self.sides.remove(&id) {
            side.stop.cancel();
        }
    }
}

impl Ticket<'_> {
    /// Completes when the pipe must end.
    async fn ended(&self) {
        self.stop.cancelled().await;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut inner = lock(&self.pipes.inner);
        let now = tokio::time::Instant::now().into_std();
        inner.rendezvous.leave(now, self.id);
        inner.sides.remove(&self.id);
    }
}
