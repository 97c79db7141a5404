//! Random commands on lists, on the ends of sorted sets, and SORT.

use super::generator::Random;
use super::options::*;
use super::shapes::Part;
use super::words::*;

/// Commands, in the form of the common table. Blocking ones wait for a millisecond.
#[rustfmt::skip]
pub(super) const SHAPES: &[(usize, &str, &[Part])] = {
    use ElementPart::*;
    use Part::*;
    &[
        (9, "RPUSH", &[Key, In(Items)]), (5, "LPUSH", &[Key, In(Items)]), (2, "RPUSHX", &[Key, In(Items)]),
        (1, "LPUSHX", &[Key, In(Items)]), (3, "LPOP", &[Key]), (2, "RPOP", &[Key]), (2, "LPOP", &[Key, In(Count)]),
        (2, "RPOP", &[Key, In(Count)]), (2, "LLEN", &[Key]), (5, "LRANGE", &[Key, Integer, Integer]),
        (3, "LINDEX", &[Key, Integer]), (4, "LSET", &[Key, Integer, Value]),
        (4, "LINSERT", &[Key, In(Place), Value, Value]), (4, "LREM", &[Key, In(Count), Value]),
        (2, "LTRIM", &[Key, Integer, Integer]), (4, "LPOS", &[Key, Value, In(PosOptions)]),
        (5, "LMOVE", &[Key, Key, In(Side), In(Side)]), (3, "RPOPLPUSH", &[Key, Key]),
        (3, "LMPOP", &[In(OfKeys), In(Side), In(PopOptions)]),
        (2, "BLPOP", &[Keys, In(Timeout)]), (2, "BRPOP", &[Keys, In(Timeout)]),
        (2, "BLMOVE", &[Key, Key, In(Side), In(Side), In(Timeout)]), (1, "BRPOPLPUSH", &[Key, Key, In(Timeout)]),
        (2, "BLMPOP", &[In(Timeout), In(OfKeys), In(Side), In(PopOptions)]),
        (2, "BZPOPMIN", &[Keys, In(Timeout)]), (1, "BZPOPMAX", &[Keys, In(Timeout)]),
        (2, "BZMPOP", &[In(Timeout), In(OfKeys), End, In(PopOptions)]),
        (3, "SORT", &[Key, In(SortOptions)]), (1, "SORT_RO", &[Key, In(SortOptions)]),
        (3, "SORT", &[Key, In(Alphabetic), In(GetOptions)]), (3, "SORT", &[Key, In(Alphabetic), In(Stored), In(LimitOptions)]),
        (2, "SORT", &[Key, In(Unsorted), In(GetOptions)]), (2, "SORT", &[Key, In(Unsorted), In(Stored), In(LimitOptions)]),
        (if cfg!(feature = "lua") { 6 } else { 0 }, "EVAL", &[In(Rebuild)]),
    ]
};

/// Script that restores the DUMP of a key as another key.
const REBUILD: &[u8] = b"local dump = redis.call('DUMP', KEYS[1]) \
    if dump then redis.call('RESTORE', KEYS[2], 0, dump, 'REPLACE') end";

/// Kinds of arguments of these commands.
#[derive(Clone, Copy)]
pub(super) enum ElementPart {
    Items,
    Count,
    Place,
    PosOptions,
    Side,
    OfKeys,
    PopOptions,
    Timeout,
    SortOptions,
    GetOptions,
    LimitOptions,
    Alphabetic,
    Unsorted,
    Stored,
    Limit,
    By,
    Get,
    Rebuild,
}

const POS_OPTIONS: Options = &[
    ("RANK", Some(Part::In(ElementPart::Count))),
    ("COUNT", Some(Part::In(ElementPart::Count))),
    ("MAXLEN", Some(Part::In(ElementPart::Count))),
    ("FOO", None),
];

const POP_OPTIONS: Options = &[("COUNT", Some(Part::In(ElementPart::Count))), ("COUNT 2", None), ("FOO", None)];

