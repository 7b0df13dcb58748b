//! The HTTP request with which every connection begins.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::sync::CancellationToken;

use super::accept::Server;
use super::address;
use crate::hub::lock;
use crate::metrics::names::Arrival;
use crate::quota::Place;
use crate::stream::Stream;

/// How long a caller may take for its request line and headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// The largest request head that is read.
const HEAD_BYTES: usize = 16 * 1024;

/// Which protocol the caller asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Control,
    Pipe,
}

/// A connection that is a WebSocket now.
pub(super) struct Upgraded {
    pub(super) route: Route,
    pub(super) place: Place,
    pub(super) stream: Stream,
    /// What the caller sent right behind its request.
    pub(super) early: Bytes,
}

/// Serves HTTP until the connection ends or becomes a WebSocket.
pub(super) async fn serve(
    server: &Arc<Server>,
    stream: Stream,
    peer: IpAddr,
    place: Place,
    stop: &CancellationToken,
) -> Option<Upgraded> {
    let tls = matches!(stream, Stream::Tls(_));
    let place = Arc::new(Mutex::new(Some(place)));
    let upgrade = Arc::new(Mutex::new(None));
    let asked = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let (server, upgrade, place) = (Arc::clone(server), Arc::clone(&upgrade), Arc::clone(&place));
        let draining = stop.is_cancelled();
        async move {
            let answer = answer(&server, &request, peer, tls, draining, &place).await;
            server.shared.counts.arrivals.count(answer.arrival);
            if let Some((route, place)) = answer.route.zip(lock(&place).take()) {
                *lock(&upgrade) = Some((route, place));
            }
            Ok::<_, Infallible>(answer.response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let ended = connection.without_shutdown().await;
    if !asked.load(Ordering::Relaxed) {
        server.shared.counts.arrivals.count(Arrival::Incomplete);
    }
    let parts = ended.ok()?;
    let (route, place) = lock(&upgrade).take()?;
    Some(Upgraded { route, place, stream: parts.io.into_inner(), early: parts.read_buf })
}

/// What a request gets.
struct Answer {
    arrival: Arrival,
    response: Response<Full<Bytes>>,
    /// Where the connection goes from here, if it becomes a WebSocket.
    route: Option<Route>,
}

impl Answer {
    fn plain(arrival: Arrival, response: Response<Full<Bytes>>) -> Self {
        Self { arrival, response, route: None }
    }
}

async fn answer(
    server: &Server,
    request: &Request<Incoming>,
    peer: IpAddr,
    tls: bool,
    draining: bool,
    place: &Mutex<Option<Place>>,
) -> Answer {
    let health = |status, body| {
        // Who looks after the relay must not run out of connections by it.
        if let Some(place) = lock(place).take() {
            place.give_back();
        }
        Answer::plain(Arrival::Health, text(status, body))
    };
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    let route = match request.uri().path() {
        "/v1/ws" => Route::Control,
        "/v1/pipe" => Route::Pipe,
        "/healthz" => return health(StatusCode::OK, "ok\n"),
        "/readyz" if draining => return health(unavailable, "draining\n"),
        "/readyz" if server.shared.store.is_reachable().await => return health(StatusCode::OK, "ready\n"),
        "/readyz" => return health(unavailable, "the database does not answer\n"),
        _ => return Answer::plain(Arrival::NotFound, text(StatusCode::NOT_FOUND, "there is nothing here\n")),
    };
    if draining {
        let refusal = text(unavailable, "the relay is shutting down: connect again in a moment\n");
        return Answer::plain(Arrival::Draining, refusal);
    }
    let settings = &server.settings;
    let secure = tls
        || settings.insecure && peer.is_loopback()
        || address::came_over_tls(peer, request.headers(), &settings.trusted_proxies);
    if !secure {
        let refusal = "This relay takes encrypted connections only: connect with wss://\n";
        return Answer::plain(Arrival::Plain, text(StatusCode::FORBIDDEN, refusal));
    }
    let accept = match handshake(request.method(), request.headers()) {
        Ok(accept) => accept,
        Err(refusal) => return Answer::plain(Arrival::NotWebSocket, *refusal),
    };
    let client = address::client_address(peer, request.headers(), &settings.trusted_proxies);
    let now = tokio::time::Instant::now().into_std();
    // A connection that has had its health told has given its place up, and opens no WebSocket any more.
    let may = lock(place).as_mut().is_some_and(|place| place.may_open(client, now));
    if !may {
        let mut refusal = text(StatusCode::TOO_MANY_REQUESTS, "too many new connections: wait a moment\n");
        refusal.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("10"));
        return Answer::plain(Arrival::OverQuota, refusal);
    }
    Answer { arrival: Arrival::Upgraded, response: accept, route: Some(route) }
}

/// The server's side of the opening handshake (RFC 6455 §4.2). No extension and no subprotocol is ever taken up.
fn handshake(
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response<Full<Bytes>>, Box<Response<Full<Bytes>>>> {
    let lists = |name, token: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|part| part.trim().eq_ignore_ascii_case(token))
    };
    let asks = lists(header::CONNECTION, "upgrade") && lists(header::UPGRADE, "websocket");
    if method != Method::GET || !asks {
        let mut refusal = text(StatusCode::UPGRADE_REQUIRED, "this address speaks WebSocket\n");
        refusal.headers_mut().insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
        return Err(Box::new(refusal));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut refusal = text(StatusCode::UPGRADE_REQUIRED, "only version 13 of WebSocket is spoken here\n");
        refusal.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, header::HeaderValue::from_static("13"));
        return Err(Box::new(refusal));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
    let accept = key.and_then(|key| derive_accept_key(key.as_bytes()).parse::<header::HeaderValue>().ok());
    let Some(accept) = accept else {
        return Err(Box::new(text(StatusCode::BAD_REQUEST, "the Sec-WebSocket-Key is missing or wrong\n")));
    };
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let into = response.headers_mut();
    into.insert(header::CONNECTION, header::HeaderValue::from_static("Upgrade"));
    into.insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
    into.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    const GOOD: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn the_example_of_the_rfc_is_accepted_and_no_extension_with_it() {
        let mut headers = request(&GOOD);
        headers.insert("sec-websocket-extensions", "permessage-deflate".parse().unwrap());
        let response = handshake(&Method::GET, &headers).unwrap();
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(response.headers().get("sec-websocket-extensions").is_none());
    }

    #[test]
    fn what_is_no_websocket_request_is_refused() {
        let status = |method, headers: &HeaderMap| handshake(&method, headers).unwrap_err().status().as_u16();
        assert_eq!(status(Method::POST, &request(&GOOD)), 426);
        assert_eq!(status(Method::GET, &request(&[])), 426);
        let mut old = request(&GOOD);
        old.insert("sec-websocket-version", "8".parse().unwrap());
        assert_eq!(status(Method::GET, &old), 426);
        let mut keyless = request(&GOOD);
        keyless.remove("sec-websocket-key");
        assert_eq!(status(Method::GET, &keyless), 400);
    }
}
