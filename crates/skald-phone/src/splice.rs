//! Copies between a local connection and a pipe, each direction at its own pace.
//!
//! A pipe cannot tell its other end that one direction is over: closing it closes both (pipe §3.2, teardown). So when
//! the local side has finished speaking, the pipe stays open for as long as an answer may still come.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// One copy buffer; a pipe's frame is at most 1 MiB, and smaller ones keep both directions lively.
const CHUNK: usize = 64 * 1024;
/// How long the pipe waits for an answer to something after the local side has finished.
const ANSWER_DUE: Duration = Duration::from_secs(60);
/// How long it waits when the last word was the host's: then most likely nothing more will come.
const ANSWERED: Duration = Duration::from_secs(5);
/// A side that takes nothing for so long is gone. The relay reaps an idle pipe after 120 s as well.
const STALLED: Duration = Duration::from_secs(120);

/// How long a pipe is kept for an answer after the local side has finished.
#[derive(Clone)]
pub struct Patience {
    due: Duration,
    answered: Duration,
    /// How many others wait for a pipe; while any does, one that was answered is given up at once.
    wanted: Option<watch::Receiver<usize>>,
}

impl Patience {
    /// For a local side whose end means that it is gone.
    pub fn none() -> Self {
        Self { due: Duration::ZERO, answered: Duration::ZERO, wanted: None }
    }

    /// For a local side that may have finished speaking and still listen.
    pub fn for_answers(wanted: watch::Receiver<usize>) -> Self {
        Self { due: ANSWER_DUE, answered: ANSWERED, wanted: Some(wanted) }
    }

    async fn wanted(&mut self) {
        if let Some(wanted) = &mut self.wanted
            && wanted.wait_for(|n| *n > 0).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Runs until either side is over. `first` was read from the local side already.
pub async fn splice<LR, LW, RR, RW>(first: &[u8], local: (LR, LW), remote: (RR, RW), mut patience: Patience)
where
    LR: AsyncRead + Unpin,
    LW: AsyncWrite + Unpin,
    RR: AsyncRead + Unpin,
    RW: AsyncWrite + Unpin,
{
    let (mut local_in, mut local_out) = local;
    let (mut remote_in, mut remote_out) = remote;
    let moved = Moved::default();

    let up = async {
        // A pipe that takes nothing more may still have an answer to bring.
        let mut takes = first.is_empty() || write(&mut remote_out, first).await.is_ok();
        let mut buffer = vec![0; CHUNK];
        while takes {
            match local_in.read(&mut buffer).await {
                Ok(0) => break,
                Err(_) => return,
                Ok(n) => {
                    moved.up();
                    takes = write(&mut remote_out, &buffer[..n]).await.is_ok();
                }
            }
        }
        loop {
            let (answered, last) = moved.last();
            let due = last + if answered { patience.answered } else { patience.due };
            if due <= Instant::now() {
                return;
            }
            tokio::select! {
                () = sleep_until(due) => {}
                () = patience.wanted(), if answered => return,
                // What comes from the host changes what is due.
                () = moved.heard.notified() => {}
            }
        }
    };
    let down = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            match remote_in.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    moved.down();
                    if write(&mut local_out, &buffer[..n]).await.is_err() {
                        return;
                    }
                }
            }
        }
        let _ = timeout(STALLED, local_out.shutdown()).await;
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
    let _ = timeout(Duration::from_secs(2), remote_out.shutdown()).await;
}

/// When each direction last moved.
struct Moved {
    at: Mutex<(Instant, Option<Instant>)>,
    heard: Notify,
}

impl Default for Moved {
    fn default() -> Self {
        Self { at: Mutex::new((Instant::now(), None)), heard: Notify::new() }
    }
}

impl Moved {
    fn up(&self) {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).0 = Instant::now();
    }

    fn down(&self) {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(Instant::now());
        self.heard.notify_one();
    }

    /// Whether the last word was the host's, and when it was.
    fn last(&self) -> (bool, Instant) {
        match *self.at.lock().unwrap_or_else(PoisonError::into_inner) {
            (sent, Some(received)) if received >= sent => (true, received),
            (sent, _) => (false, sent),
        }
    }
}

