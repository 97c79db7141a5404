//! Files of other servers: old files, files of Valkey, and content that cannot be loaded.

use super::*;
use samples::Described;

/// Builds an entry without a deadline, as a reader sees it.
fn seen(key: &[u8], described: Described) -> Seen {
    Seen::Entry(key.to_vec(), described, None, None, 0)
}

fn text(text: &[u8]) -> Described {
    ("string", vec![text.to_vec()])
}

#[test]
fn unknown_files_and_versions_are_refused_by_name() {
    for file in
        [&b""[..], b"REDIS", b"REDIS001", b"RADIS0010\xff", b"REDIS00x0\xff", b"VALKEY08x\xff", b"*3\r\n$3\r\nSET"]
    {
        assert_eq!(refusal(file), "Wrong signature at byte 0 of the RDB file");
    }
    let versions = [("REDIS0000", 0), ("REDIS0016", 16), ("REDIS0080", 80), ("REDIS9999", 9999), ("VALKEY079", 79)];
    for (magic, version) in [&versions[..], &[("VALKEY082", 82), ("VALKEY011", 11)]].concat() {
        let expected = format!("Can't handle RDB format version {version} at byte 0 of the RDB file");
        assert_eq!(refusal(magic.as_bytes()), expected);
    }
    for version in [5, 6, 9, 10, 11, 12, 13, 14, 15] {
        assert_eq!(read_file(&file_of(version, b"\0\x01a\x01b")), [seen(b"a", text(b"b")), Seen::End(true)]);
    }
}

#[test]
fn a_file_before_checksums_ends_without_one() {
    for version in ["REDIS0001", "REDIS0004"] {
        let file =
            [version.as_bytes(), b"\xfe\0\xfd\x01\0\0\0\0\x01a\x01b\x03\x01z\x02\x01m\x031.5\x01n\xff\xff"].concat();
        let score = |score: f64, member: &[u8]| [&score.to_be_bytes()[..], member].concat();
        let mut scores = vec![score(1.5, b"m"), score(f64::NEG_INFINITY, b"n")];
        scores.sort();
        let expected = [
            Seen::Select(0),
            Seen::Entry(b"a".to_vec(), text(b"b"), Some(1000), None, 0),
            seen(b"z", ("sorted set", scores)),
            Seen::End(false),
        ];
        assert_eq!(read_file(&file), expected);
        // With more bytes behind the end, the file is taken for a newer one whose version is damaged.
        let longer = [&file[..], b"12345678"].concat();
        assert!(refusal(&longer).starts_with("Malformed record with opcode 255"));
        let hasher = Hasher::new();
        let (_, error) = read_all(Pieces(&longer, 1), None, options(&hasher, ValueLimits::default()));
        assert!(error.is_some(), "in pieces, too");
    }
}

#[test]
fn deadlines_and_usage_are_those_of_the_next_key_alone() {
    let records = b"\xfd\x02\0\0\0\xf9\x07\0\x01a\x01b\0\x01c\x01d\xfc\xff\xff\xff\xff\xff\xff\xff\xff\0\x01e\x01f";
    let expected = [
        Seen::Entry(b"a".to_vec(), text(b"b"), Some(2000), Some(Usage::Frequency(7)), 0),
        seen(b"c", text(b"d")),
        seen(b"e", text(b"f")),
        Seen::End(true),
    ];
    assert_eq!(read_file(&file_of(VERSION, records)), expected);
}

#[test]
fn what_is_of_no_use_here_is_skipped() {
    let slot = b"\xf4\x40\x64\x05\x80\0\0\0\x07";
    let module = b"\xf7\x81\x01\x02\x03\x04\x05\x06\x07\x08\x02\x01\x01\x05\x03abcd\x04abcdefgh\x05\xc0\x07\x05\x03\xff\xff\xff\0";
    let records = [&slot[..], module, b"\0\x01a\x01b"].concat();
    assert_eq!(read_file(&file_of(VERSION_7_4, &records)), [seen(b"a", text(b"b")), Seen::End(true)]);
    let unknown = [&b"\xf7\x07\x09"[..], &[1; 9]].concat();
    assert!(refusal(&file_of(VERSION, &unknown)).starts_with("Malformed record with opcode 247 at byte 9"));
}

