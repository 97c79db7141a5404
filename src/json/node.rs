//! Values of a document, read in place.

use super::form::{Container, FALSE, Head, LAST_STRING, LONG_STRING, NULL, STRING, TRUE, byte_at, read_length};
use super::number::JsonNumber;

/// A value in a document: the whole, or any value below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonNode<'d> {
    document: &'d [u8],
    at: usize,
}

/// The kind of a value, with the value of one that contains no other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JsonKind<'d> {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(JsonNumber),
    /// A string, which is UTF-8.
    String(&'d [u8]),
    /// An array, and the number of its elements.
    Array(usize),
    /// An object, and the number of its members.
    Object(usize),
}

impl JsonKind<'_> {
    /// Returns the name of the type.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(JsonNumber::Integer(_) | JsonNumber::Unsigned(_)) => "integer",
            Self::Number(JsonNumber::Double(_)) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

impl<'d> JsonNode<'d> {
    /// Returns the whole of a document.
    pub(crate) fn root(document: &'d [u8]) -> Self {
        Self { document, at: 0 }
    }

    /// Returns the value at an offset, which [`Self::offset`] has returned for the same document.
    pub(crate) fn at(document: &'d [u8], at: usize) -> Self {
        Self { document, at }
    }

    /// Returns where the value begins in its document, by which it is known.
    pub(crate) fn offset(self) -> usize {
        self.at
    }

    /// Returns the value's own bytes, which are a document.
    pub(crate) fn bytes(self) -> &'d [u8] {
        let end = self.end().min(self.document.len());
        self.document.get(self.at..end).unwrap_or(&[NULL])
    }

    /// Returns where the value ends in its document.
    pub(super) fn end(self) -> usize {
        self.head().end
    }

    pub(super) fn head(self) -> Head {
        Head::read(self.document, self.at)
    }

    /// Returns the kind of the value.
    pub(crate) fn kind(self) -> JsonKind<'d> {
        let head = self.head();
        match head.container {
            Some(Container::Array) => return JsonKind::Array(head.count),
            Some(Container::Object) => return JsonKind::Object(head.count),
            None => {}
        }
        match byte_at(self.document, self.at) {
            FALSE => JsonKind::Bool(false),
            TRUE => JsonKind::Bool(true),
            LONG_STRING | STRING..=LAST_STRING => JsonKind::String(text(self.document, head.body, head.count)),
            _ => JsonNumber::read(self.document, self.at).map_or(JsonKind::Null, JsonKind::Number),
        }
    }

    /// Returns true for an array and an object.
    pub(crate) fn is_container(self) -> bool {
        self.head().container.is_some()
    }

    /// Returns the values in the value: the elements of an array, the members of an object with their names, of anything
    /// else none.
    pub(crate) fn children(self) -> JsonChildren<'d> {
        let head = self.head();
        let (body, end) =
            if head.container.is_some() { (head.body, head.end.min(self.document.len())) } else { (0, 0) };
        JsonChildren { document: self.document, at: body, end, named: head.container == Some(Container::Object) }
    }

    /// Returns the member of an object by its name.
    pub(crate) fn member(self, name: &[u8]) -> Option<Self> {
        self.children().find(|child| child.name == Some(name)).map(|child| child.node)
    }

    /// Returns the element of an array by its index.
    pub(crate) fn element(self, index: usize) -> Option<Self> {
        match self.kind() {
            JsonKind::Array(count) if index < count => self.children().nth(index).map(|child| child.node),
            _ => None,
        }
    }
}

/// Returns the text at an offset.
fn text(document: &[u8], at: usize, length: usize) -> &[u8] {
    document.get(at..at.saturating_add(length)).unwrap_or_default()
}

/// A value in a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonChild<'d> {
    /// The name, in an object.
    pub(crate) name: Option<&'d [u8]>,
    /// The value.
    pub(crate) node: JsonNode<'d>,
}

/// The values in a container, in their order.
pub(crate) struct JsonChildren<'d> {
    document: &'d [u8],
    at: usize,
    end: usize,
    named: bool,
}

impl<'d> Iterator for JsonChildren<'d> {
    type Item = JsonChild<'d>;

    fn next(&mut self) -> Option<JsonChild<'d>> {
        if self.at >= self.end {
            return None;
        }
        let name = self.named.then(|| {
            let (length, at) = read_length(self.document, self.at);
            self.at = at.saturating_add(length);
            text(self.document, at, length)
        });
        let node = JsonNode { document: self.document, at: self.at };
        self.at = node.end();
        Some(JsonChild { name, node })
    }
}

/// Reports whether two values are the same. The order of members does not matter, and an integer is not a double.
pub(crate) fn is_equal(one: JsonNode<'_>, other: JsonNode<'_>) -> bool {
    if one.bytes() == other.bytes() {
        return true;
    }
    match (one.kind(), other.kind()) {
        (JsonKind::Number(one), JsonKind::Number(other)) => match (one, other) {
            (JsonNumber::Integer(_), _) | (_, JsonNumber::Integer(_)) => false,
            _ => one.as_double() == other.as_double(),
        },
        (JsonKind::Array(count), JsonKind::Array(others)) => {
            count == others && one.children().zip(other.children()).all(|(one, other)| is_equal(one.node, other.node))
        }
        (JsonKind::Object(count), JsonKind::Object(others)) => count == others && has_same_members(one, other, count),
        _ => false,
    }
}

/// Reports whether two objects of as many members have the same ones.
fn has_same_members(one: JsonNode<'_>, other: JsonNode<'_>, count: usize) -> bool {
    // Sorted by their names, so that large objects are compared in less than quadratic time.
    let (members, others) = (members_by_name(one, count), members_by_name(other, count));
    let mut pairs = members.iter().zip(&others);
    pairs.all(|(member, its)| member.name == its.name && is_equal(member.node, its.node))
}

fn members_by_name(object: JsonNode<'_>, count: usize) -> Vec<JsonChild<'_>> {
    let mut members = Vec::with_capacity(count);
    members.extend(object.children());
    members.sort_unstable_by_key(|member| member.name);
    members
}
