//! Ways to the host's streams: one pipe of many streams where the host knows it, a pipe for each otherwise.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use skald_relay_client::{Opened, PipeConnection, PipeError, PipeStream, PipeStreams, RelayClient};
use skald_relay_common::ids::PublicKey;
use tokio::time::{Duration, Instant};

/// How long a host that knows only the plain form is taken at its word: it may be updated.
const PLAIN_FOR: Duration = Duration::from_secs(300);

type Headers = BTreeMap<String, String>;

/// One stream to the host.
pub enum Way {
    /// In a pipe of many; the pipe lives as long as one of its streams, or who keeps it warm.
    Stream(PipeStream, Arc<PipeStreams>),
    /// A pipe of its own.
    Pipe(Box<PipeConnection>),
}

/// The pipes that carry many streams.
#[derive(Default)]
pub struct Ways {
    known: Mutex<HashMap<(String, Headers), Arc<Known>>>,
}

/// What is known of one type of stream.
#[derive(Default)]
struct Known {
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    streams: Weak<PipeStreams>,
    /// The host answered in the plain form.
    plain: Option<Instant>,
}

impl State {
    fn is_plain(&self) -> bool {
        self.plain.is_some_and(|since| since.elapsed() < PLAIN_FOR)
    }
}

/// Many small streams of these types are wanted at a time. A transfer of a file fills a pipe by itself.
fn many(stream_type: &str) -> bool {
    stream_type == crate::holder::PAGES || stream_type == skald_payloads::streams::TCP
}

impl Ways {
    /// Opens a stream of this type to the host.
    pub async fn open(
        &self,
        client: &RelayClient,
        agent: &PublicKey,
        stream_type: &str,
        headers: Headers,
    ) -> Result<Way, PipeError> {
        if many(stream_type) {
            // A pipe that has ended unnoticed shows it by refusing a stream; then another is opened, once.
            for _ in 0..2 {
                match self.streams(client, agent, stream_type, &headers).await? {
                    Found::Streams(streams) => {
                        if let Ok(stream) = streams.open().await {
                            return Ok(Way::Stream(stream, streams));
                        }
                    }
                    Found::Pipe(pipe) => return Ok(Way::Pipe(pipe)),
                    Found::Plain => break,
                }
            }
        }
        client.open_pipe(agent, stream_type, headers).await.map(|pipe| Way::Pipe(Box::new(pipe)))
    }

    /// The pipe of many streams of this type, opened if there is none. `None`: the host does not know such.
    pub async fn warm(
        &self,
        client: &RelayClient,
        agent: &PublicKey,
        stream_type: &str,
    ) -> Result<Option<Arc<PipeStreams>>, PipeError> {
        match self.streams(client, agent, stream_type, &Headers::new()).await? {
            Found::Streams(streams) => Ok(Some(streams)),
            Found::Pipe(_) | Found::Plain => Ok(None),
        }
    }

    async fn streams(
        &self,
        client: &RelayClient,
        agent: &PublicKey,
        stream_type: &str,
        headers: &Headers,
    ) -> Result<Found, PipeError> {
        let key = (stream_type.to_owned(), headers.clone());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        // Whoever comes while the pipe is being opened waits for that one.
        let mut state = known.state.lock().await;
        if let Some(streams) = state.streams.upgrade().filter(|streams| !streams.is_over()) {
            return Ok(Found::Streams(streams));
        }
        if state.is_plain() {
            return Ok(Found::Plain);
        }
        match client.open_streams(agent, stream_type, headers.clone()).await? {
            Opened::Streams(streams) => {
                let streams = Arc::new(streams);
                *state = State { streams: Arc::downgrade(&streams), plain: None };
                Ok(Found::Streams(streams))
            }
            Opened::Plain(pipe) => {
                state.plain = Some(Instant::now());
                Ok(Found::Pipe(pipe))
            }
        }
    }
}

enum Found {
    Streams(Arc<PipeStreams>),
    /// The host answered in the plain form, with this pipe.
    Pipe(Box<PipeConnection>),
    /// It did so a while ago.
    Plain,
}
