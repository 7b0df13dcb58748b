//! What the plugin must keep away from: Skald itself.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Where Skald is.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Its data folder, which holds its keys.
    pub data: PathBuf,
    /// The address its pages are served at.
    pub listen: Option<SocketAddr>,
}

impl Surroundings {
    /// Refuses Skald's own port as it is written in the settings. A device that reached it would be no device there but
    /// a stranger on this computer, past what holds for devices.
    pub(crate) fn refuse_own(&self, host: &str, port: u16) -> Result<(), String> {
        let local = host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|ip| {
                let ip = ip.to_canonical();
                ip.is_loopback() || ip.is_unspecified() || self.listen.is_some_and(|own| own.ip() == ip)
            });
        if local && self.listen.is_some_and(|own| own.port() == port) {
            return Err(format!(
                "{port} is Skald's own port, and devices reach Skald's page by `skald-phone proxy`, which knows them; name another port."
            ));
        }
        Ok(())
    }

    /// Whether a connection that was just made leads to Skald: by the address of this computer that it goes out from,
    /// which is the one it goes to where both are this computer.
    pub(crate) fn is_own(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let (from, ip) = (from.ip().to_canonical(), to.ip().to_canonical());
        self.listen
            .is_some_and(|own| own.port() == to.port() && (ip.is_loopback() || ip == from || ip == own.ip()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skalds_own_port_is_known_under_every_name_of_this_computer() {
        let around = Surroundings { data: PathBuf::new(), listen: Some("192.168.0.2:8787".parse().unwrap()) };
        for host in
            ["localhost", "127.0.0.1", "127.8.9.1", "::1", "0.0.0.0", "192.168.0.2", "::ffff:127.0.0.1"]
        {
            assert!(around.refuse_own(host, 8787).is_err(), "{host}");
            assert!(around.refuse_own(host, 8788).is_ok(), "{host}");
        }
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(around.is_own(address("127.0.0.1:5"), address("127.0.0.1:8787")));
        assert!(around.is_own(address("10.0.0.7:5"), address("10.0.0.7:8787")));
        assert!(!around.is_own(address("10.0.0.7:5"), address("10.0.0.8:8787")));
        assert!(!around.is_own(address("127.0.0.1:5"), address("127.0.0.1:8788")));
    }
}
