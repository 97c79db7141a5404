//! Ranges of scores and of members in the arguments of sorted set commands: `(1.5 +inf`, `[a (b`.

use crate::text::until_nul;

/// A range of scores. An end may be infinite, and is included or excluded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScoreRange {
    pub min: ScoreBound,
    pub max: ScoreBound,
}

/// An end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScoreBound {
    /// The score, which is not NaN.
    pub score: f64,
    /// True if the score itself is outside of the range.
    pub is_excluded: bool,
}

impl ScoreBound {
    /// Parses a score, with a `(` before it if it is excluded.
    ///
    /// Redis uses another function here than for scores to store: an empty text is 0, the text ends at its first NUL, a
    /// number out of range is infinite or 0, and hexadecimal numbers are rejected (since 8.0).
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (is_excluded, digits) = match text {
            [b'(', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let score = match until_nul(digits) {
            b"" => 0.0,
            digits => std::str::from_utf8(digits).ok()?.parse().ok().filter(|score: &f64| !score.is_nan())?,
        };
        Some(ScoreBound { score, is_excluded })
    }
}

impl ScoreRange {
    pub(crate) fn parse(min: &[u8], max: &[u8]) -> Option<Self> {
        Some(ScoreRange { min: ScoreBound::parse(min)?, max: ScoreBound::parse(max)? })
    }

    /// Returns true if no score can be in the range.
    pub(crate) fn is_empty(&self) -> bool {
        let ScoreRange { min, max } = self;
        min.score > max.score || min.score == max.score && (min.is_excluded || max.is_excluded)
    }

    /// Returns true if a score is not below the lower end.
    #[inline]
    pub(crate) fn admits_above(&self, score: f64) -> bool {
        if self.min.is_excluded { score > self.min.score } else { score >= self.min.score }
    }

    /// Returns true if a score is not above the upper end.
    #[inline]
    pub(crate) fn admits_below(&self, score: f64) -> bool {
        if self.max.is_excluded { score < self.max.score } else { score <= self.max.score }
    }
}

/// A range of members in the order of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LexRange<'a> {
    pub min: LexBound<'a>,
    pub max: LexBound<'a>,
}

/// An end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LexBound<'a> {
    /// `-`: before all members.
    First,
    /// `[`: this member, included.
    Included(&'a [u8]),
    /// `(`: this member, excluded.
    Excluded(&'a [u8]),
    /// `+`: after all members.
    Last,
}

impl<'a> LexBound<'a> {
    /// Parses an end. As in Redis, text after a NUL that follows `-` or `+` is ignored.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            [b'-'] | [b'-', 0, ..] => Some(LexBound::First),
            [b'+'] | [b'+', 0, ..] => Some(LexBound::Last),
            [b'[', member @ ..] => Some(LexBound::Included(member)),
            [b'(', member @ ..] => Some(LexBound::Excluded(member)),
            _ => None,
        }
    }
}

impl<'a> LexRange<'a> {
    pub(crate) fn parse(min: &'a [u8], max: &'a [u8]) -> Option<Self> {
        Some(LexRange { min: LexBound::parse(min)?, max: LexBound::parse(max)? })
    }

    /// Returns true if no member can be in the range.
    pub(crate) fn is_empty(&self) -> bool {
        use LexBound::{Excluded, First, Included, Last};
        match (self.min, self.max) {
            (Last, _) | (_, First) => true,
            (First, _) | (_, Last) => false,
            (Included(min), Included(max)) => min > max,
            (Included(min) | Excluded(min), Included(max) | Excluded(max)) => min >= max,
        }
    }

    /// Returns true if a member is not before the lower end.
    #[inline]
    pub(crate) fn admits_above(&self, member: &[u8]) -> bool {
        match self.min {
            LexBound::First => true,
            LexBound::Included(min) => member >= min,
            LexBound::Excluded(min) => member > min,
            LexBound::Last => false,
        }
    }