#[test]
fn what_cannot_be_loaded_is_refused_by_name() {
    // "TSDB-TYPE", of time series, with version 3 of its encoding.
    let digits = [19, 18, 3, 1, 62, 19, 24, 15, 4];
    let id = digits.iter().fold(0_u64, |id, digit| id << 6 | digit) << 10 | 3;
    let long_id = [&[0x81][..], &id.to_be_bytes()].concat();
    for of in [6, 7] {
        let record = [&[of][..], b"\x01k", &long_id, &[1; 20]].concat();
        let expected = "Data of the module \"TSDB-TYPE\", which is not supported, at byte 9 of the RDB file";
        let file = file_of(VERSION, &record);
        assert_eq!(refusal(&file), expected);
        let hasher = Hasher::new();
        let (_, error) = read_all(Pieces(&file, 1), None, options(&hasher, ValueLimits::default()));
        assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(expected));
    }
    assert!(refusal(&file_of(VERSION, b"\xf6\x01a")).starts_with("Pre-GA function format"));
    assert!(refusal(&file_of(13, b"\x16\x01a\0")).starts_with("Unknown type or opcode 22"));
    let valkey = |records: &[u8]| seal([b"VALKEY080", records].concat().into());
    assert!(refusal(&valkey(b"\xf3\x01a")).starts_with("An unfinished import of cluster slots"));
    assert!(refusal(&valkey(b"\x18\x01a")).starts_with("Unknown type or opcode 24"));
    assert!(refusal(&valkey(b"\x17\x01a")).starts_with("Unknown type or opcode 23"));
    for (first, name) in [
        (28, "an array of Redis 8.8"),
        (29, "a hash as in DUMP of Redis 8.10"),
        (31, "a hash as in DUMP of Redis 8.10"),
        (33, "a rate limit of Redis 8.8"),
    ] {
        let expected = format!("A value of type {first} ({name}), which is not supported, at byte 9 of the RDB file");
        assert_eq!(refusal(&file_of(15, &[first, 1, b'a', 1, 1, 0])), expected);
        assert!(refusal(&valkey(&[first, 1, b'a', 1])).starts_with(&format!("Unknown type or opcode {first}")));
    }
    assert!(refusal(&valkey(b"\x1a\x01a")).starts_with("Unknown type or opcode 26"));
    assert!(refusal(&valkey(b"\xf2\x01\x01\x01a")).starts_with("Unknown type or opcode 242"));
}

#[test]
fn metadata_of_modules_about_a_key_is_skipped_where_it_may_be() {
    let class = |ignorable: u8| [3 << 3 | ignorable, 245, 196, 40]; // "KMT1", version 3
    let value = b"\x02\x40\xff\x05\x04text\x03abcd\x04abcdefgh\0";
    let records = [&b"\xfd\x01\0\0\0\xf3\x02"[..], &class(1), value, &class(3), b"\0", b"\0\x01a\x01b"].concat();
    let expected = [Seen::Entry(b"a".to_vec(), text(b"b"), Some(1000), None, 0), Seen::End(true)];
    let (file, hasher) = (file_of(13, &records), Hasher::new());
    assert_eq!(read_file(&file), expected);
    let (found, error) = read_all(Pieces(&file, 1), None, options(&hasher, ValueLimits::default()));
    assert!(error.is_none() && found == expected);
    let records = [&b"\xf3\x02"[..], &class(1), value, &class(0), value, b"\0\x01a\x01b"].concat();
    let expected = "Key metadata of modules, of the class \"KMT1\", which is not supported, at byte 9 of the RDB file";
    assert_eq!(refusal(&file_of(13, &records)), expected);
}

