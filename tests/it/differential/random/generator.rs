//! Generator of commands: chooses a shape and its arguments.

use super::options::*;
use super::shapes::*;
use super::words::*;
use super::{elements, geo, streams};

/// SplitMix64: small, and good enough to choose commands.
pub struct Random(u64);

impl Random {
    /// Starts a sequence that depends only on its seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(super) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Generates a command.
    pub fn command(&mut self) -> Vec<Vec<u8>> {
        if self.one_in(500) {
            return vec![self.pick(&[&b"FLUSHDB"[..], b"FLUSHALL"]).to_vec()];
        }
        let shapes = || SHAPES.iter().chain(elements::SHAPES).chain(geo::SHAPES).chain(streams::SHAPES);
        let mut choice = self.below(shapes().map(|(weight, ..)| weight).sum());
        let (_, name, parts) = shapes()
            .find(|(weight, ..)| {
                let found = choice < *weight;
                choice = choice.wrapping_sub(*weight);
                found
            })
            .expect("the choice is below the sum of the weights");
        let mut args = vec![name.as_bytes().to_vec()];
        parts.iter().for_each(|part| self.add(*part, &mut args));
        let is_strict = STRICT.contains(name);
        match self.below(150) {
            0 if !is_strict => args.push(self.pick(VALUES).to_vec()),
            1 if args.len() > 1 && !is_strict => drop(args.pop()),
            2 => args[0].make_ascii_lowercase(),
            _ => {}
        }
        args
    }

    pub(super) fn add(&mut self, part: Part, args: &mut Vec<Vec<u8>>) {
        let word = match part {
            Part::Key => self.pick(KEYS).to_vec(),
            Part::Value => self.value(),
            Part::Integer => self.pick(INTEGERS).to_vec(),
            Part::Offset => self.pick(OFFSETS).to_vec(),
            Part::RelativeS => self.relative(""),
            Part::RelativeMs => self.relative("000"),
            Part::AbsoluteS => self.absolute(""),
            Part::AbsoluteMs => self.absolute("000"),
            Part::Database => self.pick(&[&b"0"[..], b"0", b"1", b"2", b"16", b"-1", b"x"]).to_vec(),
            Part::BitOffset => self.pick(BIT_OFFSETS).to_vec(),
            Part::Bit => self.pick(&[&b"0"[..], b"0", b"0", b"1", b"1", b"1", b"2", b"x"]).to_vec(),
            Part::BitRange => return self.bit_range(args),
            // An end before the first byte selects nothing, as since Redis 8; in 7.0 it selects the first byte.
            Part::RangeEnd => self.pick(&[&b"0"[..], b"1", b"-1", b"2", b"100", b"9223372036854775807", b"x"]).to_vec(),
            Part::Of(part) => return self.add_stream_part(part, args),
            Part::In(part) => return self.add_element_part(part, args),
            Part::At(part) => return self.add_geo_part(part, args),
            Part::Operator => self.pick(&[&b"AND"[..], b"OR", b"XOR", b"NOT", b"and", b"NAND"]).to_vec(),
            Part::Fields => return self.fields(args),
            Part::Elements => return args.extend((0..self.below(40)).map(|_| self.value())),
            Part::Member => {
                if self.one_in(2) {
                    self.pick(INTEGERS).to_vec()
                } else {
                    self.pick(VALUES).to_vec()
                }
            }
            Part::Members => return self.repeat(&[Part::Member], args),
            Part::All => self.pick(&[&b"1000000"[..], b"9223372036854775807", b"0", b"x"]).to_vec(),
            Part::CountedKeys => {
                let count = 1 + self.below(3);
                args.push(self.pick(&[count, count, count, 0, 4]).to_string().into_bytes());
                (0..count).for_each(|_| self.add(Part::Key, args));
                return if self.one_in(2) {
                    self.options(&[("LIMIT", Some(Part::Integer))], args)
                };
            }
            Part::ElementScan => {
                args.extend(["0", "COUNT", "1000000"].map(|word| word.as_bytes().to_vec()));
                return if self.one_in(2) {
                    self.options(&[("MATCH", Some(Part::Member))], args)
                };
            }
            // Other subcommands change the key in a way that Redis' WATCH misses.
            Part::Inside => self.pick(&[&b"ENCODING"[..], b"DECODE", b"decode", b"NOSUCH"]).to_vec(),
            Part::CopyOptions => return self.options(COPY_OPTIONS, args),
            Part::Dump => self.pick(DUMPS).to_vec(),
            Part::RestoreOptions => return self.options(RESTORE_OPTIONS, args),
            // A small number that was copied has a different reference count.
            Part::Encoding => self.pick(&[&b"ENCODING"[..], b"encoding", b"FREQ"]).to_vec(),
            Part::Keys => return self.repeat(&[Part::Key], args),
            Part::Field => {
                if self.one_in(4) {
                    self.value()
                } else {
                    self.pick(FIELDS).to_vec()
                }
            }
            Part::HashFields => return self.repeat(&[Part::Field], args),
            Part::FieldValues => return self.repeat(&[Part::Field, Part::Value], args),
            Part::AllFields => {
                args.push(b"1000".to_vec());
                if self.one_in(2) {
                    return;
                }
                b"WITHVALUES".to_vec()
            }
            Part::AllMembers => {
                args.push(b"1000".to_vec());
                if self.one_in(2) {
                    return;
                }
                b"WITHSCORES".to_vec()
            }
            Part::Score => self.pick(SCORES).to_vec(),
            Part::ScoreMembers => return self.repeat(&[Part::Score, Part::Field], args),
            Part::AddOptions => return self.options(ADD_OPTIONS, args),
            Part::Bound => {
                let exclusion = self.pick(&["", "", "("]);
                [exclusion.as_bytes(), self.pick(SCORES)].concat()
            }
            Part::RankOptions => return self.options(RANK_OPTIONS, args),
            Part::ScoreOptions => {
                args.push(b"BYSCORE".to_vec());
                return self.options(SCORE_OPTIONS, args);
            }
            Part::End => self.pick(&[&b"MIN"[..], b"MAX", b"max", b"MID"]).to_vec(),
            Part::CombineOptions => return self.options(COMBINE_OPTIONS, args),
            Part::WithScores => return self.options(WITH_SCORES, args),
            Part::AllOfHash => return args.extend(["0", "COUNT", "10000"].map(|word| word.as_bytes().to_vec())),
            Part::Pairs => return self.repeat(&[Part::Key, Part::Value], args),
            Part::SetOptions => return self.options(SET_OPTIONS, args),
            Part::GetexOptions => return self.options(&SET_OPTIONS[4..], args),
            Part::LcsOptions => return self.options(LCS_OPTIONS, args),
            Part::Conditions => return self.options(CONDITIONS, args),
            Part::ScanOptions => {
                args.extend(["0", "COUNT", "1000", "MATCH"].map(|word| word.as_bytes().to_vec()));
                self.pick(KEYS).to_vec()
            }
            Part::Name => {
                args.push(self.pick(&[&b"SETNAME"[..], b"GETNAME", b"getname", b"NOSUCH"]).to_vec());
                if args[1] != b"SETNAME" {
                    return;
                }
                self.pick(&[&b"me"[..], b"", b"a b"]).to_vec()
            }
        };
        args.push(word);
    }

