//! The options of the generator's commands: words, and what follows each.

use super::Part;

pub(super) const SET_OPTIONS: &[(&str, Option<Part>)] = &[
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

pub(super) const ADD_OPTIONS: &[(&str, Option<Part>)] =
    &[("NX", None), ("XX", None), ("GT", None), ("LT", None), ("CH", None), ("CH", None), ("INCR", None)];

pub(super) const RANK_OPTIONS: &[(&str, Option<Part>)] = &[("REV", None), ("WITHSCORES", None), ("WITHSCORES", None)];

pub(super) const SCORE_OPTIONS: &[(&str, Option<Part>)] =
    &[("REV", None), ("WITHSCORES", None), ("LIMIT 1", Some(Part::Integer)), ("LIMIT 0", Some(Part::Integer))];

/// No weight makes a score -0, which is stored as 0, as since Redis 7.2.
pub(super) const COMBINE_OPTIONS: &[(&str, Option<Part>)] = &[
    ("WEIGHTS 2", None),
    ("WEIGHTS 2 0.5", None),
    ("WEIGHTS inf x", None),
    ("AGGREGATE MIN", None),
    ("AGGREGATE MAX", None),
    ("WITHSCORES", None),
];

pub(super) const WITH_SCORES: &[(&str, Option<Part>)] = &[("WITHSCORES", None)];

pub(super) const LCS_OPTIONS: &[(&str, Option<Part>)] =
    &[("LEN", None), ("IDX", None), ("WITHMATCHLEN", None), ("MINMATCHLEN", Some(Part::Integer)), ("IDX", None)];

pub(super) const COPY_OPTIONS: &[(&str, Option<Part>)] =
    &[("REPLACE", None), ("REPLACE", None), ("DB", Some(Part::Database)), ("FOO", None)];

/// Redis' dumps of a short string, an integer and a long string; then a damaged one.
pub(super) const DUMPS: &[&[u8]] = &[
    b"\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17",
    b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5",
    b"\x00\xc3\t<\x01aa\xe0/\x00\x01aa\n\x00\xa6~\x08\xb2\x17\xd0\x97\x80",
    b"\x00\x03baz\n\x00\xe6\xbeI`\xeef\xfd\x17",
];

pub(super) const RESTORE_OPTIONS: &[(&str, Option<Part>)] = &[
    ("REPLACE", None),
    ("REPLACE", None),
    ("REPLACE", None),
    ("ABSTTL", None),
    ("IDLETIME", Some(Part::Integer)),
    ("FREQ", Some(Part::Integer)),
];

pub(super) const CONDITIONS: &[(&str, Option<Part>)] = &[("NX", None), ("XX", None), ("GT", None), ("LT", None)];
