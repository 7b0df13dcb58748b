//! The log: the last lines, the new ones, and those that were missed.

use skald_payloads::streams::{LOG, LogLevel, LogReply, LogRequest};

use super::*;
use crate::access::Allowed;
use crate::log::{LogHandler, LogRing};
use crate::settings::Log;

fn handler(ring: &LogRing) -> Arc<LogHandler> {
    let settings = Log { devices: Allowed::default(), streams: 2 };
    Arc::new(LogHandler::new(settings, ring.clone(), CancellationToken::new()))
}

fn log(ring: &LogRing, what: impl FnOnce()) {
    use tracing_subscriber::layer::SubscriberExt;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(ring.layer()), what);
}

async fn line(device: &mut Device) -> String {
    match device.hear().await {
        LogReply::Line { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_last_lines_come_and_then_the_end() {
    let ring = LogRing::default();
    log(&ring, || {
        tracing::info!("one");
        tracing::warn!("two");
        tracing::info!("three");
    });
    for (lines, level, told) in
        [(2, LogLevel::Info, &["two", "three"][..]), (9, LogLevel::Warn, &["two"]), (0, LogLevel::Info, &[])]
    {
        let mut device = Device::open(handler(&ring), offer(LOG, &[]));
        device.say(&LogRequest { lines, follow: false, level }).await;
        for text in told {
            assert_eq!(line(&mut device).await, *text);
        }
        assert_eq!(device.hear::<LogReply>().await, LogReply::End);
        device.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_hears_what_is_new_and_is_told_what_it_was_too_slow_for() {
    let ring = LogRing::default();
    let mut device = Device::open(handler(&ring), offer(LOG, &[]));
    device.say(&LogRequest { lines: 5, follow: true, level: LogLevel::Info }).await;
    // Time stands still but for the host's own waiting, so this is its word that nothing happens.
    assert_eq!(device.hear::<LogReply>().await, LogReply::Idle);
    log(&ring, || tracing::info!("news"));
    assert_eq!(line(&mut device).await, "news");
    log(&ring, || (0..20_000).for_each(|n| tracing::info!("{n} {}", "x".repeat(50))));
    let (mut lost, mut heard) = (0, 0);
    while lost + heard < 20_000 {
        match device.hear().await {
            LogReply::Lost { count } => lost += count,
            LogReply::Line { .. } => heard += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(lost > 10_000 && lost + heard == 20_000, "{lost} {heard}");
    device.leave().await;
}
