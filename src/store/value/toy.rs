//! A type of the project's own tests: a text that is always packed. It shows what the store needs of a type.

use crate::store::entry::Entry;
use crate::store::value::{DataType, Packing, Type};

/// The data type of the tests' texts.
pub(crate) enum Toy {}

/// A text borrowed for a change.
pub(crate) struct ToyMut<'e>(&'e mut Entry);

impl ToyMut<'_> {
    /// Replaces the text.
    pub(crate) fn set(&mut self, text: &[u8]) {
        self.0.set_packed(Packing::Listpack, text);
    }
}

impl DataType for Toy {
    const TYPE: Type = Type::Toy;
    type Ref<'e> = &'e [u8];
    type Mut<'e> = ToyMut<'e>;

    fn read(entry: &Entry) -> &[u8] {
        entry.packed_bytes().expect("the type has no other form")
    }

    fn write(entry: &mut Entry) -> ToyMut<'_> {
        ToyMut(entry)
    }

    fn nothing<'e>() -> &'e [u8] {
        b""
    }

    fn create(key: &[u8]) -> Entry {
        Entry::packed(key, Type::Toy, Packing::Listpack, b"", None)
    }

    fn is_empty(entry: &Entry) -> bool {
        Self::read(entry).is_empty()
    }
}
