//! Fixtures for tests alone: relay and host processes, scratch folders and certificates.
