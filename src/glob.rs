//! Glob patterns as Redis reads them: `KEYS`, `SCAN MATCH`, `PSUBSCRIBE`, `CONFIG GET`, ACL rules.
//!
//! Not a path matcher: `/` and a leading dot have no special meaning. The quirks of Redis' own matcher are reproduced
//! to the byte (an unterminated class ends with the pattern, ranges compare signed bytes, nothing but the empty pattern
//! matches the empty text), because a client may depend on any of them.
//!
//! A pattern is compiled once, and may be matched often: a class that is longer than a set of bytes is converted to
//! such a set. No other element needs that, so a pattern takes at most twice the memory of its text, and short ones
//! cost no allocation.
//!
//! Invariant: matching takes time that is linear in the lengths of pattern and text, except for a part between two `*`
//! that is long and contains `?` or classes: there it takes at most a step for each 16 bytes of the part and each byte
//! of the text. A [`Comparison`] can be interrupted at such a part.

mod comparison;
#[cfg(test)]
mod tests;

pub(crate) use comparison::Comparison;

/// A set of bytes.
type ByteSet = [u64; 4];

/// Maximum length of a class, with its brackets, that is parsed again for each byte compared with it.
const SHORT_CLASS_MAX: usize = size_of::<LongClass>();

/// A compiled pattern; `T` is its text, borrowed or owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern<T> {
    text: T,
    ignores_case: bool,
    /// Long classes, in the order of their positions.
    long_classes: Box<[LongClass]>,
}

/// A class that is parsed once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LongClass {
    /// Position of the opening bracket.
    start: usize,
    /// Length, including the brackets.
    len: usize,
    matching: ByteSet,
}

impl<T: AsRef<[u8]>> Pattern<T> {
    /// Compiles a pattern.
    pub(crate) fn new(text: T) -> Self {
        Pattern::compile(text, false)
    }

    /// Compiles a pattern that ignores the case of ASCII letters.
    pub(crate) fn ignoring_case(text: T) -> Self {
        Pattern::compile(text, true)
    }

    fn compile(text: T, ignores_case: bool) -> Self {
        let long_classes = long_classes(text.as_ref(), ignores_case);
        Pattern { text, ignores_case, long_classes }
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.text.as_ref()
    }

    /// Returns the bytes allocated besides the text.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.long_classes)
    }

    /// Matches the element at a position of the pattern against one byte; returns the length of the element on a match.
    #[inline]
    fn match_one(&self, at: usize, byte: u8) -> Option<usize> {
        let fold = self.ignores_case;
        let (used, matched) = match &self.text()[at..] {
            [] => return None,
            [b'?', ..] => (1, true),
            [b'[', class @ ..] => match self.long_class(at) {
                Some(class) => (class.len, class.has(byte)),
                None => {
                    let (used, matched) = match_class(class, byte, fold);
                    (used + 1, matched)
                }
            },
            [b'\\', escaped, ..] => (2, same(*escaped, byte, fold)),
            [literal, ..] => (1, same(*literal, byte, fold)),
        };
        matched.then_some(used)
    }

    /// Returns the class at a position if it is a long one.
    fn long_class(&self, at: usize) -> Option<&LongClass> {
        let found = self.long_classes.binary_search_by_key(&at, |class| class.start).ok()?;
        Some(&self.long_classes[found])
    }
}

