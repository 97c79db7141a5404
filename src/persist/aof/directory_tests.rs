//! Tests of the directory of an append-only file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::persist::aof::directory::AofDir;
use crate::persist::aof::error::AofError;
use crate::persist::aof::truncate::{CutTail, cut_tail};
use crate::persist::disk::simulated::faults::{DiskFailure, DiskFaults, PlannedFaults};
use crate::persist::disk::simulated::{CrashKind, SimulatedDisk};
use crate::persist::disk::{Disk, read_small_file, write_all};
use crate::random::Random;

/// Creates a disk with a durable directory.
fn disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    disk.create_dir(Path::new("/data")).expect("created");
    disk.sync_dir(Path::new("/")).expect("synced");
    disk
}

fn open(disk: &SimulatedDisk) -> Result<AofDir, AofError> {
    AofDir::open(Arc::new(disk.clone()), Path::new("/data"), "aof", "a.aof", false)
}

fn path(name: &str) -> PathBuf {
    Path::new("/data/aof").join(name)
}

fn write(disk: &SimulatedDisk, path: &Path, bytes: &[u8]) {
    let file = disk.create(path).expect("created");
    write_all(&*file, bytes).expect("written");
    file.sync_data().expect("synced");
    disk.sync_dir(crate::persist::disk::parent(path)).expect("synced");
}

fn text(disk: &SimulatedDisk, name: &str) -> String {
    String::from_utf8(read_small_file(disk, &path(name), 100_000).expect("the file")).expect("text")
}

/// Returns the contents of the files in the order in which they are loaded.
fn loaded(disk: &SimulatedDisk) -> String {
    let parts = open(disk).expect("opened").parts().expect("files");
    parts.iter().map(|file| text(disk, &file.part.name)).collect()
}

fn error<T>(result: Result<T, AofError>) -> String {
    result.err().map_or(String::new(), |error| error.to_string())
}

#[test]
fn increments_follow_each_other_and_a_base_makes_history_of_those_before() {
    let disk = disk(1);
    let dir = open(&disk).expect("opened");
    assert!(!dir.has_parts() && dir.increment().is_none());
    for number in 1..=3 {
        assert_eq!(dir.create_increment(false).expect("created").1, number);
    }
    write(&disk, &dir.temporary_base(), b"base");
    dir.install_base(&dir.temporary_base(), true, 3, 55).expect("installed");
    let history = "file a.aof.1.incr.aof seq 1 type h\nfile a.aof.2.incr.aof seq 2 type h\n";
    let (base, last) = ("file a.aof.1.base.rdb seq 1 type b basesize 55\n", "file a.aof.3.incr.aof seq 3 type i\n");
    assert_eq!(text(&disk, "a.aof.manifest"), [base, history, last].concat());
    assert_eq!((dir.remove_history().expect("removed"), dir.remove_history().expect("none")), (2, 0));
    assert_eq!(text(&disk, "a.aof.manifest"), [base, last].concat());
    assert_eq!(disk.len(&path("a.aof.2.incr.aof")).expect("asked"), None);
    let again = open(&disk.power_cut()).expect("opened");
    assert_eq!((again.base_size(), again.increment()), (Some(55), Some(path("a.aof.3.incr.aof"))));
    let parts = again.parts().expect("files");
    assert_eq!(parts.iter().map(|file| (file.len, file.is_last)).collect::<Vec<_>>(), [(4, true), (0, true)]);
    assert_eq!(again.create_increment(false).expect("created").1, 4);
}

#[test]
fn a_detached_increment_is_nothing_until_its_base_is_there() {
    let disk = disk(1);
    write(&disk, Path::new("/data/a.aof"), b"old");
    let dir = open(&disk).expect("opened");
    dir.create_increment(false).expect("created");
    let numbers = [0, 1].map(|_| {
        let (file, number) = dir.create_increment(true).expect("created");
        write_all(&*file, b"new").expect("written");
        assert!(dir.is_detached());
        number
    });
    assert_eq!(disk.len(&path("temp-a.aof.0.incr.aof")).expect("asked"), None);
    assert_eq!(loaded(&disk.kill()), "old");
    write(&disk, &dir.temporary_base(), b"base ");
    dir.install_base(&dir.temporary_base(), false, numbers[1], 0).expect("installed");
    assert_eq!((dir.increment(), dir.is_detached()), (Some(path("a.aof.2.incr.aof")), false));
    let killed = disk.kill();
    assert_eq!(loaded(&killed), "base new");
    assert_eq!(open(&killed).expect("opened").remove_history().expect("removed"), 2);
    assert_eq!(loaded(&killed), "base new");
}

