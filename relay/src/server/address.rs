//! Who is calling, and whether the way is encrypted (relay-server "TLS").

use std::net::IpAddr;

use http::HeaderMap;

use crate::settings::Network;

/// The address that counts for quotas: the TCP peer, or behind trusted proxies the rightmost entry of
/// `X-Forwarded-For` that is not a trusted proxy itself. Entries further left are the caller's own invention.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut address = peer.to_canonical();
    if !is_trusted(address) {
        return address;
    }
    let values: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
    for value in values.into_iter().rev() {
        for entry in value.to_str().unwrap_or("").rsplit(',') {
            let Some(next) = parse(entry.trim()) else { return address };
            address = next;
            if !is_trusted(address) {
                return address;
            }
        }
    }
    address
}

/// Whether a trusted proxy says that the caller came over TLS.
pub(crate) fn came_over_tls(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> bool {
    let trusted = trusted.iter().any(|network| network.contains(peer));
    let last = headers.get_all("x-forwarded-proto").iter().next_back();
    let proto = last.and_then(|value| value.to_str().ok()).and_then(|text| text.rsplit(',').next());
    trusted && proto.is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https"))
}

/// An address as proxies write it: with or without a port, IPv6 with or without brackets.
fn parse(text: &str) -> Option<IpAddr> {
    let address = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
        .or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok())?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(forwarded: &[&str], proto: Option<&str>) -> HeaderMap {
        let mut map = HeaderMap::new();
        for value in forwarded {
            map.append("x-forwarded-for", value.parse().unwrap());
        }
        if let Some(value) = proto {
            map.append("x-forwarded-proto", value.parse().unwrap());
        }
        map
    }

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let trusted = ["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
        client_address(peer.parse().unwrap(), &headers(forwarded, None), &trusted).to_string()
    }

    #[test]
    fn a_stranger_cannot_choose_its_address() {
        assert_eq!(client("203.0.113.7", &["198.51.100.1"]), "203.0.113.7");
    }

    #[test]
    fn the_rightmost_untrusted_entry_counts() {
        assert_eq!(client("10.0.0.1", &["1.1.1.1, 203.0.113.9, 10.0.0.2"]), "203.0.113.9");
        assert_eq!(client("10.0.0.1", &["1.1.1.1", "203.0.113.9:4711"]), "203.0.113.9");
        assert_eq!(client("::1", &["[2001:db8::5]:80"]), "2001:db8::5");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["nonsense, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(client("::ffff:10.0.0.1", &["203.0.113.9"]), "203.0.113.9");
    }

    #[test]
    fn only_a_trusted_proxy_vouches_for_tls() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let said = |peer: &str, proto| came_over_tls(peer.parse().unwrap(), &headers(&[], proto), &trusted);
        assert!(said("10.0.0.1", Some("https")));
        assert!(!said("10.0.0.1", Some("http")));
        assert!(!said("10.0.0.1", Some("https, http")));
        assert!(!said("10.0.0.1", None));
        assert!(!said("203.0.113.1", Some("https")));
    }
}
