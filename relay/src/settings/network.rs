//! A network in CIDR notation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An address range such as `10.0.0.0/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

/// Text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address nor a network such as 10.0.0.0/8")]
pub struct NetworkError(String);

impl Network {
    /// Whether the address is inside.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(it)) => {
                same(base.to_bits().into(), it.to_bits().into(), 32, self.prefix)
            }
            (IpAddr::V6(base), IpAddr::V6(it)) => same(base.to_bits(), it.to_bits(), 128, self.prefix),
            _ => false,
        }
    }
}

fn same(a: u128, b: u128, width: u32, prefix: u8) -> bool {
    let shift = width - u32::from(prefix);
    // A shift by the whole width is what /0 means, and overflows the operator.
    a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
}

impl FromStr for Network {
    type Err = NetworkError;
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let base = address.parse::<IpAddr>().map_err(|_| wrong())?;
        let width = if base.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(width);
        if prefix > width { Err(wrong()) } else { Ok(Self { base, prefix }) }
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;
    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membership_follows_the_prefix() {
        let ten: Network = "10.0.0.0/8".parse().unwrap();
        assert!(ten.contains("10.200.3.4".parse().unwrap()));
        assert!(ten.contains("::ffff:10.1.1.1".parse().unwrap()));
        assert!(!ten.contains("11.0.0.1".parse().unwrap()));
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("203.0.113.9".parse().unwrap()));
        assert!(!all.contains("2001:db8::1".parse().unwrap()));
        let one: Network = "::1".parse().unwrap();
        assert!(one.contains("::1".parse().unwrap()) && !one.contains("::2".parse().unwrap()));
        assert!("10.0.0.0/33".parse::<Network>().is_err() && "tea".parse::<Network>().is_err());
    }
}