impl LongClass {
    fn has(&self, byte: u8) -> bool {
        self.matching[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }
}

/// Returns the long classes of a pattern.
fn long_classes(pattern: &[u8], fold: bool) -> Box<[LongClass]> {
    let (mut start, mut found) = (0, Vec::new());
    while start < pattern.len() {
        start += match &pattern[start..] {
            [b'[', class @ ..] => {
                let len = 1 + read_class(class, |_| {});
                if len > SHORT_CLASS_MAX {
                    found.push(LongClass { start, len, matching: bytes_of_class(class, fold) });
                }
                len
            }
            [b'\\', _, ..] => 2,
            _ => 1,
        };
    }
    found.into_boxed_slice()
}

/// A part of a class.
enum ClassPart {
    /// A byte after a backslash.
    Escaped(u8),
    Literal(u8),
    Range(u8, u8),
}

/// Visits the parts of the inside of `[...]`, given from the byte after the opening bracket on; a leading `^` is
/// skipped. Returns the bytes consumed, including the closing bracket.
fn read_class(class: &[u8], mut visit: impl FnMut(ClassPart)) -> usize {
    let mut at = usize::from(is_negated(class));
    loop {
        match &class[at..] {
            // Without a closing bracket, the class ends at the end of the pattern.
            [] => return at,
            [b'\\', escaped, ..] => {
                visit(ClassPart::Escaped(*escaped));
                at += 2;
            }
            [b']', ..] => return at + 1,
            [low, b'-', high, ..] => {
                visit(ClassPart::Range(*low, *high));
                at += 3;
            }
            [literal, ..] => {
                visit(ClassPart::Literal(*literal));
                at += 1;
            }
        }
    }
}

fn is_negated(class: &[u8]) -> bool {
    class.first() == Some(&b'^')
}

/// Matches the inside of `[...]` against one byte; returns the bytes consumed, including the closing bracket, and true
/// on a match.
fn match_class(class: &[u8], byte: u8, fold: bool) -> (usize, bool) {
    let mut matched = false;
    let used = read_class(class, |part| {
        matched |= match part {
            // Redis compares an escaped byte without folding its case.
            ClassPart::Escaped(escaped) => escaped == byte,
            ClassPart::Literal(literal) => same(literal, byte, fold),
            ClassPart::Range(low, high) => {
                let (low, high) = bounds(low, high, fold);
                (low..=high).contains(&folded(byte, fold))
            }
        }
    });
    (used, matched != is_negated(class))
}

/// Returns the bytes that the inside of `[...]` matches, in time that is proportional to its length.
fn bytes_of_class(class: &[u8], fold: bool) -> ByteSet {
    let position = |value: i8| usize::from(value.cast_unsigned() ^ 0x80); // in the order of signed bytes
    // The numbers of parts that match a value, as differences between neighbours, and the bytes matched unfolded.
    let (mut changes, mut escaped) = ([0isize; 257], [false; 256]);
    read_class(class, |part| {
        let (low, high) = match part {
            ClassPart::Escaped(byte) => return escaped[usize::from(byte)] = true,
            ClassPart::Literal(byte) => (folded(byte, fold), folded(byte, fold)),
            ClassPart::Range(low, high) => bounds(low, high, fold),
        };
        if low <= high {
            changes[position(low)] += 1;
            changes[position(high) + 1] -= 1;
        }
    });
    let mut matching_parts = [0; 256];
    let mut sum = 0;
    for (count, change) in matching_parts.iter_mut().zip(changes) {
        sum += change;
        *count = sum;
    }
    let mut matching = ByteSet::default();
    for byte in 0..=u8::MAX {
        let is_in = escaped[usize::from(byte)] || matching_parts[position(folded(byte, fold))] > 0;
        if is_in != is_negated(class) {
            matching[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    }
    matching
}

/// Returns the bounds of a range. They are signed, as C's `char` is on x86; a reversed range is swapped.
fn bounds(low: u8, high: u8, fold: bool) -> (i8, i8) {
    let (low, high) = if low.cast_signed() > high.cast_signed() { (high, low) } else { (low, high) };
    (folded(low, fold), folded(high, fold))
}

/// Returns the value by which a byte is compared in a class.
fn folded(byte: u8, fold: bool) -> i8 {
    if fold { byte.to_ascii_lowercase() } else { byte }.cast_signed()
}

fn same(a: u8, b: u8, fold: bool) -> bool {
    a == b || (fold && a.eq_ignore_ascii_case(&b))
}
