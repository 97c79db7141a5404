#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| keylatch_fuzz::load_chunk(data));
