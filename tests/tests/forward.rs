//! Ports of the host's machine, and the host's page, through the pipe: what browsers and servers rely on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skald_testkit::{Client, PATIENCE, Phone, Program};
use skald_tests::Home;

/// A development server: answers on kept connections, streams events when told to, and speaks after an upgrade.
fn development_server() -> Result<(u16, mpsc::Sender<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let (tell, told) = mpsc::channel();
    let told = std::sync::Arc::new(std::sync::Mutex::new(told));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = told.clone();
            std::thread::spawn(move || answer(stream, &told));
        }
    });
    Ok((port, tell))
}

fn answer(mut stream: TcpStream, told: &std::sync::Mutex<mpsc::Receiver<()>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (head, length) = head(&mut reader)?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        if head.starts_with("GET /ws") {
            stream
                .write_all(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
                )
                .ok()?;
            let mut chunk = [0; 1000];
            loop {
                match reader.read(&mut chunk).ok()? {
                    0 => return None,
                    read => stream.write_all(&chunk[..read]).ok()?,
                }
            }
        } else if head.starts_with("GET /events") {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: one\n\n")
                .ok()?;
            told.lock().ok()?.recv().ok()?;
            stream.write_all(b"event: two\n\n").ok()?;
            return None;
        } else {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(answer.as_bytes()).ok()?;
            stream.write_all(&body).ok()?;
        }
    }
}

/// A head and the length of the body behind it.
fn head(reader: &mut impl BufRead) -> Option<(String, usize)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length =
        head.lines().find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    Some((head, length.unwrap_or(0)))
}

fn connect(address: &str) -> Result<(TcpStream, BufReader<TcpStream>)> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let reader = BufReader::new(stream.try_clone()?);
    Ok((stream, reader))
}

fn forwarded(phone: &Phone, name: &str) -> Result<(Program, String)> {
    let forwarding = phone.start(&["--json", "forward", name])?;
    let address = forwarding.wait_for("its address", |line| {
        serde_json::from_str::<serde_json::Value>(line).ok()?["listen"].as_str().map(str::to_owned)
    })?;
    Ok((forwarding, address))
}

fn offer(home: &Home, ports: &[String]) -> Result<()> {
    let wish = json!({ "enabled": true, "config": { "tcp_enabled": true, "tcp_ports": ports } });
    home.api.put("/api/v1/plugins/local-streams", &wish)?.expect(200)?;
    home.api.until("/api/v1/plugins/local-streams", "ports are offered", |plugin| {
        (plugin["status"]["state"] == "running").then_some(())
    })
}

#[test]
fn a_development_server_is_used_over_many_connections_and_with_upgrades_and_events() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let (port, tell) = development_server()?;
    offer(&home, &[format!("dev {port}")])?;
    let (_forwarding, address) = forwarded(&phone, "dev")?;
    // More at once than a relay lets a namespace have pipes, each with several requests.
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|number| {
                let address = &address;
                scope.spawn(move || -> Result<()> {
                    let (mut stream, mut reader) = connect(address)?;
                    for round in 0..5 {
                        let body = format!("{number} {round} ").repeat(5000);
                        write!(stream, "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
                        let (_, length) = head(&mut reader).context("no answer")?;
                        let mut answer = vec![0; length];
                        reader.read_exact(&mut answer)?;
                        ensure!(answer == body.as_bytes(), "{number} {round}");
                    }
                    Ok(())
                })
            })
            .collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().map_err(|_| anyhow::anyhow!("a client failed"))?)
    })?;
    // After an upgrade every byte passes, both ways, in pieces of any size.
    let (mut stream, mut reader) = connect(&address)?;
    stream.write_all(b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")?;
    ensure!(head(&mut reader).is_some_and(|(head, _)| head.starts_with("HTTP/1.1 101")));
    let every: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for len in [1, 2, 125, 126, 65_535, 100_000] {
        stream.write_all(&every[..len])?;
        let mut echo = vec![0; len];
        reader.read_exact(&mut echo)?;
        ensure!(echo == every[..len], "{len}");
    }
    // An event arrives before the next one is even written.
    let (mut stream, mut reader) = connect(&address)?;
    stream.write_all(b"GET /events HTTP/1.1\r\n\r\n")?;
    head(&mut reader).context("no answer")?;
    let mut event = String::new();
    reader.read_line(&mut event)?;
    ensure!(event == "event: one\n", "{event}");
    tell.send(())?;
    reader.read_to_string(&mut event)?;
    ensure!(event.ends_with("event: two\n\n"), "{event}");
    Ok(())
}

