//! The numbers of relay-protocol §10 and pipe §3.3, with their defaults.
//!
//! A relay reads them from its settings; a client uses the defaults to stay inside them. Times are whole seconds, for
//! that is how they are written in settings.

use serde::{Deserialize, Serialize};

/// Limits of the control socket, its queues and namespaces (relay-protocol §10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest frame before authentication, and of anything that is not a live message.
    pub max_frame_bytes: u32,
    /// Largest frame that carries a live message.
    pub max_live_frame_bytes: u32,
    /// How long a peer has to answer the challenge.
    pub challenge_timeout_secs: u32,
    /// Silence after which a connection is closed.
    pub idle_timeout_secs: u32,
    /// How often the relay pings.
    pub ping_interval_secs: u32,
    /// How long a delivered message may stay unconfirmed before its device counts as absent for push.
    pub pong_timeout_secs: u32,
    /// How long a message waits for its recipient.
    pub queue_ttl_secs: u32,
    /// How many messages may wait for one recipient.
    pub queue_per_client: u32,
    /// New connections of one address that do not authenticate.
    pub connections_per_ip_per_minute: u32,
    /// New authenticated connections of one namespace, pipes included.
    pub connections_per_namespace_per_minute: u32,
    /// Messages and presence requests of one connection.
    pub messages_per_minute: u32,
    /// How long a namespace lives without any connection.
    pub namespace_ttl_secs: u32,
    /// The pairing window where the agent names none.
    pub pairing_ttl_secs: u32,
    /// The longest pairing window.
    pub pairing_ttl_max_secs: u32,
    /// What may wait in memory to be written to one connection.
    pub outbox_bytes: u32,
    /// How long one write may make no progress before the connection is given up.
    pub write_timeout_secs: u32,
    /// How long a message that has begun may take to be whole.
    pub frame_timeout_secs: u32,
    /// Connections of all kinds at a time.
    pub max_connections: u32,
    /// Connections at a time that have not authenticated.
    pub max_unauthenticated: u32,
    /// The same of one address.
    pub unauthenticated_per_ip: u32,
    /// New namespaces that one address may make.
    pub new_namespaces_per_ip_per_hour: u32,
    /// What may wait in memory to be written to all connections together.
    pub outbox_total_bytes: u64,
    /// Messages of one namespace that may wait to be written to the database.
    pub store_backlog_per_namespace: u32,
    /// Size of the database above which messages for absent devices are refused; 0 means no cap.
    pub max_database_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const WEEK: u32 = 7 * 24 * 60 * 60;
        Self {
            max_frame_bytes: 64 * 1024,
            max_live_frame_bytes: 512 * 1024,
            challenge_timeout_secs: 30,
            idle_timeout_secs: 120,
            ping_interval_secs: 30,
            pong_timeout_secs: 10,
            queue_ttl_secs: WEEK,
            queue_per_client: 200,
            connections_per_ip_per_minute: 30,
            connections_per_namespace_per_minute: 120,
            messages_per_minute: 60,
            namespace_ttl_secs: WEEK,
            pairing_ttl_secs: 300,
            pairing_ttl_max_secs: 600,
            outbox_bytes: 1024 * 1024,
            write_timeout_secs: 30,
            frame_timeout_secs: 60,
            max_connections: 50_000,
            max_unauthenticated: 4096,
            unauthenticated_per_ip: 64,
            new_namespaces_per_ip_per_hour: 600,
            outbox_total_bytes: 256 * 1024 * 1024,
            store_backlog_per_namespace: 512,
            max_database_bytes: 8 * 1024 * 1024 * 1024,
        }
    }
}

/// Limits of the byte streams (pipe §3.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PipeLimits {
    /// How long a side waits for its partner.
    pub pending_ttl_secs: u32,
    /// Silence in both directions after which a pipe is ended.
    pub idle_timeout_secs: u32,
    /// Pipes of one namespace, waiting ones included.
    pub max_per_ns: u32,
    /// Largest WebSocket frame on a pipe.
    pub max_frame_bytes: u32,
    /// Bytes a second in each direction; 0 means no limit.
    pub max_bps: u64,
}

impl Default for PipeLimits {
    fn default() -> Self {
        Self {
            pending_ttl_secs: 30,
            idle_timeout_secs: 120,
            max_per_ns: 8,
            max_frame_bytes: 1024 * 1024,
            max_bps: 0,
        }
    }
}

/// Ciphertext, tag included, that fits a stored message with room for the frame around it.
pub const MAX_STORED_CIPHERTEXT: usize = 65_000;
/// Ciphertext, tag included, that fits a live message with room for the frame around it.
pub const MAX_LIVE_CIPHERTEXT: usize = 524_000;
