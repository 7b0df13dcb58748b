//! Which devices may use a kind of stream, and how many streams at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skald_core_api::DevicePeer;

/// Digits of a key that name a device. Fewer could be met by a key made for the purpose.
const LEAST_DIGITS: usize = 16;

/// The devices that may.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Allowed(Vec<String>);

impl Allowed {
    /// Reads one device a line: its key or the first 16 digits of it, and after a space whatever helps to know it by.
    /// Names alone are not enough: a device chooses its own, and may choose another's.
    pub(crate) fn read(lines: &[String]) -> Result<Self, String> {
        let mut keys = Vec::new();
        for line in lines {
            let key: String = line.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
            let digits = key.bytes().all(|b| b.is_ascii_hexdigit());
            if !digits || !(LEAST_DIGITS..=64).contains(&key.len()) {
                return Err(
                    "Write one device a line: its key from the Devices page (at least the first 16 digits), then anything that helps you to know it by. A name alone is not enough, for devices choose theirs."
                        .into(),
                );
            }
            keys.push(key);
        }
        Ok(Self(keys))
    }

    /// Whether a device may. An empty list lets every admitted device.
    pub(crate) fn may(&self, peer: &DevicePeer) -> bool {
        let key = peer.key.to_ascii_lowercase();
        self.0.is_empty() || self.0.iter().any(|allowed| key.starts_with(allowed.as_str()))
    }
}

/// Streams under way, in all and by device.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    most: usize,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// One stream's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    key: String,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

impl Places {
    /// At most `most` at once.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// A place, if one is free. One device leaves at least one place to the others.
    pub(crate) fn take(&self, peer: &DevicePeer) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(&peer.key).copied().unwrap_or(0);
        if all >= self.most || own >= self.most.saturating_sub(1).max(1) {
            return None;
        }
        taken.insert(peer.key.clone(), own + 1);
        Some(Place { key: peer.key.clone(), taken: self.taken.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(digit: &str) -> DevicePeer {
        DevicePeer { key: digit.repeat(64), name: "Phone".into() }
    }

    #[test]
    fn a_device_is_known_by_its_key_and_never_by_the_name_it_chose() {
        let (a, b) = (peer("a"), peer("b"));
        assert!(Allowed::default().may(&a));
        let allowed = Allowed::read(&[format!("{}  Anna's phone", "A".repeat(16))]).unwrap();
        assert!(allowed.may(&a) && !allowed.may(&b));
        let whole = Allowed::read(&["b".repeat(64)]).unwrap();
        assert!(whole.may(&b) && !whole.may(&a));
        for bad in ["Phone", "", "aaaa", "abcdefabcdefabc", &"a".repeat(65)] {
            assert!(Allowed::read(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_device_cannot_take_every_place() {
        let places = Places::new(3);
        let first: Vec<_> = (0..2).map(|_| places.take(&peer("a")).unwrap()).collect();
        assert!(places.take(&peer("a")).is_none());
        let other = places.take(&peer("b")).unwrap();
        assert!(places.take(&peer("b")).is_none());
        drop(first);
        assert!(places.take(&peer("a")).is_some() && places.take(&peer("b")).is_some());
        drop(other);
        assert!(Places::new(1).take(&peer("a")).is_some());
    }
}
