//! `file`: lists folders, hands out files and takes them.

mod get;
mod list;
mod put;
mod quota;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use skald_core_api::{ByteStream, DevicePeer, StreamError, StreamHandler, StreamOffer};
use skald_payloads::streams::{FILE, FaultCode, FileReply, FileRequest, FolderInfo, StreamFault};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::access::Places;
use crate::fault;
use crate::frames::{self, FrameReader};
use crate::lines::Folder;
use crate::path::WirePath;
use crate::settings::Files;

pub(crate) use quota::Quota;

/// A stream on which nothing is asked for so long is closed.
const ASKING: Duration = Duration::from_secs(120);

type Reader = FrameReader<ReadHalf<Box<dyn ByteStream>>>;
type Writer = WriteHalf<Box<dyn ByteStream>>;

/// Serves [`FILE`].
pub(crate) struct FileHandler {
    files: Files,
    places: Places,
    quota: Quota,
    uploads: Uploads,
    stop: CancellationToken,
}

/// How one request ended when it did not end well.
enum Ended {
    /// The stream is of no further use.
    Gone,
    /// The device is told, and may ask for something else.
    Refused(StreamFault),
    /// The device is told, and the stream ends: bytes are under way that no longer mean anything.
    Broken(StreamFault),
}

impl From<std::io::Error> for Ended {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

impl From<StreamFault> for Ended {
    fn from(fault: StreamFault) -> Self {
        Self::Refused(fault)
    }
}

impl FileHandler {
    pub(crate) fn new(files: Files, quota: Quota, stop: CancellationToken) -> Self {
        let places = Places::new(files.streams);
        Self { files, places, quota, uploads: Uploads::default(), stop }
    }

    fn folder(&self, path: &str) -> Result<(&Folder, WirePath), StreamFault> {
        let path = WirePath::parse(path)
            .ok_or_else(|| fault(FaultCode::BadPath, "The path cannot be one; write it as FOLDER/PATH."))?;
        let folder = self.files.folders.iter().find(|f| f.name == path.folder);
        let folder =
            folder.ok_or_else(|| fault(FaultCode::NotOffered, "No folder of that name is offered."))?;
        Ok((folder, path))
    }

    async fn talk(&self, peer: &DevicePeer, reader: &mut Reader, writer: &mut Writer) -> Result<(), Ended> {
        loop {
            let asked = match timeout(ASKING, reader.hear::<FileRequest>()).await {
                Ok(Ok(Some(asked))) => asked,
                Ok(Err(e)) if e.kind() == std::io::ErrorKind::InvalidData => {
                    return Err(Ended::Broken(fault(
                        FaultCode::BadRequest,
                        "What was asked cannot be understood; the host may be older than the device.",
                    )));
                }
                _ => return Ok(()),
            };
            match self.answer(peer, asked, reader, writer).await {
                Err(Ended::Refused(fault)) => frames::say(writer, &FileReply::Error(fault)).await?,
                ended => ended?,
            }
        }
    }

    async fn answer(
        &self,
        peer: &DevicePeer,
        asked: FileRequest,
        reader: &mut Reader,
        writer: &mut Writer,
    ) -> Result<(), Ended> {
        match asked {
            FileRequest::Folders => {
                let folders = self.files.folders.iter().map(|f| FolderInfo {
                    name: f.name.clone(),
                    write: f.write,
                    max_file: f.write.then_some(f.max_file),
                });
                Ok(frames::say(writer, &FileReply::Folders { folders: folders.collect() }).await?)
            }
            FileRequest::List { path } => {
                let (folder, path) = self.folder(&path)?;
                list::run(folder, path, writer).await
            }
            FileRequest::Get { path, have, range } => {
                let (folder, parsed) = self.folder(&path)?;
                let ended = get::run(folder, parsed, have, range, writer).await;
                record(peer, "fetched", &path, &ended);
                ended.map(drop)
            }
            FileRequest::Put { path, size, sha256, overwrite } => {
                let (folder, parsed) = self.folder(&path)?;
                let wish = put::Wish { size, sha256, overwrite };
                let ended = self.take(peer, folder, parsed, wish, reader, writer).await;
                record(peer, "put", &path, &ended);
                ended.map(drop)
            }
            FileRequest::From { .. } => {
                Err(fault(FaultCode::BadRequest, "There is nothing that could begin there.").into())
            }
        }
    }
}

/// Who, what, how much; no content.
fn record(peer: &DevicePeer, what: &str, path: &str, ended: &Result<u64, Ended>) {
    let device = peer.key.as_str();
    match ended {
        Ok(bytes) => tracing::info!(device, path, bytes, "a file was {what}"),
        Err(Ended::Gone) => {
            tracing::info!(device, path, "a file was not {what} to its end; the stream broke")
        }
        Err(Ended::Refused(fault) | Ended::Broken(fault)) => {
            tracing::info!(device, path, why = fault.text, "a file was not {what}");
        }
    }
}

#[async_trait]
impl StreamHandler for FileHandler {
    fn stream_type(&self) -> &str {
        FILE
    }

    fn check(&self, offer: &StreamOffer) -> Result<(), StreamError> {
        match self.files.devices.may(&offer.peer) {
            true => Ok(()),
            false => Err(StreamError("this device may not use files".into())),
        }
    }

    async fn serve(
        &self,
        offer: StreamOffer,
        stream: Box<dyn ByteStream>,
        stop: CancellationToken,
    ) -> Result<(), StreamError> {
        let (reader, mut writer) = split(stream);
        let mut reader = FrameReader::new(reader);
        let place = self.places.take(&offer.peer);
        let serving = async {
            let ended = match &place {
                Some(_) => self.talk(&offer.peer, &mut reader, &mut writer).await,
                None => Err(Ended::Broken(fault(
                    FaultCode::Busy,
                    "Too many files are under way; try again when one is done.",
                ))),
            };
            if let Err(Ended::Broken(fault)) = ended {
                let _ = frames::say(&mut writer, &FileReply::Error(fault)).await;
            }
            let _ = writer.shutdown().await;
        };
        tokio::select! {
            () = Box::pin(serving) => {}
            () = stop.cancelled() => {}
            () = self.stop.cancelled() => {}
        }
        Ok(())
    }
}

/// Uploads under way, so that one that is begun again takes the place of a stream that broke unnoticed.
#[derive(Clone, Default)]
struct Uploads(Arc<Mutex<HashMap<String, CancellationToken>>>);

/// One upload's entry.
struct Upload {
    key: String,
    stop: CancellationToken,
    all: Uploads,
}

impl Uploads {
    fn begin(&self, key: String) -> Upload {
        let stop = CancellationToken::new();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = all.insert(key.clone(), stop.clone()) {
            earlier.cancel();
        }
        Upload { key, stop, all: self.clone() }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Cancelled: the entry is the successor's.
        if !self.stop.is_cancelled() {
            self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        }
    }
}

/// Runs what waits for a disk where it holds nobody up.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StreamFault> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| fault(FaultCode::Failed, "A part of Skald failed unexpectedly."))
}
