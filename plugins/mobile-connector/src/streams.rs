//! Which streams are under way, for whom, and how they end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skald_core_api::{ByteStream, StreamHandler, StreamOffer, StreamRegistry};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::DeviceKey;

/// Streams one device may have at once. One over is rejected; the device tries again when another has ended.
pub(crate) const PER_DEVICE: usize = 64;

/// The reason a device reads when nobody serves a type (pipe §2, Reject).
pub(crate) const UNSUPPORTED: &str = "unsupported stream_type";
/// The reason when it has too many.
pub(crate) const TOO_MANY: &str = "too many streams";

struct Streams {
    stop: CancellationToken,
    open: usize,
}

/// The streams of every device.
pub(crate) struct StreamTable {
    registry: Arc<dyn StreamRegistry>,
    devices: Mutex<HashMap<DeviceKey, Streams>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A place in the table, taken before the pipe is accepted. Dropping it gives the place back.
pub(crate) struct Place {
    table: Arc<StreamTable>,
    key: DeviceKey,
    handler: Arc<dyn StreamHandler>,
    stop: CancellationToken,
}

impl StreamTable {
    /// An empty table; cancelling `stop` ends every stream.
    pub(crate) fn new(registry: Arc<dyn StreamRegistry>, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self { registry, devices: Mutex::default(), tasks: TaskTracker::new(), stop })
    }

    /// Whether this offer is served: the handler and a place, or the reason for the device.
    pub(crate) fn admit(self: &Arc<Self>, key: DeviceKey, offer: &StreamOffer) -> Result<Place, String> {
        let handler = self.registry.find(&offer.stream_type).ok_or(UNSUPPORTED)?;
        handler.check(offer).map_err(|e| e.to_string())?;
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let streams =
            devices.entry(key).or_insert_with(|| Streams { stop: self.stop.child_token(), open: 0 });
        if streams.open >= PER_DEVICE {
            return Err(TOO_MANY.into());
        }
        streams.open += 1;
        let stop = streams.stop.child_token();
        Ok(Place { table: self.clone(), key, handler, stop })
    }

    /// Ends every stream of a device (spec faults 9).
    pub(crate) fn end(&self, key: DeviceKey) {
        // Streams admitted after this get a new token; whoever revokes has taken the device's admission away before.
        if let Some(streams) = self.devices.lock().unwrap_or_else(PoisonError::into_inner).remove(&key) {
            streams.stop.cancel();
        }
    }

    /// Where the tasks that serve streams run; [`Self::close`] waits for them.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Ends every stream and waits for it.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    #[cfg(test)]
    pub(crate) fn open(&self, key: DeviceKey) -> usize {
        self.devices.lock().unwrap().get(&key).map_or(0, |s| s.open)
    }
}

impl Place {
    /// Cancelled when the device is revoked or the plugin stops: also while the pipe is still being joined.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Serves the accepted stream to its end.
    pub(crate) async fn serve(self, offer: StreamOffer, stream: Box<dyn ByteStream>) {
        let stop = self.stop.clone();
        if let Err(error) = self.handler.serve(offer, stream, stop).await {
            tracing::debug!(device = ?self.key, %error, "a stream ended badly");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut devices = self.table.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(streams) = devices.get_mut(&self.key)
            // A place of before the device was revoked belongs to no later count.
            && !self.stop.is_cancelled()
        {
            streams.open = streams.open.saturating_sub(1);
            if streams.open == 0 {
                devices.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use async_trait::async_trait;
    use skald_core_api::{DevicePeer, StreamError, StreamRegistration, TypeTaken};
    use tokio::io::duplex;

    /// Serves `wait` until told to stop, and refuses offers without a `ticket`.
    struct Waits;

    #[async_trait]
    impl StreamHandler for Waits {
        fn stream_type(&self) -> &str {
            "wait"
        }
        fn check(&self, offer: &StreamOffer) -> Result<(), StreamError> {
            offer.headers.get("ticket").map(drop).ok_or_else(|| StreamError("no ticket".into()))
        }
        async fn serve(
            &self,
            _: StreamOffer,
            _stream: Box<dyn ByteStream>,
            stop: CancellationToken,
        ) -> Result<(), StreamError> {
            stop.cancelled().await;
            Err(StreamError("stopped".into()))
        }
    }

    struct Registry;
    impl StreamRegistry for Registry {
        fn register(&self, _: Arc<dyn StreamHandler>) -> Result<StreamRegistration, TypeTaken> {
            Ok(StreamRegistration::new(|| ()))
        }
        fn find(&self, stream_type: &str) -> Option<Arc<dyn StreamHandler>> {
            (stream_type == "wait").then(|| Arc::new(Waits) as Arc<dyn StreamHandler>)
        }
    }

    const A: DeviceKey = DeviceKey([1; 32]);
    const B: DeviceKey = DeviceKey([2; 32]);

    fn table() -> Arc<StreamTable> {
        StreamTable::new(Arc::new(Registry), CancellationToken::new())
    }

    fn offer(stream_type: &str) -> StreamOffer {
        let peer = DevicePeer { key: A.to_string(), name: "Phone".into() };
        StreamOffer { peer, stream_type: stream_type.into(), headers: [("ticket".into(), "1".into())].into() }
    }

    fn refusal(result: Result<Place, String>) -> String {
        match result {
            Err(reason) => reason,
            Ok(_) => panic!("admitted"),
        }
    }

    #[tokio::test]
    async fn what_nobody_serves_is_refused_with_the_reason_of_the_protocol() {
        assert_eq!(refusal(table().admit(A, &offer("shell"))), "unsupported stream_type");
        let bare = StreamOffer { headers: Default::default(), ..offer("wait") };
        assert_eq!(refusal(table().admit(A, &bare)), "no ticket");
    }

    #[tokio::test]
    async fn one_device_cannot_take_every_place() {
        let table = table();
        let places: Vec<_> = (0..PER_DEVICE)
            .map(|_| table.admit(A, &offer("wait")).unwrap_or_else(|e| panic!("{e}")))
            .collect();
        assert_eq!(refusal(table.admit(A, &offer("wait"))), TOO_MANY);
        assert!(table.admit(B, &offer("wait")).is_ok());
        drop(places);
        assert!(table.admit(A, &offer("wait")).is_ok());
    }

    #[tokio::test]
    async fn fault_09_revoking_a_device_ends_its_streams_and_no_others() {
        let table = table();
        let (mut ends, mut others) = (Vec::new(), Vec::new());
        for key in [A, A, B] {
            let (near, far) = duplex(16);
            let place = table.admit(key, &offer("wait")).unwrap_or_else(|e| panic!("{e}"));
            table.tasks().spawn(place.serve(offer("wait"), Box::new(far)));
            if key == A { ends.push(near) } else { others.push(near) }
        }
        table.end(A);
        for mut near in ends {
            assert_eq!(tokio::io::AsyncReadExt::read(&mut near, &mut [0; 1]).await.unwrap(), 0);
        }
        assert_eq!((table.open(A), table.open(B)), (0, 1));
        table.close().await;
        assert_eq!(tokio::io::AsyncReadExt::read(&mut others[0], &mut [0; 1]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_place_of_before_a_revocation_does_not_count_against_a_later_admission() {
        let table = table();
        let before = table.admit(A, &offer("wait")).unwrap_or_else(|e| panic!("{e}"));
        table.end(A);
        let after = table.admit(A, &offer("wait")).unwrap_or_else(|e| panic!("{e}"));
        drop(before);
        assert_eq!(table.open(A), 1);
        drop(after);
        assert_eq!(table.open(A), 0);
    }
}
