//! Live updates: server-sent events that say what to read again.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event as SseEvent, KeepAlive};
use futures_util::Stream;
use skald_core_api::Event;
use skald_host::EventStream;
use tokio::sync::watch;

use crate::auth::{Caller, Read, Signed};
use crate::state::AppState;

/// How often an idle stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Live {
    state: AppState,
    signed: Signed,
    events: EventStream,
    revocations: watch::Receiver<u64>,
    greeted: bool,
}

/// A proxy in front of the host must not gather what is to be seen at once.
const AT_ONCE: [(&str, &str); 1] = [("x-accel-buffering", "no")];

/// Server-sent events: `hello` at the start, then `inbox`, `plugins` and `devices` whenever they change.
#[utoipa::path(get, path = "/api/v1/events", tag = "inbox", responses(
    (status = 200, content_type = "text/event-stream", body = String,
        description = "`hello`: read everything; `inbox`, `plugins`, `devices`: read that again. The data is `{}`."),
))]
pub(crate) async fn events(
    State(state): State<AppState>,
    caller: Caller<Read>,
) -> ([(&'static str, &'static str); 1], Sse<impl Stream<Item = Result<SseEvent, Infallible>>>) {
    // Subscribed before `hello` leaves, so that nothing falls between what the page reads and what it is told.
    let live = Live {
        events: state.host().events().subscribe(),
        revocations: state.host().access().revocations(),
        signed: caller.signed,
        state,
        greeted: false,
    };
    let stream = futures_util::stream::unfold(live, |mut live| async move {
        let name = live.next().await?;
        Some((Ok(SseEvent::default().event(name).data("{}")), live))
    });
    (AT_ONCE, Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Live {
    async fn next(&mut self) -> Option<&'static str> {
        if !self.greeted {
            self.greeted = true;
            return Some("hello");
        }
        loop {
            tokio::select! {
                event = self.events.next() => return event.map(name),
                () = self.state.stop().cancelled() => return None,
                Ok(()) = self.revocations.changed() => {
                    // A failed look-up ends the stream as well: the browser comes back and is asked again.
                    if !matches!(self.signed.still_holds(&self.state).await, Ok(true)) {
                        return None;
                    }
                }
            }
        }
    }
}

fn name(event: Event) -> &'static str {
    match event {
        Event::Inbox => "inbox",
        Event::Plugins => "plugins",
        Event::Devices => "devices",
    }
}
