//! The labels and their values.

use skald_relay_common::ErrorCode;

use super::labels::label;

label! {
    /// What a connection is.
    Role as "role" {
        /// It has not proved who it is.
        Unauthenticated = "unauthenticated",
        Agent = "agent",
        Client = "client",
        Pairing = "pairing",
        /// One side of a pipe.
        Pipe = "pipe",
    }
}

label! {
    /// What became of a connection before it was a WebSocket.
    Arrival as "outcome" {
        /// It became a WebSocket.
        Upgraded = "upgraded",
        /// It asked for `/healthz` or `/readyz`.
        Health = "health",
        /// It asked for something that is not there.
        NotFound = "not_found",
        /// Its request was no proper WebSocket handshake.
        NotWebSocket = "not_websocket",
        /// It came without encryption.
        Plain = "plain",
        /// Its TLS handshake failed or took too long.
        TlsFailed = "tls_failed",
        /// It went, or took too long, before its request was whole.
        Incomplete = "incomplete",
        /// Its address opens too many connections.
        OverQuota = "over_quota",
        /// The relay holds as many connections as it may.
        NoRoom = "no_room",
        /// The relay is about to stop.
        Draining = "draining",
    }
}

label! {
    /// Which protocol a handshake was for.
    Protocol as "protocol" {
        Control = "control",
        Pipe = "pipe",
    }
}

label! {
    /// How a handshake ended.
    Handshake as "outcome" {
        Accepted = "accepted",
        ChallengeTimeout = "challenge_timeout",
        InvalidSignature = "invalid_signature",
        Unauthorized = "unauthorized",
        NotFound = "not_found",
        PairingClosed = "pairing_closed",
        RateLimited = "rate_limited",
        PayloadTooLarge = "payload_too_large",
        BadRequest = "bad_request",
        Internal = "internal",
        /// The peer went before it was over.
        Gone = "gone",
    }
}

impl From<ErrorCode> for Handshake {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ChallengeTimeout => Self::ChallengeTimeout,
            ErrorCode::InvalidSignature => Self::InvalidSignature,
            ErrorCode::Unauthorized => Self::Unauthorized,
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::PairingClosed => Self::PairingClosed,
            ErrorCode::RateLimited => Self::RateLimited,
            ErrorCode::PayloadTooLarge => Self::PayloadTooLarge,
            ErrorCode::QueueFull | ErrorCode::BadRequest => Self::BadRequest,
            _ => Self::Internal,
        }
    }
}

label! {
    /// The two classes of delivery (relay-protocol §6.4).
    Class as "class" {
        Live = "live",
        Stored = "stored",
    }
}

label! {
    /// What became of a message. A stored one is counted when it is queued and again when its wait ends.
    Message as "outcome" {
        /// Handed to its connected recipient.
        Delivered = "delivered",
        /// The recipient is not connected, or takes no more for now.
        Offline = "offline",
        /// It is durable.
        Queued = "queued",
        /// Its recipient has proved to have it.
        Confirmed = "confirmed",
        /// It waited for as long as a message may.
        Expired = "expired",
        /// Its recipient or its namespace is gone.
        Dropped = "dropped",
        NotFound = "not_found",
        QueueFull = "queue_full",
        RateLimited = "rate_limited",
        /// The database is as large as it may be.
        NoRoom = "no_room",
        Internal = "internal",
    }
}

impl Message {
    pub(super) fn occurs(class: Class, outcome: Self) -> bool {
        match outcome {
            Self::NotFound | Self::RateLimited => true,
            Self::Delivered | Self::Offline => class == Class::Live,
            _ => class == Class::Stored,
        }
    }
}

label! {
    /// The codes of relay-protocol §12.
    Code as "code" {
        ChallengeTimeout = "challenge_timeout",
        InvalidSignature = "invalid_signature",
        Unauthorized = "unauthorized",
        NotFound = "not_found",
        PairingClosed = "pairing_closed",
        RateLimited = "rate_limited",
        PayloadTooLarge = "payload_too_large",
        QueueFull = "queue_full",
        BadRequest = "bad_request",
        Internal = "internal",
    }
}

impl From<ErrorCode> for Code {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ChallengeTimeout => Self::ChallengeTimeout,
            ErrorCode::InvalidSignature => Self::InvalidSignature,
            ErrorCode::Unauthorized => Self::Unauthorized,
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::PairingClosed => Self::PairingClosed,
            ErrorCode::RateLimited => Self::RateLimited,
            ErrorCode::PayloadTooLarge => Self::PayloadTooLarge,
            ErrorCode::QueueFull => Self::QueueFull,
            ErrorCode::BadRequest => Self::BadRequest,
            _ => Self::Internal,
        }
    }
}

label! {
    /// Where bytes go.
    Direction as "direction" {
        In = "in",
        Out = "out",
    }
}

label! {
    /// What bytes are.
    Kind as "kind" {
        /// Frames on control sockets.
        Control = "control",
        /// Frames on pipes.
        Pipe = "pipe",
    }
}

label! {
    /// How far a pipe has come.
    PipeState as "state" {
        /// One side waits for the other.
        Pending = "pending",
        Streaming = "streaming",
    }
}

label! {
    /// Why a pipe ended.
    PipeEnd as "reason" {
        /// A side ended it.
        Closed = "closed",
        /// Nothing passed for too long.
        Idle = "idle",
        /// A side sent what a pipe does not carry.
        Refused = "refused",
        /// The relay ended it: a member was revoked, or the relay stops.
        Stopped = "stopped",
        /// No partner came in time.
        NoPartner = "no_partner",
        /// The first side went before a partner came.
        Left = "left",
        /// The two sides did not name each other.
        Mismatch = "mismatch",
    }
}

label! {
    /// The limits that were hit, by the name of their setting where there is one.
    Limit as "limit" {
        MaxConnections = "max_connections",
        MaxUnauthenticated = "max_unauthenticated",
        UnauthenticatedPerIp = "unauthenticated_per_ip",
        ConnectionsPerIp = "connections_per_ip_per_minute",
        ConnectionsPerNamespace = "connections_per_namespace_per_minute",
        NewNamespacesPerIp = "new_namespaces_per_ip_per_hour",
        MessagesPerMinute = "messages_per_minute",
        FrameSize = "max_frame_bytes",
        FrameTimeout = "frame_timeout_secs",
        WriteTimeout = "write_timeout_secs",
        IdleTimeout = "idle_timeout_secs",
        QueuePerClient = "queue_per_client",
        Outbox = "outbox_bytes",
        OutboxTotal = "outbox_total_bytes",
        DatabaseSize = "max_database_bytes",
        StoreBacklog = "store_backlog_per_namespace",
        PipesPerNamespace = "pipe_max_per_ns",
    }
}
