//! Puts what the host logs into the ring.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use skald_payloads::streams::LogLevel;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::ring::{LINE, Line, LogRing};

/// A layer of the host's log that keeps its last lines. What is logged holds no secrets, and this adds nothing to it.
pub struct LogLayer(LogRing);

impl LogRing {
    /// The layer that fills this ring.
    pub fn layer(&self) -> LogLayer {
        LogLayer(self.clone())
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let meta = event.metadata();
        self.0.push(Line {
            at: since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
            level: level(*meta.level()),
            target: meta.target().to_owned(),
            text: format!("{}{}", text.message, text.fields),
        });
    }
}

fn level(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}

/// The message, then the fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if self.fields.len() > LINE {
            return;
        }
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn a_line_bears_its_message_then_its_fields() {
        let ring = LogRing::default();
        let subscriber = tracing_subscriber::registry().with(ring.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(device = "ab", count = 3, "it happened");
        });
        let batch = ring.take(0, LogLevel::Trace, 9);
        let line = &batch.lines[0].1;
        assert_eq!(line.text, "it happened device=\"ab\" count=3");
        assert_eq!((line.level, line.at > 0), (LogLevel::Warn, true));
    }
}
