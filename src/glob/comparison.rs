//! The comparison of a text with a pattern, which may be done in parts.
//!
//! The stars divide a pattern into segments, whose elements match one byte of the text each. The first segment is at
//! the text's beginning, the last one at its end, and each other one at its first occurrence after the one before: a
//! later occurrence would leave less of the text to the rest.
//!
//! A literal is found in linear time. Any other segment is compared byte by byte with each position, until that has
//! taken too long, and then with many positions at once: each element with the bytes at all of these positions, which
//! the compiler vectorises.

use memchr::memmem;

use crate::glob::{ClassPart, Pattern, bounds, folded, is_negated, read_class, same};

/// Number of positions with which a segment is compared at once.
const PLACES: usize = 256;

/// Cost of comparing an element with [`PLACES`] bytes, in steps; a step is a comparison of two bytes.
const STEPS_PER_ELEMENT: usize = PLACES / 16;

/// Number of bytes searched for a literal, or skipped in a pattern, in the time of a step.
const BYTES_PER_STEP: usize = 8;

/// Number of steps, in addition to [`STEPS_PER_PLACE`], after which a segment is compared with many positions at once.
const STEPS_ALONE: usize = 1024;
const STEPS_PER_PLACE: usize = 8;

/// State of the comparison of a text with a pattern.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Start of the next segment in the pattern, and the first position in the text where it may be.
    pattern_at: usize,
    text_at: usize,
    /// Segment that is being compared with many positions at once.
    search: Option<Box<Search>>,
}

/// A part of a pattern without a star.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: usize,
    end: usize,
    /// Number of bytes of a text that the segment matches.
    len: usize,
    /// True if the segment matches only its own bytes.
    is_literal: bool,
}

/// The comparison of a segment with several positions in the text at once.
#[derive(Debug)]
struct Search {
    segment: Segment,
    /// First of the positions.
    first: usize,
    /// Positions that match so far: all bits of a byte are set, or none.
    matching: [u8; PLACES],
    /// Next element, by its position in the pattern and its number.
    element_at: usize,
    element: usize,
}

impl Search {
    fn new(segment: Segment, first: usize) -> Self {
        Search { segment, first, matching: [u8::MAX; PLACES], element_at: segment.start, element: 0 }
    }
}

/// Result of a search for a segment.
enum Found {
    At(usize),
    Nowhere,
    /// The steps did not suffice.
    NotYet,
}

impl Comparison {
    /// Continues the comparison, with about `left` steps at most. Returns the result once it is known: true if the
    /// pattern matches all of the text. Pattern and text must be the same each time.
    pub(crate) fn advance<T: AsRef<[u8]>>(
        &mut self,
        pattern: &Pattern<T>,
        text: &[u8],
        left: &mut usize,
    ) -> Option<bool> {
        let elements = pattern.text();
        if text.is_empty() {
            return Some(elements.is_empty());
        }
        if self.pattern_at == 0 {
            if !self.pass_head(pattern, text, left) {
                return Some(false);
            }
            if self.pattern_at == elements.len() {
                return Some(self.text_at == text.len());
            }
        }
        loop {
            if self.search.is_none() {
                while elements.get(self.pattern_at) == Some(&b'*') {
                    self.pattern_at += 1;
                }
            }
            let (segment, found) = match &mut self.search {
                Some(search) => (search.segment, pattern.find_at_once(search, text, left)),
                None => {
                    let segment = pattern.segment(self.pattern_at);
                    spend(left, 1 + (segment.end - segment.start) / BYTES_PER_STEP);
                    if text.len() - self.text_at < segment.len {
                        return Some(false);
                    }
                    if segment.end == elements.len() {
                        return Some(pattern.is_at(segment, &text[text.len() - segment.len..], left));
                    }
                    (segment, self.find(pattern, segment, text, left))
                }
            };
            match found {
                Found::At(place) => (self.text_at, self.pattern_at) = (place + segment.len, segment.end),
                Found::Nowhere => return Some(false),
                Found::NotYet => return None,
            }
            self.search = None;
        }
    }

    /// Compares the part of the pattern before the first star with the beginning of the text.
    fn pass_head<T: AsRef<[u8]>>(&mut self, pattern: &Pattern<T>, text: &[u8], left: &mut usize) -> bool {
        while pattern.text().get(self.pattern_at).is_some_and(|byte| *byte != b'*') {
            let used = text.get(self.text_at).and_then(|byte| pattern.match_one(self.pattern_at, *byte));
            let Some(used) = used else { return false };
            self.pattern_at += used;
            self.text_at += 1;
        }
        spend(left, self.pattern_at);
        true
    }

    /// Finds the first position of a segment, which is neither the first segment nor the last.
    fn find<T: AsRef<[u8]>>(&mut self, pattern: &Pattern<T>, segment: Segment, text: &[u8], left: &mut usize) -> Found {
        let from = self.text_at;
        if segment.is_literal {
            let found = memmem::find(&text[from..], &pattern.text()[segment.start..segment.end]);
            spend(left, found.unwrap_or(text.len() - from) / BYTES_PER_STEP);
            return found.map_or(Found::Nowhere, |at| Found::At(from + at));
        }
        let (mut alone, mut place) = (STEPS_ALONE, from);
        while alone > 0 {
            if place + segment.len > text.len() {
                return Found::Nowhere;
            }
            let before = alone;
            let is_at = pattern.is_at(segment, &text[place..], &mut alone);
            spend(left, before - alone);
            if is_at {
                return Found::At(place);
            }
            place += 1;
            alone += STEPS_PER_PLACE * usize::from(alone > 0);
        }
        pattern.find_at_once(self.search.insert(Box::new(Search::new(segment, place))), text, left)
    }
}

