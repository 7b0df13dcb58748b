//! Announcements to live pages.
//!
//! A counter per kind of event instead of a queue: whoever reads slowly sees one event where there were many, and
//! misses none, for an event says only what to read again.

use std::sync::Arc;

use futures_util::Stream;
use skald_core_api::{Event, Events};
use tokio::sync::watch;

const KINDS: [Event; 3] = [Event::Inbox, Event::Plugins, Event::Devices];

/// Publishes events. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EventHub(Arc<watch::Sender<[u64; 3]>>);

impl EventHub {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new([0; 3])))
    }

    /// From now on: what happened before is not seen, so read everything once after subscribing.
    pub fn subscribe(&self) -> EventStream {
        let rx = self.0.subscribe();
        let seen = *rx.borrow();
        EventStream { rx, seen }
    }
}

impl Events for EventHub {
    fn publish(&self, event: Event) {
        let index = match event {
            Event::Inbox => 0,
            Event::Plugins => 1,
            Event::Devices => 2,
        };
        self.0.send_modify(|counts| counts[index] = counts[index].wrapping_add(1));
    }
}

/// One subscriber's view.
#[derive(Debug)]
pub struct EventStream {
    rx: watch::Receiver<[u64; 3]>,
    seen: [u64; 3],
}

impl EventStream {
    /// The next event; several of one kind that were not read in between are one. `None` when the host is gone.
    /// Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let counts = *self.rx.borrow_and_update();
            for (i, kind) in KINDS.into_iter().enumerate() {
                if counts[i] != self.seen[i] {
                    self.seen[i] = counts[i];
                    return Some(kind);
                }
            }
            self.rx.changed().await.ok()?;
        }
    }

    /// The same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Event> + Send {
        futures_util::stream::unfold(self, |mut s| async move { s.next().await.map(|e| (e, s)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_subscriber_sees_each_kind_once_and_misses_none() {
        let hub = EventHub::new();
        let mut stream = hub.subscribe();
        for _ in 0..1000 {
            hub.publish(Event::Devices);
            hub.publish(Event::Inbox);
        }
        assert_eq!(stream.next().await, Some(Event::Inbox));
        assert_eq!(stream.next().await, Some(Event::Devices));
        hub.publish(Event::Plugins);
        assert_eq!(stream.next().await, Some(Event::Plugins));
        drop(hub);
        assert_eq!(stream.next().await, None);
    }
}
