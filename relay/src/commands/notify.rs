//! Telling the service manager how the program is doing (`sd_notify`).

/// Sends one state, such as `READY=1`, to the service manager if it has asked to be told. A manager that cannot be
/// reached is no reason not to serve.
#[cfg(target_os = "linux")]
pub fn tell(state: &str) {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = (|| {
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)
    })();
    if let Err(error) = sent {
        tracing::warn!(%error, state, "the service manager could not be told");
    }
}

/// There is no such manager here.
#[cfg(not(target_os = "linux"))]
pub fn tell(_state: &str) {}
