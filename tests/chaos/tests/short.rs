//! A short run of the chaos. The long one is `cargo xtask chaos`.

use std::path::PathBuf;

use anyhow::Result;
use skald_chaos::Options;
use skald_testkit::{Rng, binary};

#[test]
fn every_accepted_message_arrives_once_and_in_order_whatever_is_killed_or_cut() -> Result<()> {
    let options = Options {
        seed: Rng::from_env(20_261).seed(),
        messages: 2_000,
        namespaces: 2,
        devices: 2,
        relay: binary("skald-relay")?,
        program: PathBuf::from(env!("CARGO_BIN_EXE_skald-chaos")),
        keep: None,
        talk: false,
    };
    println!("{}", skald_chaos::run(options)?);
    Ok(())
}
