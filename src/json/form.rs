//! The bytes of a document.
//!
//! Each value begins with a tag; numbers of several bytes are little-endian, lengths are in groups of seven bits.
//!
//! | tag | value | follows |
//! |---|---|---|
//! | `00` `01` `02` | null, false, true | |
//! | `03` | a double | 8 bytes |
//! | `04` | an integer above those with a sign | 8 bytes |
//! | `05` | a string | its length, its bytes |
//! | `06` `07` | an array, an object | count, length of the body, body |
//! | `08` to `0d` | a double as a decimal: an integer of 1 to 6 bytes, times a power of ten | power, integer |
//! | `10` to `17` | an integer of 1 to 8 bytes | |
//! | `20` to `3f` | an array of up to 31 elements | length of the body (not if it is empty), body |
//! | `40` to `5f` | an object of up to 31 members | the same |
//! | `60` to `bf` | a string of up to 95 bytes | its bytes |
//! | `c0` to `ff` | an integer from 0 to 63 | |
//!
//! The body of an array is its elements, that of an object its members, each the length of the name, the name, and the
//! value. A value has one form only, the shortest.

pub(super) const NULL: u8 = 0x00;
pub(super) const FALSE: u8 = 0x01;
pub(super) const TRUE: u8 = 0x02;
pub(super) const DOUBLE: u8 = 0x03;
pub(super) const UNSIGNED: u8 = 0x04;
pub(super) const LONG_STRING: u8 = 0x05;
pub(super) const LONG_ARRAY: u8 = 0x06;
pub(super) const LONG_OBJECT: u8 = 0x07;
pub(super) const DECIMAL: u8 = 0x08;
pub(super) const LAST_DECIMAL: u8 = 0x0d;
pub(super) const INTEGER: u8 = 0x10;
pub(super) const LAST_INTEGER: u8 = 0x17;
pub(super) const ARRAY: u8 = 0x20;
pub(super) const LAST_ARRAY: u8 = 0x3f;
pub(super) const OBJECT: u8 = 0x40;
pub(super) const LAST_OBJECT: u8 = 0x5f;
pub(super) const STRING: u8 = 0x60;
pub(super) const LAST_STRING: u8 = 0xbf;
pub(super) const SMALL: u8 = 0xc0;

/// The longest string whose length is in its tag.
const SHORT_STRING: usize = (LAST_STRING - STRING) as usize;

/// The most elements or members whose number is in the tag.
const SHORT_COUNT: usize = (LAST_ARRAY - ARRAY) as usize;

/// Array or object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Container {
    Array,
    Object,
}

