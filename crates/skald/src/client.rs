//! Speaking to the host: one connection per call, plain HTTP/1.1.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cli::Target;
use crate::discover::Found;
use crate::failure::Failure;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take that waits for nothing. Enabling a plugin may take its whole patience of 30 s.
const ANSWER: Duration = Duration::from_secs(45);
/// The most that an answer may hold.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// An answer.
pub struct Reply {
    pub status: StatusCode,
    pub body: Bytes,
}

/// Why there is no usable answer.
#[derive(Debug)]
pub enum CallError {
    /// Nobody answered, or what answered broke off. Trying again may help.
    Unreachable,
    /// The host answered that it failed or is stopping. Trying again may help.
    Unwell(String),
    /// The host said no.
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// What it said, for people.
        detail: String,
    },
    /// Finding the host failed.
    Local(Failure),
}

impl CallError {
    /// As the command's end.
    pub fn into_failure(self, authority: &str) -> Failure {
        match self {
            Self::Unreachable => Failure::unreachable(format!(
                "The host at {authority} cannot be reached: start it with `skald serve`, or name another with --url."
            )),
            Self::Unwell(detail) => Failure::unreachable(detail),
            // A wrong token or a wrong value is what the caller wrote.
            Self::Refused { status, detail }
                if matches!(status.as_u16(), 400 | 401 | 403 | 413 | 415 | 421 | 422) =>
            {
                Failure::usage(detail)
            }
            Self::Refused { detail, .. } => Failure::failed(detail),
            Self::Local(failure) => failure,
        }
    }
}

/// A host to speak to.
pub struct Client {
    target: Target,
    found: Found,
}

impl Client {
    /// Finds the host; does not call it yet.
    pub fn new(target: Target) -> Result<Self, Failure> {
        let found = target.find()?;
        Ok(Self { target, found })
    }

    /// Where the host is.
    pub fn authority(&self) -> &str {
        &self.found.authority
    }

    /// Looks for the host again, which may have moved to another port.
    pub fn find_again(&mut self) {
        // While a host starts, its files may not be there for a moment; the old address stays good until then.
        if let Ok(found) = self.target.find() {
            self.found = found;
        }
    }

    /// A call whose failure ends the command.
    pub async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.call(method, path, body, Duration::ZERO)
            .await
            .and_then(|r| r.json())
            .map_err(|e| self.failure(e))
    }

    /// The same for `GET`.
    pub async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.json(Method::GET, path, None).await
    }

    /// An error as the command's end.
    pub fn failure(&self, e: CallError) -> Failure {
        e.into_failure(&self.found.authority)
    }

    /// One call. `waits` is how long the host may wait on purpose.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        waits: Duration,
    ) -> Result<Reply, CallError> {
        let reply = timeout(CONNECT + ANSWER + waits, self.exchange(method, path, body)).await;
        let reply = reply.map_err(|_| CallError::Unreachable)??;
        if reply.status.is_success() {
            return Ok(reply);
        }
        let (code, detail) = reply.problem();
        // What is switched off does not come back by itself.
        if matches!(code.as_str(), "plugin_not_running" | "no_relay") {
            return Err(CallError::Local(Failure::usage(detail)));
        }
        if reply.status == StatusCode::UNAUTHORIZED {
            return Err(CallError::Local(Failure::usage(
                "The host does not know this token: make one with `skald token create NAME` and give it as SKALD_TOKEN.",
            )));
        }
        // A redirection comes from something else that listens there.
        let foreign = !reply.status.is_client_error() && !reply.status.is_server_error();
        if foreign || reply.status.is_server_error() || reply.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(CallError::Unwell(detail));
        }
        Err(CallError::Refused { status: reply.status, detail })
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Reply, CallError> {
        let Found { authority, token } = &self.found;
        let usage = |text: &str| CallError::Local(Failure::usage(text));
        let mut bearer = header::HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| usage("The token holds characters that no token has: copy it again."))?;
        bearer.set_sensitive(true);
        let body_bytes = body.map(|b| Bytes::from(b.to_string())).unwrap_or_default();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, authority.as_str())
            .header(header::AUTHORIZATION, bearer);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(body_bytes))
            .map_err(|_| usage("A name holds characters that cannot be sent: check what you typed."))?;

        let stream = timeout(CONNECT, TcpStream::connect(authority.as_str())).await;
        let stream = stream.ok().and_then(Result::ok).ok_or(CallError::Unreachable)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|_| CallError::Unreachable)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|_| CallError::Unreachable)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|_| CallError::Unreachable)?.to_bytes();
            Ok(Reply { status, body })
        };
        tokio::pin!(exchange, connection);
        // The connection does the work; it ends with the exchange or by breaking, which the exchange then reports.
        tokio::select! {
            reply = &mut exchange => reply,
            _ = &mut connection => exchange.await,
        }
    }
}

impl Reply {
    /// The body as JSON; null where there is none.
    pub fn json(&self) -> Result<Value, CallError> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).map_err(|_| strange())
    }

    /// The word and the sentence of a problem.
    fn problem(&self) -> (String, String) {
        let problem: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = |key: &str| problem.get(key).and_then(Value::as_str);
        let code = text("type").and_then(|t| t.strip_prefix("urn:skald:problem:")).unwrap_or_default();
        let detail = text("detail").map_or_else(|| strange_text(self.status), str::to_owned);
        (code.to_owned(), detail)
    }
}

fn strange() -> CallError {
    CallError::Unwell("What answered is not a Skald host: check --url.".to_owned())
}

fn strange_text(status: StatusCode) -> String {
    format!(
        "The host answered with status {} and no reason: check --url and the host's log.",
        status.as_u16()
    )
}

/// A name as one segment of a path.
pub fn segment(name: &str) -> String {
    let mut out = String::new();
    for b in name.bytes() {
        if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(segment("a/b ?c#ü"), "a%2Fb%20%3Fc%23%C3%BC");
    }
}