impl<T: AsRef<[u8]>> Pattern<T> {
    /// Returns true if the pattern matches all of `text`.
    ///
    /// Only the empty pattern matches the empty text, as in Redis: `KEYS *` and `SCAN` treat a lone `*` as "every key"
    /// before they call this.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        self.matches_counted(text).0
    }

    /// Returns the result of [`Pattern::matches`], and the number of steps taken.
    pub(crate) fn matches_counted(&self, text: &[u8]) -> (bool, usize) {
        let mut left = usize::MAX;
        let matched = Comparison::default().advance(self, text, &mut left);
        (matched.unwrap_or_default(), usize::MAX - left)
    }

    /// Returns the segment that begins at a position.
    fn segment(&self, start: usize) -> Segment {
        let (mut end, mut len, mut is_literal) = (start, 0, !self.ignores_case);
        while let Some(byte) = self.text().get(end).filter(|byte| **byte != b'*') {
            is_literal &= !matches!(byte, b'?' | b'[' | b'\\');
            end += self.element_len(end);
            len += 1;
        }
        Segment { start, end, len, is_literal }
    }

    fn element_len(&self, at: usize) -> usize {
        match &self.text()[at..] {
            [b'[', class @ ..] => self.long_class(at).map_or_else(|| 1 + read_class(class, |_| {}), |class| class.len),
            [b'\\', _, ..] => 2,
            _ => 1,
        }
    }

    /// Returns true if this text, which is at least as long as the segment, begins with a match of the segment.
    fn is_at(&self, segment: Segment, text: &[u8], left: &mut usize) -> bool {
        let mut at = segment.start;
        let mut bytes = text.iter();
        while at < segment.end {
            let Some(used) = bytes.next().and_then(|byte| self.match_one(at, *byte)) else { break };
            at += used;
        }
        spend(left, 1 + at - segment.start);
        at >= segment.end
    }

    /// Finds the first position of a segment, from the first position of the search on.
    fn find_at_once(&self, search: &mut Search, text: &[u8], left: &mut usize) -> Found {
        let segment = search.segment;
        while search.first + segment.len <= text.len() {
            let count = PLACES.min(text.len() - segment.len - search.first + 1);
            while search.element_at < segment.end {
                if *left == 0 {
                    return Found::NotYet;
                }
                let bytes = &text[search.first + search.element..][..count];
                let matching = &mut search.matching[..count];
                let used = self.match_at_once(search.element_at, bytes, matching);
                spend(left, used * STEPS_PER_ELEMENT);
                search.element_at += used;
                search.element += 1;
                if matching.iter().fold(0, |any, place| any | place) == 0 {
                    break;
                }
            }
            if let Some(at) = search.matching[..count].iter().position(|place| *place != 0) {
                return Found::At(search.first + at);
            }
            *search = Search::new(segment, search.first + count);
        }
        Found::Nowhere
    }

    /// Matches the element at a position of the pattern against a byte for each position in the text, and clears the
    /// positions where it does not match; returns the length of the element.
    fn match_at_once(&self, at: usize, bytes: &[u8], matching: &mut [u8]) -> usize {
        let fold = self.ignores_case;
        match &self.text()[at..] {
            [b'?', ..] | [] => 1,
            [b'[', class @ ..] => match self.long_class(at) {
                Some(class) => {
                    keep(matching, bytes, |byte| class.has(byte));
                    class.len
                }
                None => {
                    let mut others = [u8::MAX; PLACES]; // none is known to be in the class
                    let others = &mut others[..bytes.len()];
                    let used = read_class(class, |part| match part {
                        ClassPart::Escaped(escaped) => keep(others, bytes, |byte| byte != escaped),
                        ClassPart::Literal(literal) => keep(others, bytes, |byte| !same(literal, byte, fold)),
                        ClassPart::Range(low, high) => {
                            let (low, high) = bounds(low, high, fold);
                            keep(others, bytes, |byte| !(low..=high).contains(&folded(byte, fold)));
                        }
                    });
                    let inverted = mask(!is_negated(class));
                    matching.iter_mut().zip(others).for_each(|(place, other)| *place &= *other ^ inverted);
                    used + 1
                }
            },
            [b'\\', escaped, ..] => {
                keep(matching, bytes, |byte| same(*escaped, byte, fold));
                2
            }
            [literal, ..] => {
                keep(matching, bytes, |byte| same(*literal, byte, fold));
                1
            }
        }
    }
}

/// Clears the positions whose byte does not fit.
fn keep(places: &mut [u8], bytes: &[u8], fits: impl Fn(u8) -> bool) {
    places.iter_mut().zip(bytes).for_each(|(place, byte)| *place &= mask(fits(*byte)));
}

fn mask(is_set: bool) -> u8 {
    u8::from(is_set).wrapping_neg()
}

fn spend(left: &mut usize, steps: usize) {
    *left = left.saturating_sub(steps);
}
