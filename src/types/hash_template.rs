//! Hashes that share the names of their fields, as Redis 8.10 writes them; they are read as plain hashes, and never
//! written:
//!
//! ```text
//! in DUMP   names: 0 and a listpack, or 1, count and strings
//! in files  number of a template; before the keys, a record: number, count, names as strings
//! then      values: a listpack of the template's number and the values, or strings
//! ```

use std::borrow::Cow;
use std::collections::HashMap;

use crate::rdb::{Reader, kind};
use crate::store::entry::Entry;
use crate::store::value::listpack::Listpack;
use crate::types::hash::Filling;
use crate::types::options::{ValueOptions, ValueTarget};

/// The forms of names in payloads of DUMP.
const NAMES_IN_LISTPACK: u64 = 0;
const NAMES_AS_STRINGS: u64 = 1;

/// The names of fields that hashes of a file share, as the file has them.
#[derive(Debug)]
pub(crate) struct HashTemplate {
    pub(crate) number: u64,
    count: u64,
    names: Box<[u8]>,
}

impl HashTemplate {
    /// Reads the record of a template; `None` if it violates the format.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (number, count) = (reader.length()?, reader.length()?);
        let start = reader.rest();
        (0..count).try_for_each(|_| reader.skip_string())?;
        let names = &start[..start.len() - reader.rest().len()];
        (count > 0).then(|| HashTemplate { number, count, names: names.into() })
    }
}

/// The templates of a file by their numbers.
#[derive(Debug, Default)]
pub(crate) struct HashTemplates(HashMap<u64, HashTemplate>);

impl HashTemplates {
    /// Adds a template; returns false if there is another of its number.
    pub(crate) fn add(&mut self, template: HashTemplate) -> bool {
        self.0.insert(template.number, template).is_none()
    }

    /// Returns the number of fields of a template.
    pub(crate) fn count(&self, number: u64) -> Option<u64> {
        self.0.get(&number).map(|template| template.count)
    }

    /// Reads a hash of a file; `None` if it violates the format, or has an unknown template.
    pub(crate) fn read(
        &self,
        of: u8,
        reader: &mut Reader<'_>,
        target: ValueTarget<'_>,
        options: ValueOptions,
    ) -> Option<Entry> {
        let names = |number: u64| {
            let template = self.0.get(&number)?;
            let mut reader = Reader::new(&template.names);
            (0..template.count).map(|_| reader.string(options.len_max)).collect::<Option<Vec<_>>>()
        };
        if of == kind::HASH_TEMPLATE_ARRAY_REF {
            let names = names(reader.length()?)?;
            return read_array(&names, reader, target, options);
        }
        let packed = reader.string(options.len_max)?;
        let packed = Listpack::validate(&packed)?;
        let number = packed.iter().next()?.to_int()?;
        read_listpack(&names(u64::try_from(number).ok()?)?, packed, target)
    }
}

/// Reads a hash of a payload; `None` if it violates the format.
pub(super) fn read_whole(
    of: u8,
    reader: &mut Reader<'_>,
    target: ValueTarget<'_>,
    options: ValueOptions,
) -> Option<Entry> {
    let names: Vec<Cow<'_, [u8]>> = match reader.length()? {
        NAMES_IN_LISTPACK => {
            let packed = reader.string(options.len_max)?;
            let names = Listpack::validate(&packed)?.iter().map(|name| name.to_cow().into_owned().into());
            names.collect()
        }
        NAMES_AS_STRINGS => {
            let count = reader.length()?;
            (0..count).map(|_| reader.string(options.len_max)).collect::<Option<_>>()?
        }
        _ => return None,
    };
    if of == kind::HASH_TEMPLATE_ARRAY {
        return read_array(&names, reader, target, options);
    }
    let packed = reader.string(options.len_max)?;
    let packed = Listpack::validate(&packed)?;
    packed.iter().next()?.to_int()?; // the template's number at the server that has written the payload
    read_listpack(&names, packed, target)
}

/// Reads the values of fields as strings.
fn read_array(
    names: &[Cow<'_, [u8]>],
    reader: &mut Reader<'_>,
    target: ValueTarget<'_>,
    options: ValueOptions,
) -> Option<Entry> {
    let mut filling = Filling::new(target);
    filling.expect(names.len());
    for name in names {
        filling.add(name, &reader.string(options.len_max)?)?;
    }
    filling.finish()
}

/// Reads the values of fields from a listpack, whose first element is a number.
fn read_listpack(names: &[Cow<'_, [u8]>], packed: Listpack<'_>, target: ValueTarget<'_>) -> Option<Entry> {
    if packed.len() != names.len() + 1 {
        return None;
    }
    let mut filling = Filling::new(target);
    filling.expect(names.len());
    for (name, value) in names.iter().zip(packed.iter().skip(1)) {
        filling.add(name, &value.to_cow())?;
    }
    filling.finish()
}
