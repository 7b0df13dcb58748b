#![allow(dead_code, reason = "each test file uses its part")]
//! What the tests of every bridge need.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use skald_relay_common::frame::Platform;
use skald_relay_push::http::Roots;
use skald_relay_push::{Content, Push, Token, UnixMillis, WallClock};
use skald_testkit::fakes::Clock;
use skald_testkit::{Authority, Scratch};

/// A wall clock that is set by hand, and an authority that only these tests trust.
pub struct Ground {
    pub scratch: Scratch,
    pub authority: Authority,
    pub roots: Roots,
    millis: Arc<AtomicI64>,
}

impl Ground {
    pub fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        let authority = Authority::open(scratch.join("ca")).unwrap();
        let roots = Roots::load(Some(&authority.certificate())).unwrap();
        let millis = Arc::new(AtomicI64::new(1_800_000_000_000));
        Self { scratch, authority, roots, millis }
    }

    pub fn now(&self) -> UnixMillis {
        UnixMillis(self.millis.load(Ordering::SeqCst))
    }

    pub fn pass_minutes(&self, minutes: i64) {
        self.millis.fetch_add(minutes * 60_000, Ordering::SeqCst);
    }

    pub fn wall(&self) -> WallClock {
        let millis = Arc::clone(&self.millis);
        WallClock::from_fn(move || UnixMillis(millis.load(Ordering::SeqCst)))
    }

    pub fn seconds(&self) -> Clock {
        let millis = Arc::clone(&self.millis);
        Arc::new(move || millis.load(Ordering::SeqCst) / 1000)
    }

    pub fn push(&self, platform: Platform, token: &str) -> Push {
        Push {
            namespace: [1; 32].into(),
            device: [2; 32].into(),
            platform,
            token: Token::new(token.to_owned()),
            expires: UnixMillis(self.now().0 + 3_600_000),
            content: Content::Sealed {
                sender: [3; 32].into(),
                nonce: [4; 12].into(),
                ciphertext: b"sealed"[..].into(),
            },
        }
    }
}
