//! Lists: small ones packed in their entries, long ones as a sequence of packed chunks.
//!
//! A chunk is a listpack without header and terminator in a buffer with room at both ends, so that elements are added
//! and removed at either end of the list without moving others. A list becomes long when it exceeds the limit of a
//! node, and is packed again when a single chunk of at most half the limit remains. The functions that add elements
//! take the limit as an argument.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use crate::store::entry::Entry;
use crate::store::limits::ListLimit;
use crate::store::value::big::boxes_len;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::list::{ListChunk, listpack_of};
use crate::store::value::listpack::{Encoded, HEADER_LEN, Listpack, ListpackMut, StoredElement};
use crate::store::value::{DataType, Packing, Type, Value};
use crate::time::clock::Deadline;

pub(crate) use crate::store::value::big::list::{BigList, ListEnd, ListItems, NodeLimit};

/// The memory of the boxes between an entry and its long list.
const BOXES_LEN: usize = boxes_len::<BigList>();

/// The data type of lists.
pub(crate) enum List {}

/// A borrowed list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListRef<'e> {
    /// The elements in their order.
    Packed(Listpack<'e>),
    /// Above the limits of packed lists.
    Big(&'e BigList),
}

/// A list borrowed for a change.
pub(crate) struct ListMut<'e>(&'e mut Entry);

/// A node of a list, as in dumps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListNode<'a> {
    /// A listpack of this many elements, without header and terminator.
    Packed(&'a [u8], usize),
    /// A single element.
    Plain(&'a [u8]),
}

impl<'e> ListRef<'e> {
    #[inline]
    pub(crate) fn len(self) -> usize {
        match self {
            ListRef::Packed(listpack) => listpack.len(),
            ListRef::Big(big) => big.len(),
        }
    }

    /// Returns the name of the encoding that `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            ListRef::Packed(_) => "listpack",
            ListRef::Big(_) => "quicklist",
        }
    }

    /// Iterates over the elements, from either end.
    #[inline]
    pub(crate) fn iter(self) -> ListItems<'e> {
        match self {
            ListRef::Packed(listpack) => ListItems::packed(listpack.elements()),
            ListRef::Big(big) => big.iter(),
        }
    }

    /// Iterates over the elements from an index on, from either end.
    #[inline]
    pub(crate) fn iter_from(self, index: usize) -> ListItems<'e> {
        match self {
            ListRef::Packed(listpack) => {
                let at = listpack.seek(index.cast_signed()).map_or(listpack.elements().len(), |at| at - HEADER_LEN);
                ListItems::packed(&listpack.elements()[at..])
            }
            ListRef::Big(big) => big.iter_from(index),
        }
    }

    /// Iterates over the elements before an index, from either end.
    pub(crate) fn iter_to(self, index: usize) -> ListItems<'e> {
        match self {
            ListRef::Packed(listpack) => {
                let end = listpack.seek(index.cast_signed()).map_or(listpack.elements().len(), |at| at - HEADER_LEN);
                ListItems::packed(&listpack.elements()[..end])
            }
            ListRef::Big(big) => big.iter_to(index),
        }
    }

    /// Returns the element at an index.
    pub(crate) fn get(self, index: usize) -> Option<StoredElement<'e>> {
        match self {
            ListRef::Packed(listpack) => listpack.seek(index.cast_signed()).map(|at| listpack.get(at)),
            ListRef::Big(big) => big.iter_from(index).next(),
        }
    }

    /// Returns the element at an end.
    #[inline]
    pub(crate) fn end(self, at: ListEnd) -> Option<StoredElement<'e>> {
        match at {
            ListEnd::Head => self.iter().next(),
            ListEnd::Tail => self.iter().next_back(),
        }
    }

    /// Iterates over the nodes; a packed list is a single node.
    pub(crate) fn nodes(self) -> impl ExactSizeIterator<Item = ListNode<'e>> {
        let nodes: SmallVec<[ListNode<'e>; 1]> = match self {
            ListRef::Packed(listpack) => {
                std::iter::once(ListNode::Packed(listpack.elements(), listpack.len())).collect()
            }
            ListRef::Big(big) => big.chunks().iter().map(node_of).collect(),
        };
        nodes.into_iter()
    }
}

fn node_of(chunk: &ListChunk) -> ListNode<'_> {
    match chunk.plain_text() {
        Some(text) => ListNode::Plain(text),
        None => ListNode::Packed(chunk.elements(), chunk.len()),
    }
}