    fn repeat(&mut self, parts: &[Part], args: &mut Vec<Vec<u8>>) {
        for _ in 0..=self.below(3) {
            parts.iter().for_each(|part| self.add(*part, args));
        }
    }

    pub(super) fn options(&mut self, options: Options, args: &mut Vec<Vec<u8>>) {
        let count = self.pick(&[0, 1, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            let (words, part) = self.pick(options);
            args.extend(words.split(' ').map(|word| word.as_bytes().to_vec()));
            part.into_iter().for_each(|part| self.add(part, args));
        }
    }

    fn bit_range(&mut self, args: &mut Vec<Vec<u8>>) {
        // Only valid ranges: an invalid one is rejected before the key is looked up, as since Redis 7.2.
        if self.one_in(3) {
            return;
        }
        let ends = [&b"0"[..], b"1", b"-1", b"2", b"-100", b"100", b"9223372036854775807", b"-9223372036854775808"];
        (0..2).for_each(|_| args.push(self.pick(&ends).to_vec()));
        if self.one_in(2) {
            args.push(self.pick(&[&b"BIT"[..], b"BIT", b"BYTE", b"bit"]).to_vec());
        }
    }

    fn fields(&mut self, args: &mut Vec<Vec<u8>>) {
        let mut push = |words: &[&[u8]]| args.extend(words.iter().map(|word| word.to_vec()));
        for _ in 0..self.below(4) {
            let (kind, offset) = (self.pick(FIELD_TYPES), self.pick(BIT_OFFSETS));
            match self.below(7) {
                0 | 1 => push(&[b"GET", kind, offset]),
                2 | 3 => push(&[b"SET", kind, offset, self.pick(INTEGERS)]),
                4 | 5 => push(&[b"INCRBY", kind, offset, self.pick(INTEGERS)]),
                _ => match self.pick(&[&b"WRAP"[..], b"SAT", b"FAIL", b"NOSUCH"]) {
                    // Without another change, Redis' WATCH would miss that the string has grown.
                    b"FAIL" => push(&[b"OVERFLOW", b"WRAP", b"INCRBY", b"u1", b"0", b"0", b"OVERFLOW", b"FAIL"]),
                    word => push(&[b"OVERFLOW", word]),
                },
            }
        }
    }

    pub(super) fn value(&mut self) -> Vec<u8> {
        match self.below(200) {
            0 => vec![b'x'; 20_000],
            41 => [&b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80"[..], &[self.pick(&[0, 0x41, 0x07]); 12_288]].concat(),
            1..=40 => self.below(1000).to_string().into_bytes(),
            _ => self.pick(VALUES).to_vec(),
        }
    }

    /// Returns a time far from all others, so that GT and LT never depend on the time of the call.
    fn relative(&mut self, unit: &str) -> Vec<u8> {
        if self.one_in(6) {
            self.pick(ODD_TIMES).to_vec()
        } else {
            format!("{}{unit}", 100_000_000 + self.below(1_000_000_000)).into_bytes()
        }
    }

    fn absolute(&mut self, unit: &str) -> Vec<u8> {
        match self.below(6) {
            0 => self.pick(ODD_TIMES).to_vec(),
            1 => b"1".to_vec(),
            _ => format!("{}{unit}", self.pick(&[4_102_444_800_u64, 4_102_444_801, 5_000_000_000])).into_bytes(),
        }
    }
}
