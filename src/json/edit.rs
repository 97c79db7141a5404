//! Changes of a document, any number of them in one pass.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::form::{self, Container};
use super::{DOCUMENT_BYTES, DOCUMENT_DEPTH, JsonKind, JsonNode, JsonTooLong};

/// The change of a value.
pub(crate) enum JsonChange<'v> {
    /// It stays.
    Keep,
    /// It is removed.
    Remove,
    /// Another value takes its place.
    Replace(Cow<'v, [u8]>),
}

/// The values of a document that are to be changed.
pub(crate) struct JsonTargets {
    /// Their offsets, in order, each with its index among those that were given.
    places: Vec<(usize, usize)>,
}

impl JsonTargets {
    /// Returns the targets at some offsets; what is named twice is changed twice.
    pub(crate) fn all(offsets: &[usize]) -> Self {
        let mut places: Vec<_> = offsets.iter().enumerate().map(|(index, offset)| (*offset, index)).collect();
        places.sort_unstable();
        Self { places }
    }

    /// Returns the targets at some offsets of a document, without those inside others.
    pub(crate) fn outermost(document: &[u8], offsets: &[usize]) -> Self {
        let mut targets = Self::all(offsets);
        let mut end = 0;
        targets.places.retain(|(offset, _)| {
            let outermost = *offset >= end;
            if outermost {
                end = JsonNode::at(document, *offset).end();
            }
            outermost
        });
        targets
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

/// Returns the document after a change of each target; `None` if the whole was removed.
///
/// `change` is given a value, in which the targets inside it are changed already, its index among the targets as they were
/// given, and how many containers a value in its place may have in each other.
pub(crate) fn edit<'v, E: From<JsonTooLong>>(
    document: &[u8],
    targets: &JsonTargets,
    change: &mut dyn FnMut(JsonNode<'_>, usize, usize) -> Result<JsonChange<'v>, E>,
) -> Result<Option<Vec<u8>>, E> {
    let mut to = Vec::with_capacity(document.len() + 16);
    let kept = JsonRewrite { to: &mut to, change }.value(JsonNode::root(document), &targets.places, 0)?;
    to.shrink_to_fit();
    Ok(kept.then_some(to))
}

/// A document being written anew.
struct JsonRewrite<'r, 'v, E> {
    to: &'r mut Vec<u8>,
    change: &'r mut dyn FnMut(JsonNode<'_>, usize, usize) -> Result<JsonChange<'v>, E>,
}

impl<E: From<JsonTooLong>> JsonRewrite<'_, '_, E> {
    /// Appends a value with its changes; the answer is whether it is still there.
    fn value(&mut self, node: JsonNode<'_>, targets: &[(usize, usize)], depth: usize) -> Result<bool, E> {
        if self.to.len() > DOCUMENT_BYTES {
            return Err(JsonTooLong.into());
        }
        let own = targets.partition_point(|(offset, _)| *offset <= node.offset());
        let (own, inside) = targets.split_at(own);
        let start = self.to.len();
        if inside.is_empty() {
            self.to.extend_from_slice(node.bytes());
        } else {
            self.container(node, inside, depth)?;
        }
        for (_, index) in own {
            let change = (self.change)(JsonNode::root(&self.to[start..]), *index, DOCUMENT_DEPTH - depth)?;
            match change {
                JsonChange::Keep => {}
                JsonChange::Remove => {
                    self.to.truncate(start);
                    return Ok(false);
                }
                JsonChange::Replace(value) => {
                    self.to.truncate(start);
                    self.to.extend_from_slice(&value);
                }
            }
        }
        if self.to.len() > DOCUMENT_BYTES {
            return Err(JsonTooLong.into());
        }
        Ok(true)
    }

    /// Appends a container with changes of what is in it.
    fn container(&mut self, node: JsonNode<'_>, targets: &[(usize, usize)], depth: usize) -> Result<(), E> {
        let Some(container) = node.head().container else {
            self.to.extend_from_slice(node.bytes());
            return Ok(());
        };
        let start = form::open(self.to);
        let mut rest = targets;
        let mut children = Vec::new(); // of an object, as it is written
        let (mut count, mut removed) = (0, false);
        for child in node.children() {
            let end = child.node.end();
            let (inside, behind) = rest.split_at(rest.partition_point(|(offset, _)| *offset < end));
            rest = behind;
            let at = self.to.len();
            if let Some(name) = child.name {
                form::write_name(name, self.to);
            }
            let kept = self.value(child.node, inside, depth + 1)?;
            if !kept {
                self.to.truncate(at);
            }
            count += usize::from(kept);
            removed |= !kept;
            if let Some(name) = child.name {
                children.push(WrittenChild { name, at, end: self.to.len(), kept });
            }
        }
        if removed && container == Container::Object {
            self.fill_gaps(children);
        }
        form::close(container, start, count, self.to);
        Ok(())
    }