#[test]
fn a_single_file_of_former_times_is_taken_over_whenever_the_power_is_cut() {
    for seed in 0..300 {
        let disk = disk(seed);
        write(&disk, Path::new("/data/a.aof"), b"old");
        let plan =
            PlannedFaults { operation: None, file: None, after: seed as usize % 25, count: 1, error: DiskFailure::Io };
        disk.set_faults(DiskFaults { planned: vec![plan], ..DiskFaults::default() });
        _ = open(&disk); // it may fail
        let found = disk.power_cut();
        assert_eq!(loaded(&found), "old");
        assert_eq!(text(&found, "a.aof.manifest"), "file a.aof seq 1 type b\n");
        assert_eq!(found.len(Path::new("/data/a.aof")).expect("asked"), None);
    }
}

#[test]
fn data_that_is_missing_or_that_nothing_names_is_no_empty_start() {
    let disk = disk(1);
    let dir = open(&disk).expect("opened");
    let (file, _) = dir.create_increment(false).expect("created");
    disk.remove(&path("a.aof.manifest")).expect("removed");
    assert!(!open(&disk).expect("opened").has_parts(), "an increment without a command is no data");
    write_all(&*file, b"x").expect("written");
    let message = "there is no manifest, but /data/aof/a.aof.1.incr.aof: restore the manifest, or move the file away";
    assert_eq!(error(open(&disk)), message);
    write(&disk, &path("a.aof.manifest"), b"file a.aof.1.base.rdb seq 1 type b\n");
    assert_eq!(error(open(&disk)), "/data/aof/a.aof.1.base.rdb is named by the manifest: No such file or directory");
    write(&disk, &path("a.aof.manifest"), b"# ours\nfile\n");
    let message = "cannot read the manifest /data/aof/a.aof.manifest, line 2: Invalid AOF manifest file format";
    assert_eq!(error(open(&disk)), message);
    let long = AofDir::open(Arc::new(disk), Path::new("/data"), "aof", &"x".repeat(1010), false).expect("opened");
    assert!(error(long.create_increment(false)).contains("too long"));
}

#[test]
fn the_manifest_names_whole_files_whenever_the_power_is_cut_or_the_disk_fails() {
    for seed in 0..1500 {
        let (disk, mut random) = (disk(seed), Random::new(seed));
        let dir = open(&disk).expect("opened");
        disk.set_faults(DiskFaults { per_thousand: random.below(2) * 60, ..DiskFaults::default() });
        // The loaded words, in the order of time: each increment has one word, which a later base has, too.
        let (mut words, mut first_listed) = (Vec::new(), 0);
        for number in 0..random.below(12) {
            let word = format!("{number} ");
            let Ok((file, seq)) = dir.create_increment(false) else { continue };
            write_all(&*file, b"").expect("nothing");
            if write_all(&*file, word.as_bytes()).and_then(|()| file.sync_data()).is_err() {
                break;
            }
            words.push(word);
            if random.below(3) == 0 {
                let text = words[..words.len() - 1].concat();
                let file = disk.create(&dir.temporary_base());
                let written = file.and_then(|file| write_all(&*file, text.as_bytes()));
                if written.is_ok() && dir.install_base(&dir.temporary_base(), true, seq, 1).is_ok() {
                    first_listed += 1;
                    _ = dir.remove_history(); // it may fail
                }
            }
        }
        let found = if random.below(3) == 0 { disk.kill() } else { disk.power_cut() };
        let loaded = loaded(&found);
        assert!(loaded.starts_with(&words.concat()), "seed {seed}: {loaded:?} of {words:?}, {first_listed} bases");
        assert_eq!(crate::persist::aof::directory_tests::loaded(&found), loaded, "a second start");
    }
}

