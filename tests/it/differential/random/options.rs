//! Options of the generated commands: words with their arguments.

use super::shapes::Part;

/// Words with their arguments.
pub(super) type Options = &'static [(&'static str, Option<Part>)];

pub(super) const SET_OPTIONS: Options = &[
    ("NX", None),
    ("XX", None),
    ("GET", None),
    ("KEEPTTL", None),
    ("PERSIST", None),
    ("EX", Some(Part::RelativeS)),
    ("PX", Some(Part::RelativeMs)),
    ("EXAT", Some(Part::AbsoluteS)),
    ("PXAT", Some(Part::AbsoluteMs)),
];

pub(super) const ADD_OPTIONS: Options =
    &[("NX", None), ("XX", None), ("GT", None), ("LT", None), ("CH", None), ("CH", None), ("INCR", None)];

pub(super) const RANK_OPTIONS: Options = &[("REV", None), ("WITHSCORES", None), ("WITHSCORES", None)];

pub(super) const SCORE_OPTIONS: Options =
    &[("REV", None), ("WITHSCORES", None), ("LIMIT 1", Some(Part::Integer)), ("LIMIT 0", Some(Part::Integer))];

/// Options of combinations. No weight makes a score -0, which is stored as 0, as since Redis 7.2.
pub(super) const COMBINE_OPTIONS: Options = &[
    ("WEIGHTS 2", None),
    ("WEIGHTS 2 0.5", None),
    ("WEIGHTS inf x", None),
    ("AGGREGATE MIN", None),
    ("AGGREGATE MAX", None),
    ("WITHSCORES", None),
];

pub(super) const WITH_SCORES: Options = &[("WITHSCORES", None)];

pub(super) const LCS_OPTIONS: Options =
    &[("LEN", None), ("IDX", None), ("WITHMATCHLEN", None), ("MINMATCHLEN", Some(Part::Integer)), ("IDX", None)];

pub(super) const COPY_OPTIONS: Options =
    &[("REPLACE", None), ("REPLACE", None), ("DB", Some(Part::Database)), ("FOO", None)];

/// Redis' dumps: of a short string, an integer and a long string; a damaged one; of a list, a set of integers, another
/// set, a hash, a sorted set, and a stream with a group, whose last entry was deleted.
pub(super) const DUMPS: &[&[u8]] = &[
    b"\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17",
    b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5",
    b"\x00\xc3\t<\x01aa\xe0/\x00\x01aa\n\x00\xa6~\x08\xb2\x17\xd0\x97\x80",
    b"\x00\x03baz\n\x00\xe6\xbeI`\xeef\xfd\x17",
    b"\x12\x01\x02\x15\x15\x00\x00\x00\x04\x00\x81a\x02\x07\x01\x80\x01\x85hello\x06\xff\n\x00/\x05\x01\x85g\x05\xa4>",
    b"\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\x00,\x01\n\x00\xe5\x10\xb2\x8e{\x95)\xaa",
    b"\x02\x03\x01b\x01a\xc0\x07\n\x00E\x1d0 U\x9b\x1c\xb0",
    b"\x10\x11\x11\x00\x00\x00\x04\x00\x81f\x02\x81v\x02\x07\x01\x01\x01\xff\n\x00\x7f\xd9\x80\xa9\xc7\xcf\\\xa0",
    b"\x11\x1b\x1b\x00\x00\x00\x06\x00\x81f\x02\x01\x01\x81g\x02\x832.5\x04\x07\x01\x83inf\x04\xff\n\x00\x86)@\xff\x81\x15X\xcb",
    b"\x13\x01\x10\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x01\xc3.3\x063\x00\x00\x00\x13\x00\x01`\
      \x00\x07\x81k\x02\x00\x01\x02\x01\x00 \x01\x03\x81v\x02\x04 \x13@\x0c\x00\x02@\x17 \x0f\x08\x81l\x02\x81w\x02\
      \x08\x01\xff\x01\x05\x01\x03\x01\x05\x01\x02\x01\x01g\x03\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\
      \x00\x00\x00\x00\x00\x01\nMX\x04\xa2\x01\x00\x00\x01\x01\x01h\nMX\x04\xa2\x01\x00\x00\x01\x00\x00\x00\x00\x00\
      \x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x01\n\x00\x81\xd0'j\xa0\x9dX\xb6",
];

pub(super) const RESTORE_OPTIONS: Options = &[
    ("REPLACE", None),
    ("REPLACE", None),
    ("REPLACE", None),
    ("ABSTTL", None),
    ("IDLETIME", Some(Part::Integer)),
    ("FREQ", Some(Part::Integer)),
];

pub(super) const CONDITIONS: Options = &[("NX", None), ("XX", None), ("GT", None), ("LT", None)];
