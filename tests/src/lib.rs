//! End to end: the real binaries and a real browser.
