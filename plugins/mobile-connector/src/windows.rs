//! Pairing windows as the page sees them: named by a random code, never by the token (spec framing, The QR).
//!
//! Windows live in memory alone. The QR's text bears the token; it is kept while the window is open and dropped with
//! it, so that it reaches no disk, log or URL.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use crate::DeviceKey;

/// How many windows are remembered, so that a page left open still learns what became of its own.
const REMEMBERED: usize = 32;

/// Where a window stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowState {
    /// The code can be scanned.
    Open,
    /// A device used it.
    Paired(DeviceKey),
    /// Its time ran out.
    Expired,
    /// A later window took its place.
    Superseded,
}

impl WindowState {
    /// The word on the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paired(_) => "paired",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
        }
    }
}

struct Window {
    /// What the relay client calls it.
    id: u64,
    code: String,
    expires_at: i64,
    qr: Option<Zeroizing<String>>,
    end: Option<WindowState>,
}

/// The windows of this run, oldest first; only the last can be open.
#[derive(Default)]
pub struct Windows(VecDeque<Window>);

impl Windows {
    /// Enters a window that the relay has opened. An open one before it is superseded, as at the relay
    /// (relay-protocol §9.1).
    pub fn open(&mut self, now: i64, id: u64, code: String, expires_at: i64, qr: Zeroizing<String>) {
        self.settle(now);
        self.end_open(WindowState::Superseded);
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Window { id, code, expires_at, qr: Some(qr), end: None });
    }

    /// Enters that a device has paired through window `id`, perhaps in its last moment: the relay's word may come late,
    /// and its clock is the one that counted. Whether there is such a window.
    pub fn paired(&mut self, id: u64, key: DeviceKey) -> bool {
        match self.0.iter_mut().find(|w| w.id == id) {
            Some(window) if !matches!(window.end, Some(WindowState::Paired(_))) => {
                window.qr = None;
                window.end = Some(WindowState::Paired(key));
                true
            }
            _ => false,
        }
    }

    /// Where the window of this code stands at `now`.
    pub fn state(&mut self, now: i64, code: &str) -> Option<WindowState> {
        self.settle(now);
        self.find(code).map(|w| w.end.unwrap_or(WindowState::Open))
    }

    /// The QR's text while the window is open.
    pub fn qr(&mut self, now: i64, code: &str) -> Option<Zeroizing<String>> {
        self.settle(now);
        self.find(code)?.qr.clone()
    }

    fn find(&self, code: &str) -> Option<&Window> {
        self.0.iter().find(|w| w.code == code)
    }

    fn settle(&mut self, now: i64) {
        if self.0.back().is_some_and(|w| w.expires_at <= now) {
            self.end_open(WindowState::Expired);
        }
    }

    fn end_open(&mut self, end: WindowState) {
        if let Some(window) = self.0.back_mut()
            && window.end.is_none()
        {
            window.qr = None;
            window.end = Some(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: DeviceKey = DeviceKey([7; 32]);

    fn opened(now: i64, code: &str) -> Windows {
        let mut windows = Windows::default();
        windows.open(now, 1, code.into(), now + 300_000, Zeroizing::new("{}".into()));
        windows
    }

    #[test]
    fn a_window_shows_its_picture_only_while_it_is_open() {
        let mut windows = opened(0, "a");
        assert_eq!(windows.state(299_999, "a"), Some(WindowState::Open));
        assert!(windows.qr(299_999, "a").is_some());
        assert_eq!(windows.state(300_000, "a"), Some(WindowState::Expired));
        assert!(windows.qr(300_000, "a").is_none());
        // A clock that goes back does not open it again.
        assert_eq!(windows.state(0, "a"), Some(WindowState::Expired));
        assert_eq!(windows.state(0, "b"), None);
    }

    #[test]
    fn a_later_window_supersedes_the_earlier() {
        let mut windows = opened(0, "a");
        windows.open(1, 2, "b".into(), 300_000, Zeroizing::new("{}".into()));
        assert_eq!(windows.state(2, "a"), Some(WindowState::Superseded));
        assert!(windows.qr(2, "a").is_none());
        assert!(windows.paired(2, KEY));
        assert_eq!(windows.state(2, "b"), Some(WindowState::Paired(KEY)));
        assert!(windows.qr(2, "b").is_none());
        assert_eq!(windows.state(2, "a"), Some(WindowState::Superseded));
    }

    #[test]
    fn one_window_pairs_one_device() {
        let mut windows = opened(0, "a");
        assert!(windows.paired(1, KEY));
        assert!(!windows.paired(1, DeviceKey([8; 32])));
        assert_eq!(windows.state(400_000, "a"), Some(WindowState::Paired(KEY)));
        assert!(!Windows::default().paired(1, KEY));
    }

    #[test]
    fn a_device_that_paired_in_the_last_moment_still_counts() {
        let mut windows = opened(0, "a");
        assert_eq!(windows.state(300_001, "a"), Some(WindowState::Expired));
        assert!(windows.paired(1, KEY));
        assert_eq!(windows.state(300_002, "a"), Some(WindowState::Paired(KEY)));
    }

    #[test]
    fn memory_of_windows_is_bounded() {
        let mut windows = Windows::default();
        for n in 0..100 {
            windows.open(n, n as u64, n.to_string(), n + 300_000, Zeroizing::new("{}".into()));
        }
        assert_eq!(windows.state(100, "0"), None);
        assert_eq!(windows.state(100, "98"), Some(WindowState::Superseded));
        assert_eq!(windows.state(100, "99"), Some(WindowState::Open));
    }
}
