//! The clock and the randomness, in one place: everything below takes them as arguments.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix milliseconds.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// The operating system's randomness is not available.
#[derive(Debug)]
pub(crate) struct NoRandomness;

/// Fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut out = [0u8; N];
    getrandom::fill(&mut out).map_err(|_| NoRandomness)?;
    Ok(out)
}

/// A number in `0.0..1.0` for jitter. Without randomness there is none, which harms nothing.
pub(crate) fn unit() -> f64 {
    random::<4>().map_or(0.5, |b| f64::from(u32::from_le_bytes(b)) / (f64::from(u32::MAX) + 1.0))
}
