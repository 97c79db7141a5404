//! Tests of the data that a simulated disk keeps and loses.

use std::collections::BTreeSet;

use super::*;
use crate::persist::disk::simulated::faults::PlannedFaults;
use crate::persist::disk::{copy_from, read_small_file, replace_file, write_again_from, write_all};

const SEEDS: u64 = 300;

/// Returns the path of a file in the directory of each test.
fn path(name: &str) -> std::path::PathBuf {
    Path::new("/data").join(name)
}

/// Creates a disk with a durable directory.
fn disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    disk.create_dir(Path::new("/data")).expect("created");
    disk.sync_dir(Path::new("/")).expect("synced");
    disk
}

fn content(disk: &SimulatedDisk, name: &str) -> Option<Vec<u8>> {
    read_small_file(disk, &path(name), u64::MAX).ok()
}

/// Creates a durable file; returns it open.
fn file(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.create(&path(name)).expect("created");
    write_all(&*file, bytes).expect("written");
    file.sync_data().expect("synced");
    disk.sync_dir(Path::new("/data")).expect("synced");
    file
}

/// Runs a life for each seed; returns the different contents of a file after power cuts.
fn found(name: &str, life: impl Fn(&SimulatedDisk)) -> BTreeSet<Option<Vec<u8>>> {
    let run = |seed| {
        let disk = disk(seed);
        life(&disk);
        content(&disk.power_cut(), name)
    };
    (0..SEEDS).map(run).collect()
}

#[test]
fn a_kill_loses_nothing_and_a_power_cut_what_was_not_synced() {
    let write = |disk: &SimulatedDisk| {
        let file = file(disk, "file", b"old");
        write_all(&*file, b"new").expect("written");
    };
    let one = disk(1);
    write(&one);
    assert_eq!(content(&one.kill(), "file").as_deref(), Some(&b"oldnew"[..]));
    let mut found = found("file", write);
    for expected in [&b"old"[..], b"oldnew", b"old\0\0\0"] {
        assert!(found.remove(&Some(expected.to_vec())), "{expected:?} never occurred");
    }
    assert_eq!(found, BTreeSet::new());
}

#[test]
fn a_kill_does_not_make_durable_what_a_power_cut_then_loses() {
    let run = |seed| {
        let disk = disk(seed);
        write_all(&*file(&disk, "file", b"old"), b"new").expect("written");
        content(&disk.kill().power_cut(), "file").map_or(0, |bytes| bytes.len())
    };
    let lens: BTreeSet<usize> = (0..SEEDS).map(run).collect();
    assert_eq!(lens, BTreeSet::from([3, 6]));
}

#[test]
fn pages_reach_the_disk_in_any_order_and_some_are_torn() {
    let pages = found("file", |disk| {
        let file = file(disk, "file", &[]);
        write_all(&*file, &[b'x'; 3 * 4096]).expect("written");
    });
    let has = |test: &dyn Fn(&[u8]) -> bool| pages.iter().flatten().any(|bytes| bytes.len() == 3 * 4096 && test(bytes));
    assert!(has(&|bytes| bytes[0] == 0 && bytes[3 * 4096 - 1] == b'x'), "the last page, but not the first");
    assert!(has(&|bytes| bytes[0] != bytes[4095]), "a torn page");
    assert!(
        pages
            .iter()
            .flatten()
            .all(|bytes| bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])))
    );
}

#[test]
fn a_name_is_durable_only_after_a_sync_of_the_directory_and_the_content_only_after_one_of_the_file() {
    let named = found("file", |disk| {
        let file = disk.create(&path("file")).expect("created");
        write_all(&*file, b"text").expect("written");
        file.sync_data().expect("synced");
    });
    assert_eq!(named, BTreeSet::from([None, Some(b"text".to_vec())]));
    let unsynced = found("file", |disk| {
        write_all(&*disk.create(&path("file")).expect("created"), b"text").expect("written");
        disk.sync_dir(Path::new("/data")).expect("synced");
    });
    assert_eq!(unsynced, BTreeSet::from([Some(Vec::new()), Some(b"\0\0\0\0".to_vec()), Some(b"text".to_vec())]));
}

#[test]
fn names_change_in_any_order_until_their_directory_is_synced() {
    let life = |disk: &SimulatedDisk, syncs: bool| {
        _ = (file(disk, "a", b"a"), file(disk, "b", b"b"));
        disk.rename(&path("a"), &path("b")).expect("renamed");
        disk.link(&path("b"), &path("c")).expect("linked");
        disk.remove(&path("b")).expect("removed");
        if syncs {
            disk.sync_dir(Path::new("/data")).expect("synced");
        }
        let disk = disk.power_cut();
        ["a", "b", "c"].map(|name| content(&disk, name).map(|bytes| bytes[0]))
    };
    let found: BTreeSet<[Option<u8>; 3]> = (0..SEEDS).map(|seed| life(&disk(seed), false)).collect();
    for expected in
        [[Some(b'a'), Some(b'b'), None], [None, Some(b'a'), None], [None, None, Some(b'a')], [Some(b'a'), None, None]]
    {
        assert!(found.contains(&expected), "{expected:?} never occurred");
    }
    assert_eq!(life(&disk(0), true), [None, None, Some(b'a')]);
}