#[test]
fn hashes_that_share_the_names_of_their_fields_are_plain_ones() {
    let names = b"\xf2\x07\x02\x01a\x02bb\xf2\x40\x80\x01\xc0\x05";
    let listpack = b"\x1e\x01k\x0f\x0f\0\0\0\x03\0\x07\x01\x82v1\x03\x01\x01\xff";
    let array = b"\xfd\x01\0\0\0\x20\x01l\x07\x05value\xc0\x09\x20\x01m\x40\x80\x03one";
    let file = file_of(15, &[&names[..], listpack, b"\xfe\x01", array].concat());
    let hash = |fields: &[(&str, &str)]| {
        let line = |(field, value): &(&str, &str)| format!("{:?} {:?} None", field.as_bytes(), value.as_bytes());
        let mut lines: Vec<Vec<u8>> = fields.iter().map(line).map(String::into_bytes).collect();
        lines.sort();
        ("hash", lines)
    };
    let expected = [
        seen(b"k", hash(&[("a", "v1"), ("bb", "1")])),
        Seen::Select(1),
        Seen::Entry(b"l".to_vec(), hash(&[("a", "value"), ("bb", "9")]), Some(1000), None, 0),
        seen(b"m", hash(&[("5", "one")])),
        Seen::End(true),
    ];
    for size in [1, 3, usize::MAX] {
        let hasher = Hasher::new();
        let (found, error) = read_all(Pieces(&file, size), None, options(&hasher, ValueLimits::default()));
        assert!(error.is_none(), "{error:?}");
        assert_eq!(found, expected);
    }
    for (records, expected) in [
        (&b"\xf2\x07\x01\x01a\xf2\x07\x01\x01a"[..], "Malformed record with opcode 242 at byte 14"),
        (b"\xf2\x07\x02\x01a\x01a\x20\x01k\x07\x01v\x01v", "Malformed value of type 32 for the key \"k\""),
        (b"\xf2\x07\x01\x01a\x20\x01k\x08\x01v", "Malformed value of type 32 for the key \"k\""),
        (
            b"\xf2\x07\x01\x01a\x1e\x01k\x0d\x0d\0\0\0\x03\0\x07\x01\x01\x01\x01\x01\xff",
            "Malformed value of type 30 for the key \"k\"",
        ),
        (
            b"\xf2\x07\x01\x01a\x1e\x01k\x0c\x0c\0\0\0\x02\0\x81x\x02\x01\x01\xff",
            "Malformed value of type 30 for the key \"k\"",
        ),
    ] {
        assert!(refusal(&file_of(15, records)).starts_with(expected), "{}", refusal(&file_of(15, records)));
    }
}

#[test]
fn the_hashes_of_valkey_have_a_deadline_for_each_field() {
    let hash = [
        &b"\x16\x01h\x03\x01a\x011"[..],
        &(-1_i64).to_le_bytes(),
        b"\x01b\x012",
        &2_000_000_000_000_i64.to_le_bytes(),
        b"\x01c\x013",
        &0_i64.to_le_bytes(),
    ];
    let lines = ["[97] [49] None", "[98] [50] Some(2000000000000)", "[99] [51] Some(1)"];
    let expected = seen(b"h", ("hash", lines.map(|line| line.as_bytes().to_vec()).to_vec()));
    for magic in [b"VALKEY080", b"VALKEY081"] {
        let file = seal([magic, &hash.concat()[..]].concat().into());
        for size in [1, 5, usize::MAX] {
            let hasher = Hasher::new();
            let (found, error) = read_all(Pieces(&file, size), None, options(&hasher, ValueLimits::default()));
            assert!(error.is_none());
            assert_eq!(found, [expected.clone(), Seen::End(true)]);
        }
    }
}

#[test]
fn keys_without_elements_are_skipped_and_take_their_deadline_with_them() {
    let listpack = b"\x07\x07\0\0\0\0\0\xff";
    let ziplist = b"\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff";
    let (eight, no_deadline) = ([0; 8], [0; 8]);
    let bodies: [(u8, Vec<u8>); 17] = [
        (1, vec![0]),
        (2, vec![0]),
        (3, vec![0]),
        (4, vec![0]),
        (5, vec![0]),
        (9, b"\x02\0\xff".to_vec()),
        (10, ziplist.to_vec()),
        (12, ziplist.to_vec()),
        (13, ziplist.to_vec()),
        (14, vec![0]),
        (14, [&b"\x02"[..], ziplist, ziplist].concat()),
        (16, listpack.to_vec()),
        (17, listpack.to_vec()),
        (18, [&b"\x02\x02"[..], listpack, b"\x02", listpack].concat()),
        (20, listpack.to_vec()),
        (24, [&eight[..], &[0]].concat()),
        (25, [&no_deadline[..], listpack].concat()),
    ];
    for (of, body) in bodies {
        let records = [&b"\xfc\x01\0\0\0\0\0\0\0"[..], &[of], b"\x01k", &body, b"\0\x01a\x01b"].concat();
        let file = file_of(VERSION_7_4, &records);
        let expected = [Seen::Skipped(b"k".to_vec()), seen(b"a", text(b"b")), Seen::End(true)];
        assert_eq!(read_file(&file), expected, "type {of}");
        let hasher = Hasher::new();
        let (found, error) = read_all(Pieces(&file, 1), None, options(&hasher, ValueLimits::default()));
        assert!(error.is_none() && found == expected, "type {of}");
    }
    // A damaged value does not count as an empty one.
    assert!(refusal(&file_of(VERSION, b"\x0b\x01k\x08\x02\0\0\0\0\0\0\0")).starts_with("Malformed value of type 11"));
}
