//! A browser as far as a page's loading is concerned: six connections that are kept, and the page's own order of
//! requests: document, what the document names, session, then inbox and events beside each other.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::future::try_join_all;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};

/// What browsers open to one address.
const CONNECTIONS: usize = 6;

type Connection = BufReader<TcpStream>;

/// One browser with an empty cache.
pub struct Visitor {
    address: SocketAddr,
    host: String,
    token: Option<String>,
    kept: Mutex<Vec<Connection>>,
    places: Semaphore,
}

/// A long answer that flows beside everything else. Dropped, it is given up.
pub struct Download<'a> {
    connection: Connection,
    _place: SemaphorePermit<'a>,
}

impl Visitor {
    /// To `address`, which is called `host`; with a token where the page is not asked for as a device.
    pub fn new(address: SocketAddr, host: impl Into<String>, token: Option<String>) -> Self {
        let places = Semaphore::new(CONNECTIONS);
        Self { address, host: host.into(), token, kept: Mutex::default(), places }
    }

    /// Loads the page until a person could use it: how long that took. `shown` must be in the inbox.
    pub async fn visit(&self, shown: &str) -> Result<Duration> {
        let began = Instant::now();
        let document = self.fetch("/").await?;
        let document = String::from_utf8_lossy(&document);
        let named = named(&document);
        ensure!(!named.is_empty(), "the page names no script");
        try_join_all(named.iter().map(|path| self.fetch(path))).await?;
        self.fetch("/api/v1/session").await?;
        let (inbox, _events) = tokio::try_join!(self.fetch("/api/v1/inbox"), self.events())?;
        ensure!(String::from_utf8_lossy(&inbox).contains(shown), "the inbox does not show the item");
        Ok(began.elapsed())
    }

    /// Asks for the page's largest file so often that about this many bytes come, in one connection and without waiting
    /// in between; gives it back once the first of them has come.
    pub async fn download(&self, bytes: usize) -> Result<Download<'_>> {
        let document = self.fetch("/").await?;
        let mut largest = (0, String::new());
        for path in named(&String::from_utf8_lossy(&document)) {
            let len = self.fetch(&path).await?.len();
            largest = largest.max((len, path));
        }
        // The visit beside it opens connections of its own, as one without a download does.
        self.kept.lock().map_err(|_| anyhow::anyhow!("a visit failed"))?.clear();
        let place = self.places.acquire().await?;
        let mut connection = self.connect().await?;
        let request = self.request(&largest.1);
        let all = request.repeat(bytes / largest.0.max(1) + 1);
        connection.get_mut().write_all(all.as_bytes()).await?;
        connection.fill_buf().await.context("the download does not begin")?;
        Ok(Download { connection, _place: place })
    }

    async fn fetch(&self, path: &str) -> Result<Vec<u8>> {
        let _place = self.places.acquire().await?;
        let mut connection = self.ask(path).await?;
        let (status, length) = head(&mut connection).await?;
        ensure!(status == 200, "{path}: {status}");
        let mut body = Vec::new();
        match length {
            Some(length) => {
                body.resize(length, 0);
                connection.read_exact(&mut body).await?;
            }
            None => while chunk(&mut connection, &mut body).await? {},
        }
        self.kept.lock().map_err(|_| anyhow::anyhow!("a visit failed"))?.push(connection);
        Ok(body)
    }

    /// The event stream, once it has said hello.
    async fn events(&self) -> Result<(Connection, SemaphorePermit<'_>)> {
        let place = self.places.acquire().await?;
        let mut connection = self.ask("/api/v1/events").await?;
        let (status, _) = head(&mut connection).await?;
        ensure!(status == 200, "events: {status}");
        loop {
            let mut line = String::new();
            ensure!(connection.read_line(&mut line).await? > 0, "the events have ended");
            if line.starts_with("event:") {
                return Ok((connection, place));
            }
        }
    }

    async fn ask(&self, path: &str) -> Result<Connection> {
        let kept = self.kept.lock().map_err(|_| anyhow::anyhow!("a visit failed"))?.pop();
        let mut connection = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        connection.get_mut().write_all(self.request(path).as_bytes()).await?;
        Ok(connection)
    }

    async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await.context("nobody listens")?;
        stream.set_nodelay(true)?;
        Ok(BufReader::with_capacity(64 * 1024, stream))
    }

    fn request(&self, path: &str) -> String {
        let token = self.token.as_ref().map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\n{token}\r\n", self.host)
    }
}

impl Download<'_> {
    /// Reads on until `bytes` have come; how many did.
    pub async fn read(&mut self, bytes: usize) -> Result<usize> {
        let mut read = 0;
        while read < bytes {
            let len = self.connection.fill_buf().await?.len();
            if len == 0 {
                break;
            }
            self.connection.consume(len);
            read += len;
        }
        Ok(read)
    }
}

/// Scripts and styles that a document names.
fn named(document: &str) -> Vec<String> {
    let quoted = document.split(['"', '\'']).skip(1).step_by(2);
    let loads = |path: &&str| path.starts_with('/') && (path.ends_with(".js") || path.ends_with(".css"));
    let mut paths: Vec<_> = quoted.filter(loads).map(str::to_owned).collect();
    paths.dedup();
    paths
}

/// Status and length; no length where the body comes in chunks.
async fn head(connection: &mut Connection) -> Result<(u16, Option<usize>)> {
    let mut line = String::new();
    connection.read_line(&mut line).await?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no answer")?;
    let mut length = None;
    loop {
        line.clear();
        if connection.read_line(&mut line).await? == 0 {
            bail!("the connection was cut");
        }
        let Some((name, value)) = line.split_once(':') else { return Ok((status, length)) };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse()?);
        }
    }
}

/// Adds one chunk; false after the last.
async fn chunk(connection: &mut Connection, body: &mut Vec<u8>) -> Result<bool> {
    let mut line = String::new();
    connection.read_line(&mut line).await?;
    let len = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
    let at = body.len();
    body.resize(at + len, 0);
    connection.read_exact(&mut body[at..]).await?;
    line.clear();
    connection.read_line(&mut line).await?;
    Ok(len > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_what_the_browser_then_loads() {
        let document = r#"<link rel="icon" href="/favicon.svg"><script src="/theme.js"></script>
            <script type="module" crossorigin src="/assets/index-1.js"></script>
            <link rel="stylesheet" href="/assets/index-2.css"><a href="https://elsewhere/x.js">x</a>"#;
        assert_eq!(named(document), ["/theme.js", "/assets/index-1.js", "/assets/index-2.css"]);
    }
}
