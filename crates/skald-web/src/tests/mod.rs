//! Tests of the router and of its connections, against a real host in a folder of its own.

mod access;
mod bodies;
mod description;
mod guards;
mod inbox;
mod live;
mod plugins;

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use skald_core_api::{
    DevicePeer, LocalWeb, Manifest, Plugin, PluginContext, PluginHttp, PluginRequest, PluginResponse,
    Running, StartError,
};
use skald_host::{Host, HostConfig};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::guard::Link;
use crate::serve::Connections;

/// The address that the tests' listener would have.
const HERE: &str = "127.0.0.1:8787";

/// A host, its router, and what serves connections.
struct Home {
    host: Host,
    router: Router,
    connections: Arc<Connections>,
    stop: CancellationToken,
    _folder: TempDir,
}

impl Home {
    async fn open() -> Self {
        Self::with_names(&[]).await
    }

    async fn with_names(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(Echo)];
        let host = Host::open(HostConfig::new(folder.path().join("data"), plugins)).await.unwrap();
        let stop = CancellationToken::new();
        let names = names.iter().map(|n| n.parse().unwrap()).collect();
        let router =
            crate::router::build(host.clone(), format!("http://{HERE}"), names, stop.clone()).unwrap();
        let connections = Arc::new(Connections::new(router.clone(), stop.clone()));
        host.start(connections.clone()).await;
        Self { host, router, connections, stop, _folder: folder }
    }

    /// A home with an API token.
    async fn with_token() -> (Self, String) {
        let home = Self::open().await;
        let token = home.token("script").await;
        (home, token)
    }

    async fn token(&self, name: &str) -> String {
        self.host.access().create_token(name).await.unwrap().expose().to_owned()
    }

    /// A cookie of a fresh browser session.
    async fn cookie(&self) -> String {
        let link = self.host.access().create_link().await.unwrap();
        let session = self.host.access().redeem_link(link.token.expose()).await.unwrap().unwrap();
        format!("{}={}", crate::auth::COOKIE, session.cookie.expose())
    }

    async fn send(&self, ask: Ask) -> Answer {
        let request = ask.into_request();
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn device_stream(&self) -> Box<dyn skald_core_api::ByteStream> {
        self.connections.connect(phone()).await.unwrap()
    }
}

fn phone() -> DevicePeer {
    DevicePeer { key: "ab".repeat(32), name: "Phone".to_owned() }
}

/// A request in the making.
#[derive(Clone)]
struct Ask {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    host: Option<String>,
    link: Link,
    body: Bytes,
}

impl Ask {
    fn new(method: &'static str, path: impl Into<String>) -> Self {
        let link = Link::Tcp { local: HERE.parse().unwrap(), peer: [127, 0, 0, 1].into() };
        let path = path.into();
        Self { method, path, headers: vec![], host: Some(HERE.to_owned()), link, body: Bytes::new() }
    }

    fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new("POST", path).json(body)
    }

    fn json(self, body: &Value) -> Self {
        self.raw(body.to_string()).header("content-type", "application/json")
    }

    fn raw(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    fn cookie(self, cookie: &str) -> Self {
        self.header("cookie", cookie)
    }

    /// From our own page.
    fn own(self) -> Self {
        self.header("origin", &format!("http://{HERE}"))
    }

    fn host(mut self, host: Option<&str>) -> Self {
        self.host = host.map(str::to_owned);
        self
    }

    /// Through a device's stream, under the address of the device's own listener.
    fn by_device(mut self) -> Self {
        self.link = Link::Device(phone());
        self.host(Some("127.0.0.1:50001"))
    }

    fn into_request(self) -> Request<Body> {
        let mut request = Request::builder().method(self.method).uri(self.path);
        if let Some(host) = self.host {
            request = request.header(header::HOST, host);
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::from(self.body)).unwrap();
        request.extensions_mut().insert(self.link);
        request
    }
}

/// An answer that was read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body of a success of this status.
    #[track_caller]
    fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The word of a problem, after checking its form.
    #[track_caller]
    fn problem(&self, status: u16) -> String {
        let body = self.expect(status);
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(body["status"], status);
        assert!(body["title"].as_str().is_some_and(|t| !t.is_empty()), "{body}");
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.ends_with('.') && detail.len() > 15, "not a sentence that says what to do: {detail}");
        body["type"].as_str().unwrap().strip_prefix("urn:skald:problem:").unwrap().to_owned()
    }
}

/// A plugin that tells what it was asked. Its start fails on demand.
struct Echo;

struct EchoRunning;

#[async_trait]
impl Plugin for Echo {
    fn manifest(&self) -> Manifest {
        Manifest {
            id: "echo".to_owned(),
            name: "Echo".to_owned(),
            description: "Tells what it was asked.".to_owned(),
            config_schema: json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "greeting": {"type": "string", "title": "Greeting", "description": "A word.", "default": "hello"},
                    "times": {"type": "integer", "title": "Times", "description": "How often.", "default": 1, "minimum": 1},
                },
            }),
        }
    }

    fn openapi_paths(&self) -> Value {
        json!({"things/{key}": {"get": {"responses": {"200": {"description": "What was asked"}}}}})
    }

    async fn start(&self, config: Value, _: PluginContext) -> Result<Box<dyn Running>, StartError> {
        if config["greeting"] == "fail" {
            return Err(StartError("It was told to fail; write another greeting.".to_owned()));
        }
        Ok(Box::new(EchoRunning))
    }
}

#[async_trait]
impl Running for EchoRunning {
    fn http(&self) -> Option<Arc<dyn PluginHttp>> {
        Some(Arc::new(EchoRunning))
    }

    async fn died(&self) -> String {
        std::future::pending().await
    }

    async fn stop(self: Box<Self>) {}
}

#[async_trait]
impl PluginHttp for EchoRunning {
    async fn handle(&self, request: PluginRequest) -> PluginResponse {
        if request.path == ["odd"] {
            return PluginResponse { status: 99, content_type: "text/plain".to_owned(), body: Bytes::new() };
        }
        if request.path == ["boom"] {
            panic!("it was told to");
        }
        let by = request.principal.actor().to_string();
        PluginResponse::json(
            200,
            &json!({
                "method": request.method, "path": request.path, "query": request.query,
                "body": String::from_utf8_lossy(&request.body), "by": by,
            }),
        )
    }
}
