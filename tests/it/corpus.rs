//! Replays the fuzzing corpus: every input of `fuzz/corpus` runs through its target once.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::path::Path;

/// Runs all inputs of one target, and names the one that fails.
fn replay(name: &str) {
    let (_, target) = targets::TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut inputs: Vec<_> =
        fs::read_dir(&folder).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "no inputs in fuzz/corpus/{name}");
    for path in inputs {
        let input = fs::read(&path).expect("a file");
        let outcome = std::panic::catch_unwind(|| target(&input));
        assert!(outcome.is_ok(), "replay of {name}/{} failed", path.file_name().unwrap_or_default().display());
    }
}

#[test]
fn every_split_of_what_the_decoder_fuzzer_kept_reads_the_same() {
    replay("decoder");
}

#[test]
fn what_the_command_fuzzer_kept_harms_no_server() {
    replay("dispatcher");
}

#[test]
fn what_the_config_fuzzer_kept_is_refused_or_read_the_same_again() {
    replay("config");
}

#[test]
fn what_the_restore_fuzzer_kept_is_refused_or_comes_back() {
    replay("restore");
}

#[test]
fn what_the_packed_fuzzer_kept_is_refused_or_reads_the_same_both_ways() {
    replay("packed");
}

#[test]
fn what_the_acl_fuzzer_kept_makes_no_user_that_cannot_be_read_again() {
    replay("acl");
}

#[test]
#[cfg(feature = "lua")]
fn what_the_script_fuzzer_kept_leaves_the_sandbox_as_it_was() {
    replay("script");
}
