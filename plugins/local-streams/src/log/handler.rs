//! Hands the log to who follows it.

use std::time::Duration;

use async_trait::async_trait;
use skald_core_api::{ByteStream, StreamError, StreamHandler, StreamOffer};
use skald_payloads::streams::{self, FaultCode, LOG, LogReply, LogRequest};
use tokio::io::{AsyncWrite, AsyncWriteExt, split};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::ring::{Batch, LogRing};
use crate::access::{Allowed, Places};
use crate::fault;
use crate::frames::{self, FrameReader};
use crate::settings::Log;

/// Lines taken at a time.
const BATCH: usize = 256;
/// A stream that says nothing for longer could be taken for dead, and the relay reaps it after 120 s.
const IDLE: Duration = Duration::from_secs(30);
/// New lines are gathered for so long: a stream that is itself logged about must not chase its own tail.
const GATHER: Duration = Duration::from_millis(100);
/// How long a device has to say what it wants.
const ASKING: Duration = Duration::from_secs(30);

/// Serves [`LOG`].
pub(crate) struct LogHandler {
    devices: Allowed,
    places: Places,
    ring: LogRing,
    stop: CancellationToken,
}

impl LogHandler {
    pub(crate) fn new(settings: Log, ring: LogRing, stop: CancellationToken) -> Self {
        Self { devices: settings.devices, places: Places::new(settings.streams), ring, stop }
    }

    async fn follow<W: AsyncWrite + Unpin>(&self, to: &mut W, asked: &LogRequest) -> std::io::Result<()> {
        let mut news = self.ring.watch();
        let mut from = self.ring.back(asked.lines as usize, asked.level);
        loop {
            news.borrow_and_update();
            let batch = self.ring.take(from, asked.level, BATCH);
            let more = batch.next != from;
            from = batch.next;
            frames::put(to, &written(batch)?).await?;
            if more {
                continue;
            }
            if !asked.follow {
                return frames::say(to, &LogReply::End).await;
            }
            match timeout(IDLE, news.changed()).await {
                Ok(_) => sleep(GATHER).await,
                Err(_) => frames::say(to, &LogReply::Idle).await?,
            }
        }
    }
}

fn written(batch: Batch) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut add = |reply: &LogReply| {
        all.extend(streams::say(reply).map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e))?);
        Ok::<_, std::io::Error>(())
    };
    if batch.lost > 0 {
        add(&LogReply::Lost { count: batch.lost })?;
    }
    for (seq, line) in batch.lines {
        let (target, text) = (line.target.clone(), line.text.clone());
        add(&LogReply::Line { seq, at: line.at, level: line.level, target, text })?;
    }
    Ok(all)
}

#[async_trait]
impl StreamHandler for LogHandler {
    fn stream_type(&self) -> &str {
        LOG
    }

    fn check(&self, offer: &StreamOffer) -> Result<(), StreamError> {
        match self.devices.may(&offer.peer) {
            true => Ok(()),
            false => Err(StreamError("this device may not read the log".into())),
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
            if place.is_none() {
                let text = "The log is followed by too many already; try again when one has ended.";
                let _ = frames::say(&mut writer, &LogReply::Error(fault(FaultCode::Busy, text))).await;
            } else if let Ok(Ok(Some(asked))) = timeout(ASKING, reader.hear::<LogRequest>()).await {
                tokio::select! {
                    _ = self.follow(&mut writer, &asked) => {}
                    // The device has no more to say; when it is gone, so is the reason to go on.
                    () = reader.ended(), if asked.follow => {}
                }
            }
            let _ = writer.shutdown().await;
        };
        tokio::select! {
            () = serving => {}
            () = stop.cancelled() => {}
            () = self.stop.cancelled() => {}
        }
        Ok(())
    }
}
