//! The pipe's cipher alone: AES-256-GCM of *ring*, as the ends use it, beside the RustCrypto implementation.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, anyhow};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use skald_e2e::pipe::{EphemeralKey, PipeOpener, PipeRole, PipeSealer};
use skald_relay_common::ids::ConnectionId;

use crate::rows::Row;
use crate::{Bench, Scenario};

/// Measures seal and open.
pub const SCENARIO: Scenario = Scenario { name: "cipher", title: "Sealing and opening, one core", run };

const KIB: usize = 1024;
const SIZES: [(&str, usize); 4] =
    [("16 KiB", 16 * KIB), ("64 KiB", 64 * KIB), ("256 KiB", 256 * KIB), ("1 MiB", 1024 * KIB)];

fn run(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, size) in SIZES {
        let seconds = bench.seconds / 6.0;
        let (seal, open) = pipe(size, seconds)?;
        let (bare_seal, bare_open) = bare(size, seconds)?;
        let row = |what: &str, value| Row::new(SCENARIO.name, format!("{what} {name}"), value, "MB/s");
        rows.push(row("seal", seal).against("ring, bare", bare_seal));
        rows.push(row("open", open).against("ring, bare", bare_open));
    }
    Ok(rows)
}

/// A pair of halves that belong together.
fn halves() -> Result<(PipeSealer, PipeOpener)> {
    let (one, other) = (EphemeralKey::take(&mut [1; 32]), EphemeralKey::take(&mut [2; 32]));
    let (one_public, other_public) = (one.public(), other.public());
    let id = ConnectionId::from_bytes([3; 32]);
    let (sealer, _) = one.agree(&other_public)?.into_ciphers(PipeRole::Initiator, id);
    let (_, opener) = other.agree(&one_public)?.into_ciphers(PipeRole::Responder, id);
    Ok((sealer, opener))
}

/// Megabytes a second of sealing and of opening as a pipe does both.
pub fn pipe(size: usize, seconds: f64) -> Result<(f64, f64)> {
    let (mut sealer, mut opener) = halves()?;
    let mut frame = vec![7; size];
    let (mut sealing, mut opening, mut bytes) = (0.0, 0.0, 0.0);
    while sealing + opening < seconds {
        let began = Instant::now();
        sealer.seal_in_place(&mut frame)?;
        let sealed = Instant::now();
        let len = opener.open_in_place(&mut frame)?;
        opening += sealed.elapsed().as_secs_f64();
        sealing += (sealed - began).as_secs_f64();
        frame.truncate(black_box(len));
        bytes += size as f64;
    }
    Ok((bytes / sealing / 1e6, bytes / opening / 1e6))
}

/// The library without anything around it.
fn bare(size: usize, seconds: f64) -> Result<(f64, f64)> {
    let broken = |_| anyhow!("the cipher refused");
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[5; 32]).map_err(broken)?);
    let mut frame = vec![7; size];
    let (mut sealing, mut opening, mut bytes, mut counter) = (0.0, 0.0, 0.0, 0u64);
    while sealing + opening < seconds {
        counter += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&counter.to_be_bytes());
        let began = Instant::now();
        let tag =
            key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut frame);
        frame.extend_from_slice(tag.map_err(broken)?.as_ref());
        let sealed = Instant::now();
        let opened = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut frame);
        let len = opened.map_err(broken)?.len();
        opening += sealed.elapsed().as_secs_f64();
        sealing += (sealed - began).as_secs_f64();
        frame.truncate(black_box(len));
        bytes += size as f64;
    }
    Ok((bytes / sealing / 1e6, bytes / opening / 1e6))
}