    /// Returns true if a member is not after the upper end.
    #[inline]
    pub(crate) fn admits_below(&self, member: &[u8]) -> bool {
        match self.max {
            LexBound::First => false,
            LexBound::Included(max) => member <= max,
            LexBound::Excluded(max) => member < max,
            LexBound::Last => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_bounds_are_read_as_in_redis_8() {
        let read: &[(&str, f64, bool)] = &[
            ("1.5", 1.5, false),
            ("(1.5", 1.5, true),
            ("-inf", f64::NEG_INFINITY, false),
            ("+inf", f64::INFINITY, false),
            ("(-Infinity", f64::NEG_INFINITY, true),
            ("", 0.0, false),
            ("(", 0.0, true),
            ("1e400", f64::INFINITY, false),
            ("-1e400", f64::NEG_INFINITY, false),
            ("1e-400", 0.0, false),
            (".5", 0.5, false),
            ("5.", 5.0, false),
            ("1\0x", 1.0, false),
            ("\0x", 0.0, false),
        ];
        for (text, score, is_excluded) in read {
            let bound = ScoreBound { score: *score, is_excluded: *is_excluded };
            assert_eq!(ScoreBound::parse(text.as_bytes()), Some(bound), "{text:?}");
        }
        for text in ["a", "[1", "((1", "( 1", " 1", "1 ", "1(", "nan", "(nan", "-nan", "0x10", "1e", "+", "-", "inf1"] {
            assert_eq!(ScoreBound::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn score_ranges_contain_what_lies_between_their_ends() {
        let contained = |min: &str, max: &str| -> (bool, Vec<f64>) {
            let range = ScoreRange::parse(min.as_bytes(), max.as_bytes()).expect("a range");
            let scores = [f64::NEG_INFINITY, -1.0, 0.0, 1.0, f64::INFINITY];
            let is_within = |score: &f64| range.admits_above(*score) && range.admits_below(*score);
            (range.is_empty(), scores.into_iter().filter(is_within).collect())
        };
        assert_eq!(contained("0", "1"), (false, vec![0.0, 1.0]));
        assert_eq!(contained("-0", "(1"), (false, vec![0.0]));
        assert_eq!(contained("(0", "+inf"), (false, vec![1.0, f64::INFINITY]));
        assert_eq!(contained("(-inf", "(inf"), (false, vec![-1.0, 0.0, 1.0]));
        assert_eq!(contained("0", "0"), (false, vec![0.0]));
        assert_eq!(contained("(0", "0"), (true, vec![]));
        assert_eq!(contained("0", "(0"), (true, vec![]));
        assert_eq!(contained("1", "0"), (true, vec![]));
        assert_eq!(ScoreRange::parse(b"0", b"x"), None);
    }

    #[test]
    fn member_ranges_contain_what_lies_between_their_ends() {
        let contained = |min: &str, max: &str| -> (bool, String) {
            let range = LexRange::parse(min.as_bytes(), max.as_bytes()).expect("a range");
            let members = ["", "a", "aa", "b", "c"];
            let is_within =
                |member: &&str| range.admits_above(member.as_bytes()) && range.admits_below(member.as_bytes());
            let members: Vec<&str> = members.into_iter().filter(is_within).collect();
            (range.is_empty(), members.join(","))
        };
        assert_eq!(contained("-", "+"), (false, ",a,aa,b,c".into()));
        assert_eq!(contained("[a", "(b"), (false, "a,aa".into()));
        assert_eq!(contained("(a", "[b"), (false, "aa,b".into()));
        assert_eq!(contained("-", "["), (false, "".into()));
        assert_eq!(contained("(", "+"), (false, "a,aa,b,c".into()));
        assert_eq!(contained("[b", "[b"), (false, "b".into()));
        for (min, max) in [("(b", "[b"), ("[b", "(b"), ("[c", "[a"), ("+", "-"), ("-", "-"), ("+", "+"), ("+", "[z")] {
            assert_eq!(contained(min, max), (true, "".into()), "{min} {max}");
        }
        assert_eq!(LexBound::parse(b"+\0x"), Some(LexBound::Last));
        for text in ["", "a", "-a", "++", " +", "inf"] {
            assert_eq!(LexBound::parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