/// Appends a length.
pub(super) fn write_length(length: usize, to: &mut Vec<u8>) {
    let mut rest = length;
    while rest >= 0x80 {
        to.push((rest as u8 & 0x7f) | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

/// Reads a length; returns it and where it ends.
pub(super) fn read_length(bytes: &[u8], at: usize) -> (usize, usize) {
    let (mut length, mut end) = (0, at);
    for shift in [0, 7, 14, 21, 28] {
        let byte = byte_at(bytes, end);
        end += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    (length, end)
}

/// Returns the byte at an offset; behind the end, zero.
pub(super) fn byte_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Appends a string.
pub(super) fn write_string(text: &[u8], to: &mut Vec<u8>) {
    if text.len() <= SHORT_STRING {
        to.push(STRING + text.len() as u8);
    } else {
        to.push(LONG_STRING);
        write_length(text.len(), to);
    }
    to.extend_from_slice(text);
}

/// Appends the name of a member.
pub(super) fn write_name(name: &[u8], to: &mut Vec<u8>) {
    write_length(name.len(), to);
    to.extend_from_slice(name);
}

/// Begins a container, whose body is written next; returns its place, for [`close`].
pub(super) fn open(to: &mut Vec<u8>) -> usize {
    let at = to.len();
    to.extend_from_slice(&[0, 0]); // the header of most
    at
}

/// Ends a container that was begun at a place, with a number of elements or members.
pub(super) fn close(container: Container, at: usize, count: usize, to: &mut Vec<u8>) {
    let (short, long) = match container {
        Container::Array => (ARRAY, LONG_ARRAY),
        Container::Object => (OBJECT, LONG_OBJECT),
    };
    let length = to.len() - at - 2;
    if count == 0 {
        to.truncate(at);
        to.push(short);
    } else if count <= SHORT_COUNT && length < 0x80 {
        to[at] = short + count as u8;
        to[at + 1] = length as u8;
    } else {
        let mut head = Vec::with_capacity(12);
        if count <= SHORT_COUNT {
            head.push(short + count as u8);
        } else {
            head.push(long);
            write_length(count, &mut head);
        }
        write_length(length, &mut head);
        to.splice(at..at + 2, head);
    }
}

/// Returns the document of a string.
pub(crate) fn document_of_string(text: &[u8]) -> Vec<u8> {
    let mut document = Vec::with_capacity(text.len() + 5);
    write_string(text, &mut document);
    document
}

/// Returns the document of a boolean.
pub(crate) fn document_of_bool(value: bool) -> Vec<u8> {
    vec![if value { TRUE } else { FALSE }]
}

/// Returns the document of the empty array.
pub(crate) fn empty_array() -> Vec<u8> {
    vec![ARRAY]
}

/// Returns the document of the empty object.
pub(crate) fn empty_object() -> Vec<u8> {
    vec![OBJECT]
}

/// Returns how many containers of a document contain each other.
pub(crate) fn depth_of(document: &[u8]) -> usize {
    let (mut ends, mut at, mut deepest) = (Vec::new(), 0, 0);
    while at < document.len() {
        while ends.last().is_some_and(|(end, _)| *end <= at) {
            ends.pop();
        }
        if ends.last().is_some_and(|(_, of)| *of == Container::Object) {
            let (length, name) = read_length(document, at);
            at = name.saturating_add(length);
        }
        let head = Head::read(document, at);
        if let Some(container) = head.container {
            ends.push((head.end, container));
            deepest = deepest.max(ends.len());
            at = head.body;
        } else {
            at = head.end;
        }
    }
    deepest
}

/// The offsets of the parts of a value.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Array or object, if it is one.
    pub(super) container: Option<Container>,
    /// The number of elements or members; the length of a string.
    pub(super) count: usize,
    /// The offset of elements, members or the string.
    pub(super) body: usize,
    /// The end of the value.
    pub(super) end: usize,
}

impl Head {
    /// Reads the head of the value at an offset.
    pub(super) fn read(bytes: &[u8], at: usize) -> Self {
        let tag = byte_at(bytes, at);
        let body = at.saturating_add(1);
        let scalar = |length: usize| Self { container: None, count: 0, body, end: body.saturating_add(length) };
        let within = |container: Container, count: usize, at: usize| {
            let (length, body) = read_length(bytes, at);
            Self { container: Some(container), count, body, end: body.saturating_add(length) }
        };
        let short = |container: Container, count: usize| match count {
            0 => Self { container: Some(container), count: 0, body, end: body },
            _ => within(container, count, body),
        };
        match tag {
            NULL | FALSE | TRUE => scalar(0),
            DOUBLE | UNSIGNED => scalar(8),
            LONG_STRING => {
                let (count, body) = read_length(bytes, body);
                Self { container: None, count, body, end: body.saturating_add(count) }
            }
            LONG_ARRAY | LONG_OBJECT => {
                let (count, body) = read_length(bytes, body);
                within(if tag == LONG_ARRAY { Container::Array } else { Container::Object }, count, body)
            }
            DECIMAL..=LAST_DECIMAL => scalar(usize::from(tag - DECIMAL) + 2),
            INTEGER..=LAST_INTEGER => scalar(usize::from(tag - INTEGER) + 1),
            ARRAY..=LAST_ARRAY => short(Container::Array, usize::from(tag - ARRAY)),
            OBJECT..=LAST_OBJECT => short(Container::Object, usize::from(tag - OBJECT)),
            STRING..=LAST_STRING => {
                let count = usize::from(tag - STRING);
                Self { container: None, count, body, end: body.saturating_add(count) }
            }
            _ => scalar(0),
        }
    }
}
