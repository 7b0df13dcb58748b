//! Plain ntfy: a generic text and an opaque identifier, never content.
