//! Replays the fuzzing corpus: every input of `fuzz/corpus` runs through its target once. `fuzz/corpus.sh` packs and
//! unpacks it.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::Dice;

/// Input of the corpus with its name.
struct Input {
    name: String,
    bytes: Vec<u8>,
}

/// Reads the inputs of a target, in the order of their names.
fn inputs(target: &str) -> Vec<Input> {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(format!("{target}.tar.gz"));
    let folder = tempfile::tempdir().expect("a folder");
    let status = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder.path()).status().expect("tar");
    assert!(status.success(), "{} cannot be unpacked", archive.display());
    let files = fs::read_dir(folder.path()).expect("a corpus").map(|entry| entry.expect("an entry"));
    let input = |file: fs::DirEntry| Input {
        name: file.file_name().to_string_lossy().into_owned(),
        bytes: fs::read(file.path()).expect("a file"),
    };
    let mut inputs: Vec<Input> = files.map(input).collect();
    inputs.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!inputs.is_empty(), "no inputs in {}", archive.display());
    inputs
}

/// Runs all inputs of one target, and names a failing one.
fn replay(name: &str) {
    let (_, target) = targets::TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    for input in inputs(name) {
        let outcome = std::panic::catch_unwind(|| target(&input.bytes));
        assert!(outcome.is_ok(), "replay of {name}/{} failed", input.name);
    }
}

/// Runs a target with slight variations of the inputs; `KEYLATCH_INPUTS` is their number.
fn vary(name: &str, count: u64) {
    let (_, target) = targets::TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    let kept: Vec<Vec<u8>> = inputs(name).into_iter().map(|input| input.bytes).collect();
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let mut dice = Dice::new(number("KEYLATCH_SEED", 5));
    for _ in 0..number("KEYLATCH_INPUTS", count) {
        let mut input = kept[dice.roll(kept.len() as u64) as usize].clone();
        for _ in 0..=dice.roll(6) {
            let at = dice.roll(input.len() as u64 + 1) as usize;
            match dice.roll(4) {
                0 if at < input.len() => input[at] = dice.roll(256) as u8,
                1 if at < input.len() => drop(input.remove(at)),
                2 => {
                    let other = &kept[dice.roll(kept.len() as u64) as usize];
                    let from = dice.roll(other.len() as u64 + 1) as usize;
                    input.truncate(at);
                    input.extend_from_slice(&other[from..]);
                }
                _ => input.insert(at, dice.roll(256) as u8),
            }
        }
        let outcome = std::panic::catch_unwind(|| target(&input));
        assert!(outcome.is_ok(), "{name} fails with {}", input.escape_ascii());
    }
}

#[test]
fn inputs_that_resemble_kept_ones_do_no_harm_either() {
    vary("decoder", 1_000);
    vary("restore", 1_000);
    vary("packed", 1_000);
    vary("rdb_file", 500);
    vary("append_only", 3_000);
}

#[test]
fn commands_that_resemble_kept_ones_do_no_harm_either() {
    vary("dispatcher", 40);
}

#[test]
#[cfg(feature = "json")]
fn documents_and_paths_are_refused_or_read_the_same_again() {
    replay("json");
    vary("json", 3_000);
}

#[test]
#[cfg(feature = "vectors")]
fn expressions_of_filters_are_refused_or_have_one_result() {
    replay("filter");
    vary("filter", 3_000);
}

#[test]
#[cfg(feature = "probabilistic")]
fn parts_of_dumps_of_filters_are_refused_or_dumped_again() {
    replay("load_chunk");
    vary("load_chunk", 1_000);
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
fn what_the_rdb_file_fuzzer_kept_is_refused_or_comes_back_in_any_pieces() {
    replay("rdb_file");
}

#[test]
fn what_the_append_only_fuzzer_kept_is_read_the_same_in_any_pieces_up_to_where_it_is_valid() {
    replay("append_only");
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
