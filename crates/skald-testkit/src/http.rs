//! As much of an HTTP client as the tests need: one request a connection, and server-sent events.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::PATIENCE;

/// Speaks to one host. Each method is one connection.
#[derive(Debug, Clone)]
pub struct Client {
    authority: String,
    headers: Vec<(String, String)>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers, names in lowercase.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Client {
    /// For the host at `url`, without any credentials. What follows the port is ignored.
    pub fn new(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("http://").with_context(|| format!("{url} is not an http URL"))?;
        let authority = rest.split(['/', '#', '?']).next().unwrap_or(rest).to_owned();
        Ok(Self { authority, headers: Vec::new() })
    }

    /// The same client with one more header in each request. A `Host` replaces the true one.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(present, _)| !present.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same client with an API token.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        self.with_header("Authorization", &format!("Bearer {token}"))
    }

    /// The same client as a browser that is signed in: with the cookie of `signed_in` and the page's own origin.
    pub fn with_session(self, signed_in: &Response) -> Result<Self> {
        let cookie = signed_in.header("set-cookie").context("no cookie was set")?;
        let pair = cookie.split(';').next().unwrap_or(cookie).to_owned();
        let origin = self.origin();
        Ok(self.with_header("Cookie", &pair).with_header("Origin", &origin))
    }

    /// `http://HOST:PORT`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// `HOST:PORT`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// GET.
    pub fn get(&self, path: &str) -> Result<Response> {
        self.request("GET", path, None)
    }