impl ListMut<'_> {
    /// Adds elements at an end, one after the other. Returns the number of all elements afterwards.
    #[inline]
    pub(crate) fn push<'t>(
        &mut self,
        texts: impl ExactSizeIterator<Item = &'t [u8]> + Clone,
        at: ListEnd,
        limit: NodeLimit,
    ) -> usize {
        if let Some(Value::List(big)) = self.0.value_mut() {
            texts.for_each(|text| big.push(text, at, limit));
            return big.len();
        }
        self.push_packed(texts, at, limit);
        List::read(self.0).len()
    }

    #[inline(never)] // keeps the path of long lists short
    fn push_packed<'t>(
        &mut self,
        mut texts: impl ExactSizeIterator<Item = &'t [u8]> + Clone,
        at: ListEnd,
        limit: NodeLimit,
    ) {
        let added: usize = texts.clone().map(<[u8]>::len).sum();
        let mut packed = match self.make_room(added, texts.len(), limit.node) {
            Form::Packed(packed) => packed,
            Form::Big(big) => return texts.for_each(|text| big.push(text, at, limit)),
        };
        if texts.len() == 1 {
            if let Some(element) = texts.next().map(Encoded::of) {
                match at {
                    ListEnd::Head => packed.push_front(element),
                    ListEnd::Tail => packed.push_back(element),
                }
            }
            return;
        }
        let mut elements: SmallVec<[Encoded<'_>; 8]> = texts.map(Encoded::of).collect();
        match at {
            ListEnd::Head => {
                elements.reverse();
                packed.insert_all_before(HEADER_LEN, &elements);
            }
            ListEnd::Tail => packed.push_back_all(&elements),
        }
    }

    /// Passes the element at an end to `read` and removes it; returns true if there was one.
    #[inline]
    pub(crate) fn pop(&mut self, at: ListEnd, limit: NodeLimit, read: impl FnOnce(StoredElement<'_>)) -> bool {
        if let Some(Value::List(big)) = self.0.value_mut() {
            let is_removed = big.pop(at, read);
            if big.only_chunk().is_some() {
                self.shrink(limit);
            }
            return is_removed;
        }
        self.pop_packed(at, read)
    }

    #[inline(never)] // as ListMut::push_packed
    fn pop_packed(&mut self, at: ListEnd, read: impl FnOnce(StoredElement<'_>)) -> bool {
        let Form::Packed(mut packed) = self.form() else { return false };
        let listpack = packed.as_listpack();
        let position = if at == ListEnd::Head { listpack.first() } else { listpack.last() };
        let Some(position) = position else { return false };
        read(listpack.get(position));
        packed.remove(position);
        true
    }

    /// Removes `count` elements from an index on; all of them exist.
    pub(crate) fn remove(&mut self, index: usize, count: usize, limit: NodeLimit) {
        match self.form() {
            Form::Packed(mut packed) => {
                let position = packed.as_listpack().seek(index.cast_signed());
                if let Some(position) = position {
                    packed.remove_range(position, count);
                }
            }
            Form::Big(big) => {
                big.remove(index, count, limit);
                self.shrink(limit);
            }
        }
    }

    /// Removes up to `max_count` elements equal to a text, beginning at an end. Returns their number.
    pub(crate) fn remove_equal(&mut self, text: &[u8], max_count: usize, from: ListEnd, limit: NodeLimit) -> usize {
        match self.form() {
            Form::Big(big) => {
                let removed = big.remove_equal(text, max_count, from, limit);
                if removed > 0 {
                    self.shrink(limit);
                }
                removed
            }
            Form::Packed(packed) => {
                let listpack = packed.as_listpack();
                let mut chunk = ListChunk::of(listpack.elements(), listpack.len());
                let removed = chunk.remove_equal(text, max_count, from);
                if removed > 0 {
                    self.0.set_packed(Packing::Listpack, &listpack_of(chunk.elements(), chunk.len()));
                }
                removed
            }
        }
    }

    /// Replaces the element at an index, which exists.
    pub(crate) fn set(&mut self, index: usize, text: &[u8], limit: NodeLimit) {
        match self.make_room(text.len(), 1, limit.node) {
            Form::Packed(mut packed) => {
                let position = packed.as_listpack().seek(index.cast_signed());
                if let Some(position) = position {
                    packed.replace(position, Encoded::of(text));
                }
            }
            Form::Big(big) => {
                big.set(index, text, limit);
                self.shrink(limit);
            }
        }
    }

    /// Inserts an element before or after the first one equal to `pivot`; returns false if there is none.
    pub(crate) fn insert_beside(&mut self, pivot: &[u8], is_after: bool, text: &[u8], limit: NodeLimit) -> bool {
        let found = match self.form() {
            Form::Packed(packed) => packed.as_listpack().find(HEADER_LEN, pivot, 0).map(|at| (0, at - HEADER_LEN)),
            Form::Big(big) => big.find(pivot),
        };
        let Some(spot) = found else { return false };
        match self.make_room(text.len(), 1, limit.node) {
            Form::Packed(mut packed) => {
                let (listpack, at) = (packed.as_listpack(), spot.1 + HEADER_LEN);
                let at = if is_after { listpack.next(at).unwrap_or(listpack.end()) } else { at };
                packed.insert_before(at, Encoded::of(text));
            }
            // A list that has just become long has the elements at the same offsets in its only chunk.
            Form::Big(big) => big.insert_beside(spot, is_after, text, limit),
        }
        true
    }

    fn form(&mut self) -> Form<'_> {
        if self.0.packed_bytes().is_some() {
            Form::Packed(ListpackMut::new(&mut *self.0))
        } else {
            match self.0.value_mut() {
                Some(Value::List(big)) => Form::Big(big),
                _ => unreachable!("the type of the value was checked"),
            }
        }
    }

    /// Converts a packed list to a long one if `count` more elements of `bytes` in all would exceed the limit.
    fn make_room(&mut self, bytes: usize, count: usize, limit: ListLimit) -> Form<'_> {
        if let Form::Packed(packed) = self.form() {
            let listpack = packed.as_listpack();
            if !limit.admits(listpack.bytes().len().saturating_add(bytes), listpack.len() + count) {
                let mut big = BigList::default();
                if !listpack.is_empty() {
                    big.append_chunk(ListChunk::of(listpack.elements(), listpack.len()));
                }
                self.0.set_boxed(Value::List(Box::new(big)));
            }
        }
        self.form()
    }

    /// Packs a list of one chunk that uses at most half of the limit, unless a snapshot visits it.
    #[cold]
    fn shrink(&mut self, limit: NodeLimit) {
        if let Form::Big(big) = self.form()
            && big.record().is_none()
            && let Some(chunk) = big.only_chunk()
            && limit.node.half_admits(chunk.listpack_len(), chunk.len())
        {
            let bytes = listpack_of(chunk.elements(), chunk.len());
            self.0.set_packed(Packing::Listpack, &bytes);
        }
    }
}

