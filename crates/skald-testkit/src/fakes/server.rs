//! The ground under every fake: a TLS server on a port of its own, whose answers a function decides.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming as Body;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::Authority;

/// The wall clock of a fake, in seconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The machine's own.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Which protocols the server offers in the TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/2 and nothing else.
    H2,
    /// HTTP/1.1 and nothing else.
    H1,
    /// Either.
    Any,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
    /// The protocol it came over.
    pub version: Version,
    /// On which connection, counted from 1.
    pub connection: u64,
    /// How many requests of this connection were unanswered when it came, itself included.
    pub in_flight: usize,
}

impl Incoming {
    /// A header's value as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// A status without a body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// A status with JSON.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: body.to_string().into() }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub enum Act {
    /// Answers.
    Reply(Reply),
    /// Answers, and tells the client by GOAWAY to open another connection (over HTTP/1.1: closes after the answer).
    ReplyThenGoAway(Reply),
    /// Sends GOAWAY and hangs up without an answer.
    GoAway,
    /// Hangs up in the middle of the request.
    Reset,
    /// Never answers; the connection stays open.
    Stall,
}

impl From<Reply> for Act {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// What decides. It may await, for an answer that comes late.
pub type Handler = Arc<dyn Fn(Incoming) -> Pin<Box<dyn Future<Output = Act> + Send>> + Send + Sync>;

/// A server in this process. It ends when this is dropped.
#[derive(Debug)]
pub struct FakeServer {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        // The accepting task owns those of the connections, which end with it.
        self.task.abort();
    }
}

impl FakeServer {
    /// Listens on loopback with a certificate for `localhost` by this authority. `name` names the certificate's files.
    pub async fn start(authority: &Authority, name: &str, alpn: Alpn, handler: Handler) -> Result<Self> {
        Self::start_with(tls(authority, name, alpn)?, handler).await
    }

    /// The same with TLS settings of one's own.
    pub async fn start_with(tls: ServerConfig, handler: Handler) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no port")?;
        let address = listener.local_addr()?;
        let connections = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, Arc::new(tls), handler, Arc::clone(&connections)));
        Ok(Self { address, connections, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://localhost:PORT`.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// How many connections have completed their TLS handshake.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// TLS settings with a certificate by this authority.
fn tls(authority: &Authority, name: &str, alpn: Alpn) -> Result<ServerConfig> {
    let files = authority.issue(name)?;
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .context("no certificate")?
        .collect::<Result<Vec<_>, _>>()
        .context("no certificate")?;
    let key = PrivateKeyDer::from_pem_file(&files.key).context("no key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let offered: &[&[u8]] = match alpn {
        Alpn::H2 => &[b"h2"],
        Alpn::H1 => &[b"http/1.1"],
        Alpn::Any => &[b"h2", b"http/1.1"],
    };
    config.alpn_protocols = offered.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

async fn accept(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    handler: Handler,
    connections: Arc<AtomicU64>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                let (tls, handler) = (TlsAcceptor::from(Arc::clone(&tls)), Arc::clone(&handler));
                open.spawn(serve(stream, tls, handler, Arc::clone(&connections)));
            }
            Some(_) = open.join_next(), if !open.is_empty() => {}
        }
    }
}

/// What a request makes of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    /// GOAWAY, and the rest is answered.
    Leaving,
    /// GOAWAY, and hang up.
    GoneAway,
    /// Hang up.
    Dead,
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, handler: Handler, connections: Arc<AtomicU64>) {
    let Ok(stream) = tls.accept(stream).await else { return };
    let connection = connections.fetch_add(1, Ordering::SeqCst) + 1;
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let (fate, mut changed) = watch::channel(Fate::Open);
    let fate = Arc::new(fate);
    let waiting = Arc::new(AtomicUsize::new(0));
    let service = service_fn(move |request: Request<Body>| {
        let (handler, fate, waiting) = (Arc::clone(&handler), Arc::clone(&fate), Arc::clone(&waiting));
        async move { answer(request, connection, handler, &fate, &waiting).await }
    });
    /// Runs a connection to its end; the two kinds have the same methods and no trait in common.
    macro_rules! run {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            loop {
                tokio::select! {
                    _ = connection.as_mut() => return,
                    Ok(()) = changed.changed() => {
                        let fate = *changed.borrow_and_update();
                        match fate {
                        Fate::Open => {}
                        Fate::Leaving => connection.as_mut().graceful_shutdown(),
                        Fate::GoneAway => {
                            connection.as_mut().graceful_shutdown();
                            // One turn writes the frame.
                            std::future::poll_fn(|cx| {
                                let _ = connection.as_mut().poll(cx);
                                Poll::Ready(())
                            })
                            .await;
                            return;
                        }
                        Fate::Dead => return,
                    }}
                }
            }
        }};
    }
    let io = TokioIo::new(stream);
    if h2 {
        run!(hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service))
    } else {
        run!(hyper::server::conn::http1::Builder::new().serve_connection(io, service))
    }
}

/// Counts a request out, answered or given up by the client.
struct Answered<'a>(&'a AtomicUsize);

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(
    request: Request<Body>,
    connection: u64,
    handler: Handler,
    fate: &watch::Sender<Fate>,
    waiting: &AtomicUsize,
) -> Result<Response<Full<Bytes>>> {
    let in_flight = waiting.fetch_add(1, Ordering::SeqCst) + 1;
    let _answered = Answered(waiting);
    let (head, body) = request.into_parts();
    let incoming = Incoming {
        method: head.method,
        path: head.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        headers: head.headers,
        body: body.collect().await.context("the request's body was cut")?.to_bytes(),
        version: head.version,
        connection,
        in_flight,
    };
    let act = handler(incoming).await;
    let reply = match act {
        Act::Reply(reply) => reply,
        Act::ReplyThenGoAway(reply) => {
            fate.send_replace(Fate::Leaving);
            reply
        }
        Act::GoAway => return hang(fate, Fate::GoneAway).await,
        Act::Reset => return hang(fate, Fate::Dead).await,
        Act::Stall => return std::future::pending().await,
    };
    let mut response = Response::builder().status(StatusCode::from_u16(reply.status)?);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(reply.body))?)
}

async fn hang(fate: &watch::Sender<Fate>, end: Fate) -> Result<Response<Full<Bytes>>> {
    fate.send_replace(end);
    std::future::pending().await
}
