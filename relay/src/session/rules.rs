//! The limits in the form in which a session uses them.

use std::time::Duration;

use bytes::Bytes;
use skald_relay_common::frame::RelayInfo;
use skald_relay_common::limits::{Limits, PipeLimits};

/// The limits as a session uses them.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) max_frame: usize,
    pub(crate) max_live_frame: usize,
    pub(crate) challenge_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) pong_timeout: Duration,
    pub(crate) messages_per_minute: u32,
    pub(crate) pairing_ttl: u32,
    pub(crate) pairing_ttl_max: u32,
    pub(crate) info: RelayInfo,
}

impl Rules {
    pub(crate) fn new(limits: &Limits, pipe: &PipeLimits) -> Self {
        let secs = |secs: u32| Duration::from_secs(secs.into());
        Self {
            max_frame: limits.max_frame_bytes as usize,
            max_live_frame: limits.max_live_frame_bytes as usize,
            challenge_timeout: secs(limits.challenge_timeout_secs),
            idle_timeout: secs(limits.idle_timeout_secs),
            ping_interval: secs(limits.ping_interval_secs),
            pong_timeout: secs(limits.pong_timeout_secs),
            messages_per_minute: limits.messages_per_minute,
            pairing_ttl: limits.pairing_ttl_secs,
            pairing_ttl_max: limits.pairing_ttl_max_secs,
            info: RelayInfo {
                max_frame_bytes: limits.max_frame_bytes,
                max_live_frame_bytes: limits.max_live_frame_bytes,
                messages_per_minute: limits.messages_per_minute,
                queue_per_client: limits.queue_per_client,
                ping_interval_secs: limits.ping_interval_secs,
                idle_timeout_secs: limits.idle_timeout_secs,
                pipes_per_namespace: pipe.max_per_ns,
                pipe_max_frame_bytes: pipe.max_frame_bytes,
                vapid_public_key: Bytes::new(),
            },
        }
    }
}
