//! Byte streams that a paired device opens towards the host, by type.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::DevicePeer;

/// A byte stream with both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// What a device asks for before any byte flows.
#[derive(Debug, Clone)]
pub struct StreamOffer {
    /// The device, as authenticated by the end-to-end channel.
    pub peer: DevicePeer,
    /// The application's type of stream.
    pub stream_type: String,
    /// The application's own metadata.
    pub headers: BTreeMap<String, String>,
}

/// Why a stream ended badly, for people; never with content.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StreamError(pub String);

/// Serves the streams of one type.
#[async_trait]
pub trait StreamHandler: Send + Sync {
    /// The type it serves.
    fn stream_type(&self) -> &str;
    /// Says before the pipe is accepted whether this offer is served; the text is told to the device.
    fn check(&self, offer: &StreamOffer) -> Result<(), StreamError> {
        let _ = offer;
        Ok(())
    }
    /// Serves one stream until it ends or `stop` is cancelled.
    async fn serve(
        &self,
        offer: StreamOffer,
        stream: Box<dyn ByteStream>,
        stop: CancellationToken,
    ) -> Result<(), StreamError>;
}

/// Another handler serves this type already.
#[derive(Debug, thiserror::Error)]
#[error("streams of type {0} are served by another plugin already")]
pub struct TypeTaken(pub String);

/// Keeps a handler registered; dropping it takes the handler away.
#[must_use]
pub struct StreamRegistration(Option<Box<dyn FnOnce() + Send + Sync>>);

impl StreamRegistration {
    /// Calls `undo` when dropped.
    pub fn new(undo: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(undo)))
    }
}

impl Drop for StreamRegistration {
    fn drop(&mut self) {
        if let Some(undo) = self.0.take() {
            undo();
        }
    }
}

/// The host's handlers by type.
pub trait StreamRegistry: Send + Sync {
    /// Adds a handler for its type.
    fn register(&self, handler: Arc<dyn StreamHandler>) -> Result<StreamRegistration, TypeTaken>;
    /// Who serves this type.
    fn find(&self, stream_type: &str) -> Option<Arc<dyn StreamHandler>>;
}

/// The host's own web server, and nothing else.
#[async_trait]
pub trait LocalWeb: Send + Sync {
    /// A connection to the web server that speaks for `peer`: requests on it are that device's, and its `Host` and
    /// `Origin` are those of the device's own loopback listener.
    async fn connect(&self, peer: DevicePeer) -> std::io::Result<Box<dyn ByteStream>>;
}
