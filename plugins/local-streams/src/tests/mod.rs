//! The handlers as a device meets them: frames over a stream in memory.

mod file;
mod log;
mod tcp;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use skald_core_api::{DevicePeer, StreamHandler, StreamOffer};
use skald_payloads::Digest;
use skald_payloads::streams::FrameKind;
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::frames::{self, FrameReader};

fn peer(digit: &str) -> DevicePeer {
    DevicePeer { key: digit.repeat(64), name: "Phone".into() }
}

fn offer(stream_type: &str, headers: &[(&str, &str)]) -> StreamOffer {
    let headers: BTreeMap<_, _> = headers.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    StreamOffer { peer: peer("a"), stream_type: stream_type.into(), headers }
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// A device's end of a stream.
struct Device {
    from: FrameReader<ReadHalf<DuplexStream>>,
    to: WriteHalf<DuplexStream>,
    serving: JoinHandle<()>,
}

impl Device {
    fn open(handler: Arc<dyn StreamHandler>, offer: StreamOffer) -> Self {
        let (near, far) = duplex(64 * 1024);
        let serving = tokio::spawn(async move {
            let _ = handler.serve(offer, Box::new(far), CancellationToken::new()).await;
        });
        let (from, to) = split(near);
        Self { from: FrameReader::new(from), to, serving }
    }

    async fn say(&mut self, what: &impl Serialize) {
        frames::say(&mut self.to, what).await.unwrap();
    }

    async fn hear<T: DeserializeOwned>(&mut self) -> T {
        self.from.hear().await.unwrap().expect("the stream goes on")
    }

    async fn send(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(100_000) {
            let mut buffer = frames::buffer(chunk.len());
            let head = buffer.len() - chunk.len();
            buffer[head..].copy_from_slice(chunk);
            let _ = frames::put(&mut self.to, frames::data(&mut buffer, chunk.len())).await;
        }
    }

    /// So many bytes of data.
    async fn data(&mut self, len: u64) -> Vec<u8> {
        let mut all = Vec::new();
        while (all.len() as u64) < len {
            assert_eq!(self.from.next().await.unwrap(), Some(FrameKind::Data));
            all.extend_from_slice(self.from.body());
        }
        all
    }

    /// Leaves, and waits until the host's side has ended.
    async fn leave(mut self) {
        let _ = self.to.shutdown().await;
        drop((self.from, self.to));
        self.serving.await.unwrap();
    }
}

async fn database(dir: &Path) -> sqlx::SqlitePool {
    let options =
        sqlx::sqlite::SqliteConnectOptions::new().filename(dir.join("host.db")).create_if_missing(true);
    sqlx::SqlitePool::connect_with(options).await.unwrap()
}
