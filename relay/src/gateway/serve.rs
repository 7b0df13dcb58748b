//! A gateway's HTTP.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use skald_relay_push::gateway::{Gateway, PUSH_PATH, Problem, REQUEST_BYTES};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::strangers::Strangers;
use crate::server::accept::secure;
use crate::server::address;
use crate::server::tls::Tls;
use crate::settings::Settings;
use crate::stream::Stream;

/// How many connections are served at a time; a relay needs a handful. Others wait to be accepted.
const CONNECTIONS: usize = 1024;
/// How long a relay may take for its request line and headers, and may be silent between two requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take for the body.
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// The largest request head that is read.
const HEAD_BYTES: usize = 16 * 1024;
/// How long requests under way have to end once the gateway stops.
const DRAIN: Duration = Duration::from_secs(8);
/// How often limits are swept.
const SWEEP: Duration = Duration::from_secs(30);

/// What every connection needs.
pub(super) struct Server {
    pub(super) gateway: Gateway,
    pub(super) relay: Settings,
    pub(super) tls: Option<Tls>,
    /// Who comes without a valid key.
    pub(super) strangers: Strangers,
}

/// Accepts until stopped, then waits for the connections to end.
pub(super) async fn run(server: Arc<Server>, listener: TcpListener, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(Arc::clone(&server), stream, peer, stop.clone()));
                }
                Err(error) => {
                    // Most often too many open files: it passes as connections end.
                    tracing::warn!(%error, "no connection could be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection's task ended badly");
                }
            }
            _ = sweep.tick() => {
                server.gateway.forget_idle(now());
                server.strangers.forget_idle(now());
            }
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        connections.shutdown().await;
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn connection(server: Arc<Server>, stream: TcpStream, peer: SocketAddr, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let Some(stream) = secure(server.tls.as_ref(), stream).await else { return };
    let peer = peer.ip().to_canonical();
    let tls = matches!(stream, Stream::Tls(_));
    let service = service_fn(|request: Request<Incoming>| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(answer(&server, request, peer, tls).await.map(Full::new)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // A relay that breaks off tries again.
    let _ = connection.await;
}

async fn answer(server: &Server, request: Request<Incoming>, peer: IpAddr, tls: bool) -> Response<Bytes> {
    match request.uri().path() {
        "/healthz" => return text("ok\n"),
        // There is no state that could be out of reach: whoever listens is ready.
        "/readyz" => return text("ready\n"),
        PUSH_PATH => {}
        _ => {
            return Problem::new(StatusCode::NOT_FOUND, "There is nothing here: pushes go to /v1/push.")
                .response();
        }
    }
    match push(server, request, peer, tls).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    }
}

async fn push(
    server: &Server,
    request: Request<Incoming>,
    peer: IpAddr,
    tls: bool,
) -> Result<Response<Bytes>, Problem> {
    let settings = &server.relay;
    let secure = tls
        || settings.insecure && peer.is_loopback()
        || address::came_over_tls(peer, request.headers(), &settings.trusted_proxies);
    if !secure {
        let detail = "This gateway takes encrypted connections only: connect with https://.";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    if request.method() != Method::POST {
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Pushes are posted."));
    }
    // Who has no key is held off by address, before anything is read or compared.
    let client = address::client_address(peer, request.headers(), &settings.trusted_proxies);
    if !server.strangers.enter(client, now()) {
        let detail = "There were too many requests without a valid key from this address: wait a minute.";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail));
    }
    let relay = server.gateway.authenticate(request.headers())?;
    server.strangers.give_back(client);
    server.gateway.admit(relay, now())?;
    let too_large = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body may have {REQUEST_BYTES} bytes at most."),
        )
    };
    if request.body().size_hint().lower() > REQUEST_BYTES as u64 {
        return Err(too_large());
    }
    let body = Limited::new(request.into_body(), REQUEST_BYTES).collect();
    let body = match tokio::time::timeout(BODY_WITHIN, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
        Ok(Err(_)) => return Err(Problem::new(StatusCode::BAD_REQUEST, "The body was cut off.")),
        Err(_) => return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "The body took too long to arrive.")),
    };
    Ok(server.gateway.push(relay, &body, now()).await)
}

fn text(body: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(body.as_bytes()));
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
