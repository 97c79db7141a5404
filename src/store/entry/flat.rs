//! Flat values, inside an entry or in a box of their own; see [`flat`](crate::store::value::flat).
//!
//! Inside an entry the number of the type is the last byte of the value area.

use crate::store::entry::{Entry, type_bits};
use crate::store::value::{FlatValue, SHARED_MIN, Type, Value};
use crate::time::clock::Deadline;

impl Entry {
    /// Creates an entry with a flat value of a type.
    pub(in crate::store) fn flat_of(key: &[u8], of: Type, bytes: Vec<u8>, deadline: Option<Deadline>) -> Self {
        match bytes.len() {
            ..SHARED_MIN => Self::build_of_parts(key, &[&bytes, &[of as u8]], deadline, type_bits(of), 0),
            _ => Self::boxed(key, of, Box::new(Value::Flat(FlatValue { of, bytes })), deadline),
        }
    }

    /// Returns the type of a flat value.
    #[cold]
    pub(super) fn flat_kind(&self) -> Type {
        match self.value() {
            Some(Value::Flat(value)) => value.of,
            _ => self.flat_area().1,
        }
    }

    /// Returns a flat value.
    pub(in crate::store) fn flat_bytes(&self) -> &[u8] {
        match self.value() {
            Some(Value::Flat(value)) => &value.bytes,
            _ => self.flat_area().0,
        }
    }

    /// Returns the bytes of a flat value inside the entry, and its type.
    fn flat_area(&self) -> (&[u8], Type) {
        self.assert_not_boxed();
        let area = self.area(self.value_at(), self.header().value_len as usize);
        let (number, bytes) = area.split_last().expect("the number of the type follows a flat value");
        (bytes, Type::ALL[usize::from(*number)])
    }

    /// Returns a flat value to change its bytes in place.
    pub(in crate::store) fn flat_bytes_mut(&mut self) -> &mut [u8] {
        if self.value().is_none() {
            let area = self.value_area_mut().split_last_mut();
            return area.expect("the number of the type follows a flat value").1;
        }
        match self.value_mut() {
            Some(Value::Flat(value)) => &mut value.bytes,
            _ => unreachable!("the type of the value was checked"),
        }
    }

    /// Replaces a flat value by another one of the same type.
    pub(in crate::store) fn set_flat(&mut self, bytes: Vec<u8>) {
        let (of, usage) = (self.flat_kind(), self.usage());
        *self = Self::flat_of(self.key(), of, bytes, self.deadline()).used_as(usage);
    }
}