    /// POST with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Result<Response> {
        self.request("POST", path, Some(body.to_string().as_bytes()))
    }

    /// PUT with a JSON body.
    pub fn put(&self, path: &str, body: &Value) -> Result<Response> {
        self.request("PUT", path, Some(body.to_string().as_bytes()))
    }

    /// DELETE.
    pub fn delete(&self, path: &str) -> Result<Response> {
        self.request("DELETE", path, None)
    }

    /// Any request; a body is said to be JSON unless a header says otherwise.
    pub fn request(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Response> {
        let mut reader = self.send(method, path, body)?;
        let (status, headers) = head(&mut reader)?;
        let mut response = Response { status, headers, body: Vec::new() };
        if method != "HEAD" && status != 204 && status != 304 {
            let mut body = Body::new(reader, &response);
            while body.read_line(&mut response.body)? {}
        }
        Ok(response)
    }

    /// The host's events, from now on.
    pub fn events(&self) -> Result<Events> {
        let mut reader = self.send("GET", "/api/v1/events", None)?;
        let (status, headers) = head(&mut reader)?;
        let response = Response { status, headers, body: Vec::new() };
        if status != 200 {
            bail!("events: {status}");
        }
        Ok(Events { body: Body::new(reader, &response) })
    }

    /// Asks for `path` now, and again after each event, until `find` recognises the answer. This is what a page does,
    /// so a change that no event told of fails the test.
    pub fn until<T>(&self, path: &str, what: &str, find: impl Fn(&Value) -> Option<T>) -> Result<T> {
        let until = Instant::now() + PATIENCE;
        let mut events = self.events()?;
        loop {
            let seen = self.get(path)?.expect(200)?;
            if let Some(found) = find(&seen) {
                return Ok(found);
            }
            if let Err(silence) = events.next_before(until) {
                let now = self.get(path)?.expect(200)?;
                let told = if find(&now).is_some() {
                    "came true, but no event told of it"
                } else {
                    "does not come true"
                };
                return Err(silence.context(format!("{what} {told}; {path} says {now}")));
            }
        }
    }

    fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<BufReader<TcpStream>> {
        let mut stream =
            TcpStream::connect(&self.authority).with_context(|| format!("{} refuses", self.authority))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let given = |name: &str| self.headers.iter().any(|(present, _)| present.eq_ignore_ascii_case(name));
        if !given("host") {
            request += &format!("Host: {}\r\n", self.authority);
        }
        for (name, value) in &self.headers {
            request += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = body {
            if !given("content-type") {
                request += "Content-Type: application/json\r\n";
            }
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        let bytes = [request.as_bytes(), body.unwrap_or_default()].concat();
        stream.write_all(&bytes).with_context(|| format!("{method} {path}"))?;
        Ok(BufReader::new(stream))
    }
}

impl Response {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(present, _)| present == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; nothing at all reads as null.
    pub fn json(&self) -> Result<Value> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {}", self.text()))
    }

    /// The JSON, provided that the status is this one.
    pub fn expect(&self, status: u16) -> Result<Value> {
        if self.status != status {
            bail!("{} instead of {status}: {}", self.status, self.text());
        }
        self.json()
    }

    /// The JSON, provided that the status is one of these.
    pub fn expect_any(&self, statuses: &[u16]) -> Result<Value> {
        if !statuses.contains(&self.status) {
            bail!("{} instead of one of {statuses:?}: {}", self.status, self.text());
        }
        self.json()
    }

    /// The JSON of a problem answer (RFC 9457), provided that it is one.
    pub fn problem(&self, status: u16) -> Result<Value> {
        let problem = self.expect(status)?;
        let kind = self.header("content-type").unwrap_or_default();
        if !kind.starts_with("application/problem+json") {
            bail!("the error is {kind}: {problem}");
        }
        Ok(problem)
    }
}

/// Server-sent events.
#[derive(Debug)]
pub struct Events {
    body: Body,
}

impl Events {
    /// The name of the next one.
    pub fn next_name(&mut self) -> Result<String> {
        self.next_before(Instant::now() + PATIENCE)
    }

    fn next_before(&mut self, until: Instant) -> Result<String> {
        let mut name = None;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.body.reader.get_ref().set_read_timeout(Some(left))?;
            let mut line = Vec::new();
            if !self.body.read_line(&mut line).context("no event")? {
                bail!("the events have ended");
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if let Some(given) = line.strip_prefix("event:") {
                name = Some(given.trim().to_owned());
            } else if line.is_empty() && name.is_some() {
                return name.context("no name");
            }
            if Instant::now() >= until {
                bail!("no event");
            }
        }
    }
}

/// A body of any framing, read as it comes.
#[derive(Debug)]
struct Body {
    reader: BufReader<TcpStream>,
    chunked: bool,
    /// What is left of the body, or of the present chunk.
    left: Option<u64>,
}

impl Body {
    fn new(reader: BufReader<TcpStream>, response: &Response) -> Self {
        let chunked =
            response.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        let length = response.header("content-length").and_then(|value| value.parse().ok());
        Self { reader, chunked, left: if chunked { Some(0) } else { length } }
    }

    /// One line, its end included; false once the body has ended.
    fn read_line(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        loop {
            if self.left == Some(0) && !(self.chunked && self.next_chunk()?) {
                return Ok(false);
            }
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                // Only a body of unknown length may end like this.
                return if self.left.is_none() { Ok(false) } else { Err(anyhow!("the connection was cut")) };
            }
            let left = self.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
            let available = &available[..available.len().min(left)];
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            line.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            self.left = self.left.map(|left| left - taken as u64);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    fn next_chunk(&mut self) -> Result<bool> {
        let mut size = String::new();
        self.reader.read_line(&mut size)?;
        if size.trim().is_empty() {
            // The line end that closes the chunk before.
            size.clear();
            self.reader.read_line(&mut size)?;
        }
        let digits = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).with_context(|| format!("not a chunk: {digits:?}"))?;
        self.left = Some(size);
        Ok(size > 0)
    }
}

fn head(reader: &mut BufReader<TcpStream>) -> Result<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line).context("no answer")?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("not an answer: {line:?}"))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        match line.split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None if line.is_empty() => return Ok((status, headers)),
            None => bail!("not a header: {line:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server that answers one request with these bytes.
    fn answering(answer: &'static str) -> Client {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}/#signin=x", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            head(&mut reader).ok();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        Client::new(&url).unwrap()
    }

    #[test]
    fn a_chunked_body_is_put_together() {
        let client = answering(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n5\r\n\n2,3]\r\n0\r\n\r\n",
        );
        assert_eq!(client.get("/").unwrap().expect(200).unwrap(), serde_json::json!([1, 2, 3]));
    }

    #[test]
    fn a_body_that_is_cut_is_an_error() {
        let client = answering("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort");
        assert!(client.get("/").is_err());
    }

    #[test]
    fn events_are_told_by_name() {
        let client = answering(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             1b\r\n: hi\n\nevent: hello\ndata: {}\r\n2\r\n\n\n\r\n17\r\nevent: inbox\ndata: {}\n\n\r\n0\r\n\r\n",
        );
        let mut events = client.events().unwrap();
        assert_eq!(events.next_name().unwrap(), "hello");
        assert_eq!(events.next_name().unwrap(), "inbox");
        assert!(events.next_name().is_err());
    }
}
