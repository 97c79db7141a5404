//! Tests of the entry: every combination of key, value and deadline.

use super::*;
use crate::store::value::Packing;
use crate::time::clock::Deadline;

fn text(entry: &Entry) -> &[u8] {
    entry.string().as_slice()
}

#[test]
fn every_size_of_key_and_value_comes_back() {
    for key_len in [0, 1, 7, 8, 9, 300, 70_000] {
        for value_len in [0, 1, 8, 255, 256, SHARED_MIN - 1, SHARED_MIN, 100_000] {
            for deadline in [None, Some(Deadline::at_wall_ms(5))] {
                let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
                let entry = Entry::text(&key, &value, deadline);
                assert_eq!((entry.key(), text(&entry), entry.deadline()), (&key[..], &value[..], deadline));
            }
        }
    }
}

#[test]
fn a_value_is_replaced_by_shorter_and_longer_ones_with_and_without_deadline() {
    let mut entry = Entry::text(b"key", b"", None);
    for (round, len) in [1, 5, 3, 400, 2, 100, SHARED_MIN, 40, SHARED_MIN * 2, 0].into_iter().enumerate() {
        let value = vec![round as u8; len];
        let deadline = (round % 3 == 0).then(|| Deadline::at_wall_ms(round as i64));
        entry.set_text(&value, deadline, drop);
        assert_eq!((entry.key(), text(&entry), entry.deadline()), (&b"key"[..], &value[..], deadline));
    }
}

#[test]
fn a_string_takes_the_place_of_a_packed_collection() {
    for (packing, deadline) in [(Packing::Listpack, None), (Packing::Other, Some(Deadline::at_wall_ms(5)))] {
        let mut entry = Entry::packed(b"key", Type::Set, packing, &[1; 20], deadline);
        entry.set_text(b"a value of 20 bytes.", deadline, drop);
        assert_eq!((entry.kind(), entry.hint(), entry.deadline()), (Type::String, StringHint::Plain, deadline));
        assert_eq!((entry.key(), text(&entry)), (&b"key"[..], &b"a value of 20 bytes."[..]));
    }
}

#[test]
fn writing_a_range_grows_with_zeros_and_matches_a_plain_vector() {
    let mut entry = Entry::text(b"key", b"abc", Some(Deadline::at_wall_ms(9)));
    let mut model = b"abc".to_vec();
    for (offset, len) in [(1, 1), (5, 2), (7, 300), (0, 4), (1000, 1), (SHARED_MIN, 10), (3, 3), (SHARED_MIN + 10, 50)]
    {
        let patch = vec![b'x'; len];
        model.resize(model.len().max(offset + len), 0);
        model[offset..offset + len].copy_from_slice(&patch);
        entry.write_range(offset, &patch);
        assert_eq!(text(&entry), &model[..]);
        assert_eq!(entry.deadline(), Some(Deadline::at_wall_ms(9)));
    }
}

#[test]
fn a_long_value_survives_renaming_and_a_new_deadline() {
    let long = vec![7; SHARED_MIN];
    let mut entry = Entry::text(b"a", &long, None).with_key(b"another");
    entry.set_deadline(Some(Deadline::at_wall_ms(1)));
    entry.set_deadline(None);
    assert_eq!((entry.key(), text(&entry)), (&b"another"[..], &long[..]));
}

#[test]
fn the_hint_of_a_string_lasts_until_it_is_overwritten() {
    let mut entry = Entry::text(b"a", b"12", None);
    assert_eq!(entry.hint(), StringHint::Plain);
    entry.set_hint(StringHint::NotInt);
    entry.set_deadline(Some(Deadline::at_wall_ms(1)));
    assert_eq!(entry.hint(), StringHint::NotInt);
    for len in [1, 300, SHARED_MIN] {
        entry.write_range(len, b"x");
        assert_eq!((entry.hint(), entry.deadline()), (StringHint::Raw, Some(Deadline::at_wall_ms(1))));
        assert_eq!(entry.copy(b"b").hint(), StringHint::Raw);
    }
    entry = entry.with_key(b"another");
    assert_eq!(entry.hint(), StringHint::Raw);
    entry.set_text(b"3", None, drop);
    assert_eq!(entry.hint(), StringHint::Plain);
    entry.write_range(1, b"4");
    entry.set_text(b"56", None, drop);
    assert_eq!((entry.hint(), text(&entry)), (StringHint::Plain, &b"56"[..]));
}

#[test]
fn a_copy_has_value_and_deadline_and_changes_alone() {
    for len in [0, 5, 300, SHARED_MIN] {
        for deadline in [None, Some(Deadline::at_wall_ms(7))] {
            let value = vec![7; len];
            let mut entry = Entry::text(b"key", &value, deadline);
            let copy = entry.copy(b"other key");
            entry.write_range(0, b"x");
            drop(entry);
            assert_eq!((copy.key(), text(&copy), copy.deadline()), (&b"other key"[..], &value[..], deadline));
        }
    }
}

#[test]
fn editing_a_long_value_leaves_a_reply_that_shares_it_alone() {
    let mut entry = Entry::text(b"a", &vec![1; SHARED_MIN], None);
    let reply = entry.string().to_bytes();
    entry.write_range(0, &[2]);
    assert_eq!((reply[0], text(&entry)[0]), (1, 2));
}

#[test]
fn a_string_that_grows_takes_no_more_than_its_size_class_and_counts_all_of_it() {
    let mut entry = Entry::text(b"a", &[1; SHARED_MIN], None);
    while text(&entry).len() < 1 << 20 {
        entry.write_range(text(&entry).len(), &[2; 700]);
        let (held, len) = (entry.memory(), text(&entry).len());
        assert!(held >= allocation_len(len) && held < allocation_len(len) + 128, "{held} for {len}");
    }
}
