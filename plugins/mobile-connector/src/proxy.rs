//! `http-local-proxy`: a device's pipe, joined byte for byte to the host's own web server (pipe §6.2).
//!
//! The device chooses nothing: the other end is [`LocalWeb`] and nothing else, and the connection speaks for that
//! device. The two directions run in tasks of their own, so that one that stalls holds up no other (spec faults 10).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skald_core_api::{ByteStream, LocalWeb, StreamError, StreamHandler, StreamOffer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The type of stream served here.
pub const HTTP_LOCAL_PROXY: &str = "http-local-proxy";

/// Bytes taken at a time from one side.
const CHUNK: usize = 32 * 1024;
/// How long the second direction may outlive the first: enough for an answer to a request whose sender has closed its
/// half, and an end to connections that only one side has forgotten.
const LINGER: Duration = Duration::from_secs(30);

/// Serves `http-local-proxy`.
pub struct HttpLocalProxy {
    web: Arc<dyn LocalWeb>,
}

impl HttpLocalProxy {
    /// A proxy to the host's own web server.
    pub fn new(web: Arc<dyn LocalWeb>) -> Self {
        Self { web }
    }
}

#[async_trait]
impl StreamHandler for HttpLocalProxy {
    fn stream_type(&self) -> &str {
        HTTP_LOCAL_PROXY
    }

    async fn serve(
        &self,
        offer: StreamOffer,
        stream: Box<dyn ByteStream>,
        stop: CancellationToken,
    ) -> Result<(), StreamError> {
        let local = tokio::select! {
            local = self.web.connect(offer.peer) => local,
            () = stop.cancelled() => return Ok(()),
        };
        let local = local.map_err(|_| StreamError("the page could not be reached".into()))?;
        splice(stream, local, stop).await;
        Ok(())
    }
}

/// Carries bytes both ways until both directions have ended, or `stop` is cancelled.
pub async fn splice(remote: Box<dyn ByteStream>, local: Box<dyn ByteStream>, stop: CancellationToken) {
    let (remote_in, remote_out) = tokio::io::split(remote);
    let (local_in, local_out) = tokio::io::split(local);
    let mut directions = JoinSet::new();
    directions.spawn(carry(remote_in, local_out));
    directions.spawn(carry(local_in, remote_out));
    // Dropping the set ends both tasks, and with them both streams, however this function ends.
    tokio::select! {
        () = stop.cancelled() => return,
        _ = directions.join_next() => {}
    }
    tokio::select! {
        () = stop.cancelled() => {}
        _ = directions.join_next() => {}
        () = tokio::time::sleep(LINGER) => {}
    }
}

async fn carry<R, W>(mut from: R, mut to: W)
where
    R: tokio::io::AsyncRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
{
    let mut chunk = vec![0; CHUNK];
    // A side that fails has ended; what it had to say has been said. The end is passed on.
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        if to.write_all(&chunk[..read]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use skald_core_api::DevicePeer;
    use tokio::io::{DuplexStream, duplex};

    const SMALL: usize = 64;

    #[derive(Default)]
    struct Web {
        connections: Mutex<Vec<(DevicePeer, DuplexStream)>>,
        down: bool,
    }

    #[async_trait]
    impl LocalWeb for Web {
        async fn connect(&self, peer: DevicePeer) -> std::io::Result<Box<dyn ByteStream>> {
            if self.down {
                return Err(std::io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = duplex(SMALL);
            self.connections.lock().unwrap().push((peer, far));
            Ok(Box::new(near))
        }
    }

    fn offer() -> StreamOffer {
        // What a device says of hosts and ports has no effect: there is one destination.
        let headers = [("host", "10.0.0.1"), ("port", "22")].map(|(k, v)| (k.into(), v.into())).into();
        let peer = DevicePeer { key: "ab".repeat(32), name: "Phone".into() };
        StreamOffer { peer, stream_type: HTTP_LOCAL_PROXY.into(), headers }
    }

    struct Spliced {
        device: DuplexStream,
        server: DuplexStream,
        stop: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    fn spliced() -> Spliced {
        let ((device, remote), (server, local)) = (duplex(SMALL), duplex(SMALL));
        let stop = CancellationToken::new();
        let task = tokio::spawn(splice(Box::new(remote), Box::new(local), stop.clone()));
        Spliced { device, server, stop, task }
    }

    #[tokio::test]
    async fn the_connection_speaks_for_the_device_and_carries_bytes_unchanged() {
        let web = Arc::new(Web::default());
        let proxy = HttpLocalProxy::new(web.clone());
        let (mut device, remote) = duplex(SMALL);
        let serving =
            tokio::spawn(
                async move { proxy.serve(offer(), Box::new(remote), CancellationToken::new()).await },
            );
        device.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let (peer, mut server) = loop {
            if let Some(connection) = web.connections.lock().unwrap().pop() {
                break connection;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(peer.name, "Phone");
        let mut request = [0; 18];
        server.read_exact(&mut request).await.unwrap();
        assert_eq!(&request, b"GET / HTTP/1.1\r\n\r\n");
        let every_byte: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let (sent, mut read) = (every_byte.clone(), Vec::new());
        tokio::spawn(async move { server.write_all(&sent).await.unwrap() });
        device.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, every_byte);
        drop(device);
        serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_page_that_cannot_be_reached_is_told_plainly() {
        let proxy = HttpLocalProxy::new(Arc::new(Web { down: true, ..Web::default() }));
        let (_device, remote) = duplex(SMALL);
        let ended = proxy.serve(offer(), Box::new(remote), CancellationToken::new()).await;
        assert_eq!(ended.unwrap_err().to_string(), "the page could not be reached");
    }

    #[tokio::test]
    async fn fault_10_a_stalled_direction_does_not_hold_up_the_other() {
        let mut s = spliced();
        // The device reads nothing: the server's bytes fill what lies between and stall.
        let flood = tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(s.server);
            let stalled = tokio::spawn(async move { write.write_all(&[7; 1 << 20]).await });
            let mut got = vec![0; 200_000];
            read.read_exact(&mut got).await.unwrap();
            stalled.abort();
            got
        });
        s.device.write_all(&vec![9; 200_000]).await.unwrap();
        assert!(flood.await.unwrap().iter().all(|b| *b == 9));
        s.stop.cancel();
        s.task.await.unwrap();
    }

    #[tokio::test]
    async fn an_end_is_passed_on_and_the_answer_still_comes_back() {
        let mut s = spliced();
        s.device.write_all(b"ask").await.unwrap();
        s.device.shutdown().await.unwrap();
        let mut asked = Vec::new();
        s.server.read_to_end(&mut asked).await.unwrap();
        assert_eq!(asked, b"ask");
        s.server.write_all(b"answer").await.unwrap();
        drop(s.server);
        let mut answer = Vec::new();
        s.device.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
        s.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_half_that_is_forgotten_ends_after_a_while() {
        let s = spliced();
        let Spliced { device, server, task, .. } = s;
        drop(server);
        // The device never closes.
        task.await.unwrap();
        drop(device);
    }

    #[tokio::test]
    async fn fault_09_a_stream_ends_when_it_is_told_to() {
        let mut s = spliced();
        s.stop.cancel();
        s.task.await.unwrap();
        assert_eq!(s.device.read(&mut [0; 1]).await.unwrap(), 0);
        assert_eq!(s.server.read(&mut [0; 1]).await.unwrap(), 0);
    }
}
