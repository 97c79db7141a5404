//! Records of the state beside a key, in the append-only file and to replicas: its fence, its lock, the producers of a
//! stream, or deadlines of members that were added to a set.
//!
//! Such a record is the argument of a PING, so that servers which know nothing of it skip it.

const FENCE: &[u8] = b"keylatch-fence:";
const LOCK: &[u8] = b"keylatch-lock:";
const PRODUCERS: &[u8] = b"keylatch-producers:";
const MEMBERS: &[u8] = b"keylatch-members:";

/// Record of the state beside a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideRecord<'a> {
    Fence {
        key: &'a [u8],
        fence: i64,
    },
    /// The text of the key's lock; see `lock/text.rs`.
    Lock {
        key: &'a [u8],
        text: &'a [u8],
    },
    /// A text that the stream adopts; see `Producers::text`.
    Producers {
        key: &'a [u8],
        text: &'a [u8],
    },
    /// Deadlines of members of a set; see `types/set_deadlines.rs`.
    Members {
        key: &'a [u8],
        text: &'a [u8],
    },
}

impl<'a> SideRecord<'a> {
    /// Returns the argument of a PING that carries the record.
    pub(crate) fn word(self) -> Vec<u8> {
        let mut number = itoa::Buffer::new();
        match self {
            SideRecord::Fence { key, fence } => [FENCE, number.format(fence).as_bytes(), b" ", key].concat(),
            SideRecord::Lock { key, text } => [LOCK, number.format(key.len()).as_bytes(), b" ", key, text].concat(),
            SideRecord::Producers { key, text } => {
                [PRODUCERS, number.format(key.len()).as_bytes(), b" ", key, text].concat()
            }
            SideRecord::Members { key, text } => {
                [MEMBERS, number.format(key.len()).as_bytes(), b" ", key, text].concat()
            }
        }
    }

    /// Returns the record that an argument of a PING carries, if there is one.
    pub(crate) fn of_word(word: &'a [u8]) -> Option<Self> {
        if let Some(rest) = word.strip_prefix(FENCE) {
            let (fence, key) = split_number(rest)?;
            return Some(SideRecord::Fence { key, fence });
        }
        let (prefix, rest) =
            [LOCK, PRODUCERS, MEMBERS].into_iter().find_map(|prefix| Some((prefix, word.strip_prefix(prefix)?)))?;
        let (len, rest) = split_number(rest)?;
        let (key, text) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        Some(match prefix {
            LOCK => SideRecord::Lock { key, text },
            PRODUCERS => SideRecord::Producers { key, text },
            _ => SideRecord::Members { key, text },
        })
    }
}

/// Splits a number off, and the space behind it.
fn split_number(text: &[u8]) -> Option<(i64, &[u8])> {
    let blank = text.iter().position(|byte| *byte == b' ')?;
    Some((std::str::from_utf8(&text[..blank]).ok()?.parse().ok()?, &text[blank + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is_one() {
        let key = b"a key: 1 2".as_slice();
        for record in [
            SideRecord::Fence { key, fence: -7 },
            SideRecord::Lock { key, text: b"1 x" },
            SideRecord::Lock { key: b"", text: b"" },
            SideRecord::Producers { key, text: b"1 2 3 4 " },
            SideRecord::Members { key, text: b"\x05a" },
        ] {
            let word = record.word();
            assert_eq!(SideRecord::of_word(&word), Some(record));
            assert_eq!(SideRecord::of_word(&word[1..]), None);
        }
        for other in
            [&b"keylatch-fence:"[..], b"keylatch-fence:1", b"keylatch-lock:9 short", b"keylatch-lock:-1 k", b""]
        {
            assert_eq!(SideRecord::of_word(other), None, "{}", other.escape_ascii());
        }
    }
}
