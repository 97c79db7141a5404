//! The type of the project's own tests. It shows what the row of a module type needs.

use crate::rdb::module::{ModuleId, ModuleReader, write_text};
use crate::store::entry::Entry;
use crate::store::value::{DataType, Toy, Type};
use crate::types::spec::{PayloadFormat, TypeSpec};

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::Toy,
    encoding: |_| "text",
    module: Some(ModuleId::new(b"toy---txt", 1)),
    numbers: &[],
    payload: PayloadFormat::of_module(
        |out, _, entry, options| write_text(out, Toy::read(entry), options.compression),
        |version, reader, target, options| {
            let text = ModuleReader(reader).text(options.len_max).filter(|text| version == 1 && !text.is_empty())?;
            Some(Entry::flat::<Toy>(target.key, text.into_owned(), target.deadline))
        },
    ),
    commands: None,
    digest: |digest, entry| digest.mix(Toy::read(entry)),
};