async fn write(out: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    let all = async {
        out.write_all(bytes).await?;
        out.flush().await
    };
    timeout(STALLED, all).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{duplex, split};

    fn patient() -> Patience {
        Patience::for_answers(watch::Sender::new(0).subscribe())
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_still_comes_after_the_local_side_has_finished() {
        let (mut client, local) = duplex(1024);
        let (remote, mut host) = duplex(1024);
        let task = tokio::spawn(async move { splice(b"GET", split(local), split(remote), patient()).await });
        client.write_all(b" /").await.expect("written");
        client.shutdown().await.expect("half-closed");
        let mut request = [0; 5];
        host.read_exact(&mut request).await.expect("request");
        assert_eq!(&request, b"GET /");
        tokio::time::sleep(Duration::from_secs(30)).await;
        host.write_all(b"late answer").await.expect("answered");
        let mut answer = [0; 11];
        client.read_exact(&mut answer).await.expect("answer");
        assert_eq!(&answer, b"late answer");
        task.await.expect("the pipe closes once the answer is complete");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_left_without_an_answer_frees_the_pipe_in_time() {
        let (client, local) = duplex(1024);
        let (remote, _host) = duplex(1024);
        let begun = Instant::now();
        drop(client);
        splice(b"GET", split(local), split(remote), patient()).await;
        assert!(begun.elapsed() <= ANSWER_DUE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_keeps_the_pipe_open_after_its_answer_does_not_keep_the_client() {
        let (mut client, local) = duplex(1024);
        let (remote, mut host) = duplex(1024);
        let begun = Instant::now();
        let task = tokio::spawn(async move { splice(b"GET", split(local), split(remote), patient()).await });
        client.shutdown().await.expect("half-closed");
        host.read_exact(&mut [0; 3]).await.expect("request");
        tokio::time::sleep(Duration::from_secs(1)).await;
        host.write_all(b"answer").await.expect("answered");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("the end");
        assert_eq!(answer, "answer");
        task.await.expect("over");
        // Paused time: this is how long the pipe was kept, not how long the test ran.
        assert!(begun.elapsed() < ANSWER_DUE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answered_pipe_makes_room_at_once_when_another_waits() {
        let (mut client, local) = duplex(1024);
        let (remote, mut host) = duplex(1024);
        let waiting = watch::Sender::new(0);
        let patience = Patience::for_answers(waiting.subscribe());
        let task = tokio::spawn(async move { splice(b"GET", split(local), split(remote), patience).await });
        client.shutdown().await.expect("half-closed");
        host.read_exact(&mut [0; 3]).await.expect("request");
        waiting.send_modify(|n| *n += 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!task.is_finished(), "its answer is still due");
        let begun = Instant::now();
        host.write_all(b"answer").await.expect("answered");
        task.await.expect("over");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("the end");
        assert_eq!(answer, "answer");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_pipe_ends_the_local_side_after_its_last_byte() {
        let (mut client, local) = duplex(8);
        let (remote, mut host) = duplex(1024);
        let task = tokio::spawn(async move { splice(b"", split(local), split(remote), patient()).await });
        host.write_all(b"the whole long answer").await.expect("answered");
        drop(host);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("answer");
        assert_eq!(answer, "the whole long answer");
        task.await.expect("over");
    }

    #[tokio::test(start_paused = true)]
    async fn fault_10_a_stalled_direction_does_not_hold_up_the_other() {
        let (client, local) = duplex(64);
        let (remote, mut host) = duplex(64);
        let task = tokio::spawn(async move { splice(b"", split(local), split(remote), patient()).await });
        // The host takes nothing, so the way up is stuck ...
        let stuck = tokio::spawn(async move {
            let (mut reader, mut writer) = split(client);
            let upload = tokio::spawn(async move {
                let _ = writer.write_all(&[1; 1 << 20]).await;
            });
            let mut answer = [0; 256];
            reader.read_exact(&mut answer).await.expect("the way down moves");
            upload.abort();
        });
        // ... and the way down moves all the same.
        host.write_all(&[2; 256]).await.expect("answered");
        stuck.await.expect("received");
        task.abort();
    }
}
