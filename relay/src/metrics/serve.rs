//! Serves the metrics on an address of their own.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Metrics;

/// The media type of what is served.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How many readers are served at a time: a monitoring system or two, and somebody with a browser.
const READERS: usize = 16;
/// How long a reader may stay without asking anything.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a reader may stay at all.
const STAY: Duration = Duration::from_secs(120);

/// Serves until stopped.
pub(crate) async fn run(metrics: Metrics, listener: TcpListener, stop: CancellationToken) {
    let mut readers = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept(), if readers.len() < READERS => match accepted {
                Ok((stream, _)) => {
                    readers.spawn(tokio::time::timeout(STAY, reader(metrics.clone(), stream)));
                }
                Err(error) => {
                    tracing::warn!(%error, "no reader of metrics could be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = readers.join_next(), if !readers.is_empty() => {}
        }
    }
    readers.shutdown().await;
}

async fn reader(metrics: Metrics, stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer(&metrics, request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(answer) }
    });
    // A reader that breaks off has had enough.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn answer(metrics: &Metrics, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (path, method) {
        ("/metrics", &Method::GET | &Method::HEAD) => match metrics.encode() {
            Ok(text) => (StatusCode::OK, OPEN_METRICS, Bytes::from(text)),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n"),
        },
        ("/metrics", _) => plain(StatusCode::METHOD_NOT_ALLOWED, "metrics can only be read\n"),
        _ => plain(StatusCode::NOT_FOUND, "there is nothing here but /metrics\n"),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn plain(status: StatusCode, text: &'static str) -> (StatusCode, &'static str, Bytes) {
    (status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}