/// Form of the elements of a list borrowed for a change.
enum Form<'e> {
    Packed(ListpackMut<&'e mut Entry>),
    Big(&'e mut BigList),
}

/// Builder of a new list.
pub(crate) struct ListBuilder {
    list: BigList,
    limit: NodeLimit,
}

impl ListBuilder {
    pub(crate) fn new(limit: NodeLimit) -> Self {
        ListBuilder { list: BigList::default(), limit }
    }

    /// Adds an element at the end.
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.list.push(text, ListEnd::Tail, self.limit);
    }

    /// Adds a node at the end; a node without elements is left out.
    pub(crate) fn push_node(&mut self, node: ListNode<'_>) {
        match node {
            ListNode::Packed(_, 0) => {}
            ListNode::Packed(elements, count) => self.list.append_chunk(ListChunk::of(elements, count)),
            ListNode::Plain(text) => self.list.append_chunk(ListChunk::plain(text)),
        }
    }

    /// Returns the number of elements so far.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Creates the entry of the list, packed if it is within the limit.
    pub(crate) fn finish(self, key: &[u8], deadline: Option<Deadline>) -> Entry {
        let within = |chunk: &&ListChunk| self.limit.node.admits(chunk.listpack_len(), chunk.len());
        match self.list.only_chunk().filter(within) {
            Some(chunk) => {
                let bytes = listpack_of(chunk.elements(), chunk.len());
                Entry::packed(key, Type::List, Packing::Listpack, &bytes, deadline)
            }
            None => Entry::boxed(key, Type::List, Box::new(Value::List(Box::new(self.list))), deadline),
        }
    }
}

impl DataType for List {
    const TYPE: Type = Type::List;
    type Ref<'e> = ListRef<'e>;
    type Mut<'e> = ListMut<'e>;

    #[inline]
    fn read(entry: &Entry) -> ListRef<'_> {
        match (entry.packed_bytes(), entry.value()) {
            (Some(bytes), _) => ListRef::Packed(Listpack::new(bytes)),
            (None, Some(Value::List(big))) => ListRef::Big(big),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> ListMut<'_> {
        ListMut(entry)
    }

    fn nothing<'e>() -> ListRef<'e> {
        ListRef::Packed(Listpack::EMPTY)
    }

    fn create(key: &[u8]) -> Entry {
        Entry::packed(key, Type::List, Packing::Listpack, Listpack::EMPTY.bytes(), None)
    }

    #[inline(always)] // every change asks twice
    fn memory(entry: &Entry) -> usize {
        match entry.value() {
            Some(Value::List(big)) => entry.own_memory() + BOXES_LEN + big.memory(),
            _ => entry.memory(),
        }
    }

    #[inline]
    fn is_empty(entry: &Entry) -> bool {
        match entry.value() {
            Some(Value::List(big)) => big.len() == 0,
            _ => Self::read(entry).len() == 0,
        }
    }
}
