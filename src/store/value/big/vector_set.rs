//! Vector sets: the rows of a matrix, and their numbers by their names, in order.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use crate::memory::heap::allocation_len;
use crate::memory::ordered_map::OrderedMap;
use crate::store::value::big::form::LargeForm;
use crate::store::value::big::walk::{Record, RecordPart, WalkedElement};
use crate::vectors::{KeptVector, Matrix, Projection, Quantisation, VectorRow};

/// Number of bytes that cost as much to free as one allocation.
const PAGE_LEN: usize = 4096;

/// The counters of an [`Arc`], before what it points to.
const ARC_LEN: usize = 2 * size_of::<usize>();

/// A vector set.
pub(crate) struct BigVectorSet {
    names: OrderedMap<Arc<[u8]>, u32>,
    rows: Matrix,
    form: VectorSetForm,
    /// Number of the last vector that was added or replaced.
    last: u64,
    /// Elements with attributes.
    with_attributes: usize,
    /// Bytes allocated for names and attributes.
    texts: usize,
    walk: Option<Box<Walk>>,
}

/// Properties of a vector set that do not change, beside those of its vectors.
#[derive(Clone, Debug)]
pub(crate) struct VectorSetForm {
    /// The number of neighbours of a vector in the graph that Redis would have.
    pub(crate) links: u16,
    pub(crate) projection: Option<Projection>,
}

/// Walk of a snapshot over the elements.
struct Walk {
    /// The elements as they were when the walk began.
    rows: Matrix,
    /// Number of elements that were visited.
    visited: usize,
    record: Record,
}

impl LargeForm for BigVectorSet {
    fn memory(&self) -> usize {
        let projection = self.form.projection.as_ref().map_or(0, Projection::memory);
        self.names.memory() + self.rows.memory(allocation_len) + self.texts + allocation_len(projection)
    }

    fn effort(&self) -> usize {
        1 + self.len() + self.with_attributes + self.memory() / PAGE_LEN
    }

    fn copy(&self) -> Self {
        let mut copy = BigVectorSet {
            names: OrderedMap::EMPTY,
            rows: self.rows.copy(),
            form: self.form.clone(),
            last: self.last,
            with_attributes: self.with_attributes,
            texts: self.texts,
            walk: None,
        };
        for (_, number) in self.names.iter() {
            copy.names.insert(copy.rows.row(*number as usize).name.clone(), *number);
        }
        copy
    }

    fn set_record(&mut self, record: Option<Record>) {
        self.walk = record.map(|record| Box::new(Walk { rows: self.rows.clone(), visited: 0, record }));
    }

    fn record(&self) -> Option<&Record> {
        self.walk.as_ref().map(|walk| &walk.record)
    }

    fn visit_elements(&mut self, is_time_up: &dyn Fn() -> bool) -> Option<RecordPart> {
        let Walk { rows, visited, record } = &mut **self.walk.as_mut()?;
        while *visited < rows.len() {
            record.add(WalkedElement::Vector(*visited, rows.row(*visited), &rows.vector(*visited)));
            *visited += 1;
            if is_time_up() {
                break;
            }
        }
        Some(record.take(*visited == rows.len()))
    }
}

impl BigVectorSet {
    /// The set without elements, whose vectors have no form.
    pub(in crate::store::value) const EMPTY: Self =
        BigVectorSet::new(Quantisation::Bytes, 0, VectorSetForm { links: 0, projection: None });

    /// Creates a set without elements.
    pub(crate) const fn new(quantisation: Quantisation, dimensions: usize, form: VectorSetForm) -> Self {
        BigVectorSet {
            names: OrderedMap::EMPTY,
            rows: Matrix::new(quantisation, dimensions),
            form,
            last: 0,
            with_attributes: 0,
            texts: 0,
            walk: None,
        }
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows, by their numbers.
    pub(crate) fn rows(&self) -> &Matrix {
        &self.rows
    }

    /// Returns the properties that do not change.
    pub(crate) fn form(&self) -> &VectorSetForm {
        &self.form
    }

    /// Returns the number of the last vector that was added or replaced.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Sets that number, unless there are more elements.
    pub(crate) fn set_last(&mut self, last: u64) {
        self.last = last.max(self.len() as u64);
    }

    /// Returns the number of elements with attributes.
    pub(crate) fn with_attributes(&self) -> usize {
        self.with_attributes
    }

    /// Returns the number of an element's row.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.names.get(name).map(|number| *number as usize)
    }

    /// Iterates over the names in a range, in order.
    pub(crate) fn names(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> impl Iterator<Item = &Arc<[u8]>> {
        let is_empty = match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
            _ => false,
        };
        let range = (!is_empty).then(|| self.names.range((from.map(Arc::from), to.map(Arc::from))));
        range.into_iter().flatten().map(|(name, _)| name)
    }

    /// Adds an element that is missing.
    pub(crate) fn add(&mut self, name: &[u8], vector: &KeptVector, attributes: Option<&[u8]>) {
        let name: Arc<[u8]> = Arc::from(name);
        self.texts += text_len(&name);
        self.names.insert(name.clone(), self.rows.len() as u32);
        self.rows.push(VectorRow::new(name, None, vector), vector);
        self.last += 1;
        self.put_attributes(self.rows.len() - 1, attributes);
    }

    /// Replaces the vector of an element.
    pub(crate) fn set_vector(&mut self, number: usize, vector: &KeptVector) {
        self.rows.set_vector(number, vector);
        self.last += 1;
    }

    /// Replaces the attributes of an element.
    pub(crate) fn put_attributes(&mut self, number: usize, attributes: Option<&[u8]>) {
        if attributes.is_none() && self.rows.row(number).attributes.is_none() {
            return;
        }
        let (new, before) = (attributes.map(Arc::from), self.rows.row(number).attributes.clone());
        self.texts += attributes.map_or(0, text_len);
        self.texts -= before.as_deref().map_or(0, text_len);
        self.with_attributes += usize::from(new.is_some());
        self.with_attributes -= usize::from(before.is_some());
        self.rows.set_attributes(number, new);
    }

    /// Removes an element.
    pub(crate) fn remove(&mut self, number: usize) {
        let removed = self.rows.swap_remove(number);
        self.names.remove(&*removed.name);
        if number < self.rows.len()
            && let Some(moved) = self.names.get_mut(&*self.rows.row(number).name)
        {
            *moved = number as u32;
        }
        self.texts -= text_len(&removed.name) + removed.attributes.as_deref().map_or(0, text_len);
        self.with_attributes -= usize::from(removed.attributes.is_some());
    }
}

/// Returns the bytes allocated for a name or for attributes.
fn text_len(text: &[u8]) -> usize {
    allocation_len(ARC_LEN + text.len())
}

impl fmt::Debug for BigVectorSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BigVectorSet").field("len", &self.len()).finish_non_exhaustive()
    }
}
