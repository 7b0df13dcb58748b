//! The gateway that runs bridges for other relays, and the bridge to one.
