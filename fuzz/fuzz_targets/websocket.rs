#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| skald_relay::compare_framing(bytes));