#[test]
fn whatever_fails_while_a_detached_increment_is_attached_no_file_is_removed_that_the_manifest_may_have() {
    for after in 0..20 {
        let disk = disk(after as u64);
        let dir = open(&disk).expect("opened");
        let fill = |words: &[u8]| {
            let seq = dir.create_increment(true).expect("created").1;
            write(&disk, &dir.increment().expect("one"), words);
            write(&disk, &dir.temporary_base(), b"base ");
            seq
        };
        let first = fill(b"one");
        dir.install_base(&dir.temporary_base(), true, first, 1).expect("installed");
        let second = fill(b"two");
        let plan = PlannedFaults { operation: None, file: None, after, count: 1, error: DiskFailure::Io };
        disk.set_faults(DiskFaults { planned: vec![plan], ..DiskFaults::default() });
        let installed = dir.install_base(&dir.temporary_base(), true, second, 1);
        disk.set_faults(DiskFaults::default());
        let third = fill(b"three");
        for found in [disk.kill(), disk.power_cut()] {
            let loaded = loaded(&found);
            assert!(loaded == "base two" || loaded == "base one" && installed.is_err(), "after {after}: {loaded}");
        }
        dir.install_base(&dir.temporary_base(), true, third, 1).expect("installed");
        dir.remove_history().expect("removed");
        assert_eq!(loaded(&disk.kill()), "base three");
        let names: Vec<_> = disk.list(Path::new("/data/aof")).expect("a list");
        assert_eq!(names.len(), 3, "after {after}: {names:?}");
    }
}

#[test]
fn a_beginning_that_was_not_finished_is_begun_again_and_a_lost_manifest_is_not_taken_for_one() {
    let count = |after: usize, end: CrashKind| {
        let disk = disk(after as u64);
        let dir = open(&disk).expect("opened");
        let seq = dir.create_increment(true).expect("created").1;
        write(&disk, &dir.temporary_base(), b"base");
        disk.end_after(after, end);
        let installed = dir.install_base(&dir.temporary_base(), true, seq, 1);
        let found = disk.found().unwrap_or_else(|| disk.power_cut());
        for _ in 0..2 {
            let again = open(&found).expect("it is no error");
            assert!(again.has_parts() || installed.is_err() && found.list(&path("")).expect("a list").is_empty());
        }
        installed
    };
    for end in [CrashKind::Kill, CrashKind::PowerCut] {
        assert!((0..40).map(|after| count(after, end)).any(|installed| installed.is_ok()));
    }
    let disk = disk(1);
    let dir = open(&disk).expect("opened");
    write(&disk, &dir.temporary_base(), b"base");
    dir.install_base(&dir.temporary_base(), true, 9, 1).expect("installed");
    disk.remove(&path("a.aof.manifest")).expect("removed");
    assert!(error(open(&disk)).contains("there is no manifest"));
}

#[test]
fn a_torn_tail_is_kept_before_it_is_cut() {
    let (file, now) = (path("a.aof.1.incr.aof"), 1_700_000_000);
    for seed in 0..200 {
        let disk = disk(seed);
        disk.create_dir(Path::new("/data/aof")).expect("created");
        disk.sync_dir(Path::new("/data")).expect("synced");
        write(&disk, &file, b"valid torn");
        assert_eq!(cut_tail(&disk, &file, 10, now).expect("nothing to cut"), None);
        let plan = PlannedFaults {
            operation: None,
            file: None,
            after: seed as usize % 12,
            count: 1,
            error: DiskFailure::Full,
        };
        disk.set_faults(DiskFaults { planned: vec![plan], ..DiskFaults::default() });
        let cut = cut_tail(&disk, &file, 5, now);
        let found = disk.power_cut();
        let kept = read_small_file(&found, &path("a.aof.1.incr.aof.tail-1700000000"), 100);
        match cut {
            Ok(cut) => {
                let kept_in = path("a.aof.1.incr.aof.tail-1700000000");
                assert_eq!(cut, Some(CutTail { kept_in, len: 5 }));
                assert_eq!(
                    (text(&found, "a.aof.1.incr.aof"), kept.expect("kept")),
                    ("valid".to_owned(), b" torn".to_vec())
                );
            }
            Err(_) => assert!(text(&found, "a.aof.1.incr.aof") == "valid torn" || kept.expect("kept") == b" torn"),
        }
    }
    let disk = disk(1);
    open(&disk).expect("opened");
    for number in 0..3 {
        write(&disk, &file, b"xxy");
        let cut = cut_tail(&disk, &file, 2, now).expect("cut").expect("a tail");
        assert_eq!(cut.kept_in.to_string_lossy().ends_with("-1"), number == 1);
    }
    assert!(error(cut_tail(&disk, &path("none"), 2, now)).contains("No such file or directory"));
}
