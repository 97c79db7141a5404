//! Types whose values are *flat*: one string of bytes in a format of the type's own, without pointers. The store copies,
//! counts and frees it without knowing the format.
//!
//! They share one number in the type bits of entries, because Redis' module types are more than these bits can tell apart.
//! A short value lies inside its entry, followed by the number of its type; a long one is a
//! [`FlatValue`](crate::store::value::FlatValue) behind the pointer. All code above the store sees the bytes alone.

use crate::store::entry::Entry;
use crate::store::value::{DataType, SHARED_MIN, Type, Value};
use crate::time::clock::Deadline;

/// A data type whose values are flat.
pub(crate) trait FlatType {
    /// The type's name.
    const TYPE: Type;
}

/// Declares data types with flat values.
macro_rules! flat_types {
    ($($(#[$meta:meta])* $of:ident;)+) => {
        $(
            $(#[$meta])*
            pub(crate) enum $of {}

            $(#[$meta])*
            impl FlatType for $of {
                const TYPE: Type = Type::$of;
            }
        )+
    };
}

flat_types! {
    /// The data type of JSON documents.
    #[cfg(feature = "json")]
    Json;
    /// Scalable Bloom filters.
    #[cfg(feature = "probabilistic")]
    BloomFilter;
    /// Cuckoo filters.
    #[cfg(feature = "probabilistic")]
    CuckooFilter;
    /// Count-min sketches.
    #[cfg(feature = "probabilistic")]
    CountMinSketch;
    /// Most frequent items.
    #[cfg(feature = "probabilistic")]
    TopK;
    /// Sketches of distributions.
    #[cfg(feature = "probabilistic")]
    TDigest;
    /// The data type of the tests' texts.
    #[cfg(test)]
    Toy;
}

impl Entry {
    /// Creates an entry with a flat value.
    pub(crate) fn flat<K: FlatType>(key: &[u8], bytes: Vec<u8>, deadline: Option<Deadline>) -> Self {
        Self::flat_of(key, K::TYPE, bytes, deadline)
    }
}

/// A flat value borrowed for a change.
pub struct FlatMut<'e>(&'e mut Entry);

impl FlatMut<'_> {
    /// Returns the value.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.flat_bytes()
    }

    /// Returns the value, to change bytes of it in place.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.flat_bytes_mut()
    }

    /// Replaces the value.
    pub(crate) fn set(&mut self, bytes: Vec<u8>) {
        if let Some(Value::Flat(value)) = self.0.value_mut()
            && bytes.len() >= SHARED_MIN
        {
            value.bytes = bytes;
            return;
        }
        self.0.set_flat(bytes);
    }
}

impl<K: FlatType> DataType for K {
    const TYPE: Type = <K as FlatType>::TYPE;
    type Ref<'e> = &'e [u8];
    type Mut<'e> = FlatMut<'e>;

    fn read(entry: &Entry) -> &[u8] {
        entry.flat_bytes()
    }

    fn write(entry: &mut Entry) -> FlatMut<'_> {
        FlatMut(entry)
    }

    fn nothing<'e>() -> &'e [u8] {
        b""
    }

    fn create(key: &[u8]) -> Entry {
        Entry::flat::<K>(key, Vec::new(), None)
    }

    /// Returns true if there are no bytes, which no type uses for a value.
    fn is_empty(entry: &Entry) -> bool {
        entry.flat_bytes().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::value::{Str, WrongType};

    #[test]
    fn a_flat_value_keeps_its_type_and_its_bytes_at_any_length_and_through_every_copy() {
        for len in [0, 1, SHARED_MIN - 1, SHARED_MIN, 3 * SHARED_MIN] {
            let (bytes, deadline) = (vec![7; len], Some(Deadline::at_wall_ms(5)));
            let mut entry = Entry::flat::<Toy>(b"key", bytes.clone(), None);
            entry.set_usage(3);
            entry.set_deadline(deadline);
            assert!(entry.memory() >= len);
            let copies = [entry.copy(b"other"), entry.copy(&[b'k'; 300])];
            entry.relocate();
            entry.fit();
            for entry in copies.iter().chain([&entry.with_key(b"new")]) {
                assert_eq!((entry.kind(), entry.is_of(Type::Toy), entry.is_of(Type::String)), (Type::Toy, true, false));
                assert_eq!((Toy::read(entry), entry.deadline()), (&bytes[..], deadline));
                assert_eq!(entry.get::<Str>().err(), Some(WrongType));
                assert_eq!(Toy::is_empty(entry), len == 0);
            }
        }
    }

    #[test]
    fn a_flat_value_is_changed_in_place_and_replaced_by_a_longer_and_a_shorter_one() {
        let mut entry = Entry::flat::<Toy>(b"key", b"abc".to_vec(), None);
        for len in [3, SHARED_MIN + 1, SHARED_MIN * 2, 5, SHARED_MIN, 1] {
            let mut value = Toy::write(&mut entry);
            value.set(vec![b'x'; len]);
            value.bytes_mut()[len - 1] = b'z';
            assert_eq!((value.bytes().len(), value.bytes().last()), (len, Some(&b'z')));
            assert_eq!((entry.kind(), entry.key()), (Type::Toy, &b"key"[..]));
            assert_eq!(matches!(entry.value(), Some(Value::Flat(_))), len >= SHARED_MIN);
        }
        entry.set_text(b"text", None, drop);
        assert_eq!((entry.kind(), entry.string().as_slice()), (Type::String, &b"text"[..]));
    }
}