const SORT_OPTIONS: Options = &[
    ("DESC", None),
    ("ASC", None),
    ("LIMIT", Some(Part::In(ElementPart::Limit))),
    ("BY", Some(Part::In(ElementPart::By))),
    ("GET", Some(Part::In(ElementPart::Get))),
    ("GET #", None),
    ("FOO", None),
];

const GET_OPTIONS: Options = &[("GET", Some(Part::In(ElementPart::Get))), ("GET #", None), ("DESC", None)];

const LIMIT_OPTIONS: Options = &[
    ("LIMIT", Some(Part::In(ElementPart::Limit))),
    ("GET", Some(Part::In(ElementPart::Get))),
    ("GET #", None),
    ("DESC", None),
];

impl Random {
    /// Appends an argument, or several.
    pub(super) fn add_element_part(&mut self, part: ElementPart, args: &mut Vec<Vec<u8>>) {
        let word: &[u8] = match part {
            ElementPart::Items => return self.items(args),
            // The smallest number is refused since Redis 7.2.
            ElementPart::Count => self.pick(&[&b"0"[..], b"1", b"-1", b"2", b"-2", b"9223372036854775807", b"x"]),
            ElementPart::Place => self.pick(&[&b"BEFORE"[..], b"AFTER", b"before", b"after", b"UP"]),
            ElementPart::PosOptions => return self.options(POS_OPTIONS, args),
            ElementPart::Side => {
                self.pick(&[&b"LEFT"[..], b"LEFT", b"left", b"RIGHT", b"RIGHT", b"Right", b"RIGHT", b"UP"])
            }
            ElementPart::OfKeys => {
                let count = 1 + self.below(3);
                args.push(self.pick(&[count, count, count, count, 0, 4]).to_string().into_bytes());
                return (0..count).for_each(|_| self.add(Part::Key, args));
            }
            ElementPart::PopOptions => {
                return if self.one_in(2) {
                    self.options(POP_OPTIONS, args)
                };
            }
            ElementPart::Timeout => self.pick(&[&b"0.001"[..], b"0.001", b"1e-3", b"-1", b"x"]),
            ElementPart::SortOptions => return self.options(SORT_OPTIONS, args),
            ElementPart::GetOptions => return self.options(GET_OPTIONS, args),
            ElementPart::LimitOptions => return self.options(LIMIT_OPTIONS, args),
            ElementPart::Alphabetic => b"ALPHA",
            ElementPart::Unsorted => {
                args.push(b"BY".to_vec());
                self.pick(&[&b"nosort"[..], b"k", b""])
            }
            ElementPart::Stored => {
                args.push(b"STORE".to_vec());
                self.pick(KEYS)
            }
            ElementPart::Limit => {
                args.push(self.pick(INTEGERS).to_vec());
                self.pick(INTEGERS)
            }
            ElementPart::By => self.pick(&[&b"*"[..], b"key:*", b"*->f", b"key:*->7", b"{tag}*", b"nosort", b"*->"]),
            ElementPart::Get => self.pick(&[&b"*"[..], b"key:*", b"*->f", b"key:*->7", b"{tag}*", b"k", b"#"]),
            ElementPart::Rebuild => {
                args.extend([REBUILD, b"2"].map(<[u8]>::to_vec));
                return (0..2).for_each(|_| self.add(Part::Key, args));
            }
        };
        args.push(word.to_vec());
    }

    /// Appends a few elements, among them numbers and names of keys, or many.
    fn items(&mut self, args: &mut Vec<Vec<u8>>) {
        let count = if self.one_in(60) { 600 } else { 1 + self.below(4) };
        for _ in 0..count {
            let item = match self.below(4) {
                0 => self.pick(&[&b"k"[..], b"l", b"3", b"4"]).to_vec(),
                1 => self.below(20).to_string().into_bytes(),
                _ => self.value(),
            };
            args.push(item);
        }
    }
}
