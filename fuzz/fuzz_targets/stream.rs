#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| skald_tests::fuzz::stream(bytes));