#[test]
fn what_a_failed_sync_has_lost_is_not_saved_by_the_next_one_unless_it_is_written_again() {
    let fail_once = DiskFaults {
        planned: vec![PlannedFaults {
            operation: Some(DiskOperation::Sync),
            file: None,
            after: 0,
            count: 1,
            error: DiskFailure::Io,
        }],
        ..DiskFaults::default()
    };
    let life = |disk: &SimulatedDisk, writes_again: bool| {
        let file = file(disk, "file", b"old");
        write_all(&*file, b"new").expect("written");
        disk.set_faults(fail_once.clone());
        assert_eq!(file.sync_data().expect_err("an error").raw_os_error(), Some(5));
        if writes_again {
            write_again_from(disk, &path("file"), 3).expect("written again");
        }
        file.sync_data().expect("synced");
        assert_eq!(content(disk, "file").as_deref(), Some(&b"oldnew"[..]), "programs see it");
    };
    let lost = found("file", |disk| life(disk, false));
    assert!(lost.len() > 1 && lost.contains(&Some(b"old\0\0\0".to_vec())), "{lost:?}");
    assert_eq!(found("file", |disk| life(disk, true)), BTreeSet::from([Some(b"oldnew".to_vec())]));
}

#[test]
fn a_file_that_was_cut_may_have_its_former_length_and_not_what_was_cut() {
    let cut = found("file", |disk| file(disk, "file", b"abcdef").set_len(2).expect("cut"));
    let expected = [&b"ab"[..], b"ab\0\0\0\0", b"abcdef"].map(|bytes| Some(bytes.to_vec()));
    assert_eq!(cut, BTreeSet::from(expected));
}

#[test]
fn a_full_disk_takes_what_fits_and_fails_then() {
    let disk = disk(1);
    let file = file(&disk, "file", b"0123456789");
    disk.set_faults(DiskFaults { capacity: Some(14), ..DiskFaults::default() });
    assert_eq!(disk.free_space(Path::new("/data")).expect("asked"), 4);
    assert_eq!(file.write(&[IoSlice::new(b"abc"), IoSlice::new(b"def")]).expect("a part"), 4);
    assert_eq!(file.write(&[IoSlice::new(b"ef")]).expect_err("full").raw_os_error(), Some(28));
    assert_eq!(content(&disk, "file").as_deref(), Some(&b"0123456789abcd"[..]));
    file.set_len(10).expect("cut");
    assert_eq!(disk.free_space(Path::new("/data")).expect("asked"), 4);
}

#[test]
fn the_same_seed_gives_the_same_faults_short_writes_and_losses() {
    let life = |seed| {
        let disk = disk(seed);
        disk.set_faults(DiskFaults { per_thousand: 200, short_per_thousand: 300, ..DiskFaults::default() });
        let mut results = Vec::new();
        for number in 0..50 {
            let file = disk.create(&path(&number.to_string()));
            results.push(file.and_then(|file| file.write(&[IoSlice::new(&[b'x'; 100])])).ok());
        }
        let disk = disk.power_cut();
        (results, (0..50).map(|number| content(&disk, &number.to_string())).collect::<Vec<_>>())
    };
    let (results, _) = life(7);
    assert!(results.contains(&None) && results.contains(&Some(100)) && results.iter().flatten().any(|len| *len < 100));
    assert_eq!(life(7), life(7));
    assert_ne!(life(7), life(8));
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all_whenever_the_power_is_cut_or_something_fails() {
    let (old, new) = (vec![b'o'; 6000], vec![b'n'; 9000]);
    for seed in 0..SEEDS {
        let disk = disk(seed);
        file(&disk, "file", &old);
        let plan =
            PlannedFaults { operation: None, file: None, after: seed as usize % 8, count: 1, error: DiskFailure::Full };
        disk.set_faults(DiskFaults { planned: vec![plan], short_per_thousand: 300, ..DiskFaults::default() });
        let replaced = replace_file(&disk, &path("file"), &new);
        let found = content(&disk.power_cut(), "file").expect("never without a file");
        match replaced {
            Ok(()) => assert_eq!(found, new),
            Err(_) => assert!(found == new || found == old),
        }
    }
}

#[test]
fn a_copy_is_durable_with_its_name() {
    let disk = disk(3);
    file(&disk, "file", b"0123456789");
    copy_from(&disk, &path("file"), 7, &path("copy")).expect("copied");
    assert_eq!(content(&disk.power_cut(), "copy").as_deref(), Some(&b"789"[..]));
    assert!(copy_from(&disk, &path("none"), 7, &path("copy")).is_err());
}
