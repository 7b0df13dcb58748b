//! A blind relay between one person's agent and devices.