#[test]
fn what_is_not_listed_is_not_reached_and_skalds_own_port_cannot_be_listed() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let (port, _tell) = development_server()?;
    offer(&home, &[format!("dev {port}")])?;
    for name in ["other", &format!("127.0.0.1:{port}"), "DEV"] {
        let (forwarding, address) = forwarded(&phone, name)?;
        let (_stream, mut reader) = connect(&address)?;
        ensure!(reader.read(&mut [0; 1]).unwrap_or(0) == 0, "{name}");
        forwarding.wait_for("the refusal", |line| line.contains("o port of that name").then_some(()))?;
    }
    let own = home.host.origin().rsplit(':').next().context("no port")?.to_owned();
    for line in [format!("skald {own}"), format!("skald localhost:{own}"), format!("skald [::1]:{own}")] {
        let wish = json!({ "enabled": true, "config": { "tcp_enabled": true, "tcp_ports": [line] } });
        let problem = home.api.put("/api/v1/plugins/local-streams", &wish)?.problem(422)?;
        ensure!(problem.to_string().contains("own port"), "{problem}");
    }
    Ok(())
}

#[test]
fn the_page_through_the_pipe_keeps_connections_caches_compresses_and_streams() -> Result<()> {
    let (home, phone) = Home::paired()?;
    let proxy = phone.start(&["proxy", "--listen", "127.0.0.1:0"])?;
    let url = proxy.wait_for("its address", |line| {
        let from = line.find("http://")?;
        line[from..].split_whitespace().next().map(str::to_owned)
    })?;
    let page = Client::new(&url)?;
    let zipped = page.clone().with_header("Accept-Encoding", "gzip, br").get("/")?;
    ensure!(zipped.status == 200 && zipped.header("content-encoding").is_some(), "{:?}", zipped.headers);
    ensure!(
        zipped.header("cache-control") == Some("no-cache") && zipped.header("accept-ranges") == Some("none")
    );
    let tag = zipped.header("etag").context("no tag")?.to_owned();
    let again = page.clone().with_header("If-None-Match", &tag).get("/")?;
    ensure!(again.status == 304 && again.body.is_empty());
    // Events are neither compressed nor held back.
    let client = page.clone().with_header("Accept-Encoding", "gzip, br");
    let mut events = client.events()?;
    ensure!(events.next_name()? == "hello");
    home.ask_approval("t", "Something happens")?;
    while events.next_name()? != "inbox" {}
    let secret = client.get("/api/v1/inbox")?;
    ensure!(secret.header("content-encoding").is_none(), "{:?}", secret.headers);
    // Two requests on one connection, then one that is too large and is told so.
    let (mut stream, mut reader) = connect(page.authority())?;
    for _ in 0..2 {
        write!(stream, "GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", page.authority())?;
        let (_, length) = head(&mut reader).context("no answer")?;
        reader.read_exact(&mut vec![0; length])?;
    }
    let large = vec![b' '; 2 * 1024 * 1024];
    let refused = page.with_header("Origin", url.trim_end_matches('/')).request(
        "POST",
        "/api/v1/inbox/approvals",
        Some(&large),
    )?;
    ensure!(matches!(refused.status, 403 | 413), "{} {}", refused.status, refused.text());
    Ok(())
}
