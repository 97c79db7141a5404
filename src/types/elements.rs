//! Commands that create collections, with several elements in each. A command has at most 64 elements, as in Redis.

use parking_lot::Mutex;

use crate::resp::{write_command, write_word, write_words};
use crate::store::entry::Entry;
use crate::store::value::listpack::Items;
use crate::store::value::{RecordBody, WalkedElement};
use crate::text::double::write_double;

/// Largest number of elements in a command.
const ELEMENTS_MAX: usize = 64;

/// Appends the commands that push a node of a list.
pub(super) fn push(out: &mut Vec<u8>, key: &[u8], node: WalkedElement<'_>) {
    match node {
        WalkedElement::Plain(text) => write_command(out, &[b"RPUSH", key, text]),
        WalkedElement::Packed(elements, mut left) => {
            let mut items = Items::new(elements);
            while left > 0 {
                let count = left.min(ELEMENTS_MAX);
                write_words(out, 2 + count, &[b"RPUSH", key]);
                items.by_ref().take(count).for_each(|item| item.with_text(|text| write_word(out, text)));
                left -= count;
            }
        }
        _ => {}
    }
}

/// Writer of the elements of a set, a sorted set or a hash, one at a time.
pub(super) struct ElementsWriter<K> {
    key: K,
    /// The command that adds elements.
    command: &'static [u8],
    state: Mutex<State>,
}

struct State {
    /// Number of elements still to be written.
    left: usize,
    /// Number of elements that the last command still lacks.
    lacking: usize,
    /// Commands behind that command: the deadlines of its fields or members.
    after: Vec<u8>,
}

impl<K: AsRef<[u8]>> ElementsWriter<K> {
    /// Creates a writer for `count` elements of a key.
    pub(super) fn new(key: K, command: &'static [u8], count: usize) -> Self {
        ElementsWriter { key, command, state: Mutex::new(State { left: count, lacking: 0, after: Vec::new() }) }
    }

    pub(super) fn write(&self, element: WalkedElement<'_>, out: &mut Vec<u8>) {
        let (mut state, key) = (self.state.lock(), self.key.as_ref());
        if state.lacking == 0 {
            state.lacking = state.left.min(ELEMENTS_MAX);
            let is_member = matches!(element, WalkedElement::Member(_) | WalkedElement::TimedMember(..));
            let words_each = if is_member { 1 } else { 2 };
            write_words(out, 2 + words_each * state.lacking, &[self.command, key]);
        }
        match element {
            WalkedElement::Member(member) => member.with_text(|text| write_word(out, text)),
            WalkedElement::TimedMember(member, deadline) => member.with_text(|text| {
                write_word(out, text);
                if let Some(ms) = deadline {
                    write_deadline(&mut state.after, [b"SPEXPIREAT", key, b"MEMBERS", text], ms);
                }
            }),
            WalkedElement::Scored(member, score) => {
                write_word(out, &write_double(score));
                write_word(out, member);
            }
            WalkedElement::Field(field, value, deadline) => {
                write_word(out, field);
                write_word(out, value);
                if let Some(ms) = deadline {
                    write_deadline(&mut state.after, [b"HPEXPIREAT", key, b"FIELDS", field], ms);
                }
            }
            _ => {}
        }
        (state.left, state.lacking) = (state.left.saturating_sub(1), state.lacking.saturating_sub(1));
        if state.lacking == 0 {
            out.append(&mut state.after);
        }
    }
}

/// Appends the command that sets the deadline of one element of a key.
fn write_deadline(out: &mut Vec<u8>, [command, key, block, element]: [&[u8]; 4], ms: i64) {
    let mut number = itoa::Buffer::new();
    write_command(out, &[command, key, number.format(ms).as_bytes(), block, b"1", element]);
}

/// Returns the body of a record with the commands that add the elements of a large value.
pub(super) fn large_elements(entry: &Entry, command: &'static [u8], count: usize) -> RecordBody {
    let elements: ElementsWriter<Box<[u8]>> = ElementsWriter::new(entry.key().into(), command, count);
    RecordBody::new(count, move |element, out| elements.write(element, out))
}
