//! Files, logs and local ports for paired devices.