    /// Puts the last member into the place of each that was removed, one after the other, as Redis does.
    fn fill_gaps(&mut self, mut children: Vec<WrittenChild<'_>>) {
        let start = children[0].at;
        let mut removed: Vec<(&[u8], usize)> = children
            .iter()
            .enumerate()
            .filter(|(_, child)| !child.kept)
            .map(|(index, child)| (child.name, index))
            .collect();
        removed.sort_unstable_by(|one, other| removal_order(one.0, other.0));
        let mut places: Vec<usize> = (0..children.len()).collect(); // where the child of an index has moved
        let mut indexes = places.clone(); // the reverse
        for (_, index) in removed {
            let at = places[index];
            children.swap_remove(at);
            indexes.swap_remove(at);
            if let Some(moved) = indexes.get(at) {
                places[*moved] = at;
            }
        }
        let mut body = Vec::with_capacity(self.to.len() - start);
        for child in &children {
            body.extend_from_slice(&self.to[child.at..child.end]);
        }
        self.to.truncate(start);
        self.to.extend_from_slice(&body);
    }
}

/// A child of a container that is being written.
struct WrittenChild<'d> {
    name: &'d [u8],
    at: usize,
    end: usize,
    kept: bool,
}

/// Returns the order in which Redis removes members: by name, and numbers last, the greatest first.
fn removal_order(one: &[u8], other: &[u8]) -> Ordering {
    let number = |name: &[u8]| std::str::from_utf8(name).ok().and_then(|name| name.parse::<usize>().ok());
    match (number(one), number(other)) {
        (None, None) => one.cmp(other),
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(one), Some(other)) => other.cmp(&one),
    }
}

/// Returns an array in which some elements replace a number of others; `None` if it is no array.
pub(crate) fn spliced(array: JsonNode<'_>, at: usize, removed: usize, inserted: &[Vec<u8>]) -> Option<Vec<u8>> {
    let JsonKind::Array(count) = array.kind() else { return None };
    let (at, end) = (at.min(count), at.saturating_add(removed).min(count));
    let (body, first, second) = cut(array, at, end);
    let mut document = Vec::with_capacity(body.len() + 16 + inserted.iter().map(Vec::len).sum::<usize>());
    let start = form::open(&mut document);
    document.extend_from_slice(&body[..first]);
    for element in inserted {
        document.extend_from_slice(element);
    }
    document.extend_from_slice(&body[second..]);
    form::close(Container::Array, start, count - (end - at) + inserted.len(), &mut document);
    Some(document)
}

/// Returns the elements of an array from one index up to another; `None` if it is no array.
pub(crate) fn sliced(array: JsonNode<'_>, from: usize, to: usize) -> Option<Vec<u8>> {
    let JsonKind::Array(count) = array.kind() else { return None };
    let to = to.min(count);
    let from = from.min(to);
    let (body, first, second) = cut(array, from, to);
    let mut document = Vec::with_capacity(second - first + 8);
    let start = form::open(&mut document);
    document.extend_from_slice(&body[first..second]);
    form::close(Container::Array, start, to - from, &mut document);
    Some(document)
}

/// Returns the body of an array, and where in it two elements begin.
fn cut(array: JsonNode<'_>, one: usize, other: usize) -> (&[u8], usize, usize) {
    let head = array.head();
    let bytes = array.bytes();
    let body = bytes.get(head.body - array.offset()..).unwrap_or_default();
    let place = |index: usize| match index {
        0 => 0,
        _ if index >= head.count => body.len(),
        _ => array.children().nth(index).map_or(body.len(), |child| child.node.offset() - head.body),
    };
    let first = place(one);
    (body, first, if other == one { first } else { place(other) })
}

/// Returns an object with one more member, at its end; `None` if it is no object or has one of that name.
pub(crate) fn with_member(object: JsonNode<'_>, name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let JsonKind::Object(count) = object.kind() else { return None };
    if object.member(name).is_some() {
        return None;
    }
    let body = object.head().body - object.offset();
    let mut document = Vec::with_capacity(object.bytes().len() + name.len() + value.len() + 16);
    let start = form::open(&mut document);
    document.extend_from_slice(&object.bytes()[body..]);
    form::write_name(name, &mut document);
    document.extend_from_slice(value);
    form::close(Container::Object, start, count + 1, &mut document);
    Some(document)
}
