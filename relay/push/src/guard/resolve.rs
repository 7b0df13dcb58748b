//! Looking a name up, and leaving out the addresses that must not be called.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Lists;
use super::address::is_public;

/// The most addresses of one name that are tried.
const ADDRESSES: usize = 16;

/// A way to look names up.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a name.
    async fn addresses(&self, name: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The operating system's.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// A name that leads to no address which may be called.
#[derive(Debug, thiserror::Error)]
#[error("{}", super::NO_PUBLIC_ADDRESS)]
pub(crate) struct NoPublicAddress;

/// The resolver of the guarded client. It gives the very addresses that are then connected to.
pub(super) struct Guarded {
    pub(super) lists: Arc<Lists>,
    pub(super) lookup: Arc<dyn Lookup>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (lists, lookup) = (Arc::clone(&self.lists), Arc::clone(&self.lookup));
        Box::pin(async move {
            let name = name.as_str();
            let found = lookup.addresses(name).await?;
            let private = lists.may_be_private(name);
            let allowed: Vec<_> = found
                .into_iter()
                .filter(|address| private || is_public(*address))
                .take(ADDRESSES)
                .map(|address| (address, 0_u16).into())
                .collect();
            if allowed.is_empty() {
                return Err(NoPublicAddress.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Gives one answer after the other, as a name server does that wants to be called twice.
    struct Answers(Mutex<Vec<Vec<&'static str>>>);

    #[async_trait]
    impl Lookup for Answers {
        async fn addresses(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
            let next = self.0.lock().unwrap().remove(0);
            Ok(next.into_iter().map(|text| text.parse().unwrap()).collect())
        }
    }

    fn guarded(private: &[&str], answers: Vec<Vec<&'static str>>) -> Guarded {
        let private = private.iter().map(|text| text.parse().unwrap()).collect();
        let public = vec!["push.example.org".parse().unwrap()];
        Guarded { lists: Arc::new(Lists { public, private }), lookup: Arc::new(Answers(Mutex::new(answers))) }
    }

    async fn resolved(guarded: &Guarded, name: &str) -> Option<Vec<String>> {
        let addresses = guarded.resolve(name.parse().ok()?).await.ok()?;
        Some(addresses.map(|address| address.ip().to_string()).collect())
    }

    #[tokio::test]
    async fn private_addresses_are_left_out_at_every_lookup() {
        let guarded = guarded(
            &[],
            vec![
                vec!["8.8.8.8", "127.0.0.1", "::ffff:10.0.0.1"],
                vec!["127.0.0.1"],
                vec!["fd00::1", "::1"],
                vec![],
            ],
        );
        assert_eq!(resolved(&guarded, "push.example.org").await.unwrap(), ["8.8.8.8"]);
        for _ in 0..3 {
            assert_eq!(resolved(&guarded, "push.example.org").await, None, "the name has changed its mind");
        }
    }

    #[tokio::test]
    async fn a_host_named_as_private_may_be_at_home_and_no_other() {
        let guarded = guarded(&["ntfy.home:8443"], vec![vec!["192.168.1.5"], vec!["192.168.1.5"]]);
        assert_eq!(resolved(&guarded, "ntfy.home").await.unwrap(), ["192.168.1.5"]);
        assert_eq!(resolved(&guarded, "push.example.org").await, None);
    }
}
