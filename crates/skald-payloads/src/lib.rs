//! Typed end-to-end payloads and display blocks.
