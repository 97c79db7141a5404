//! The type of the project's own tests. It shows what a row needs.

use crate::memory::marked::MarkedBytes;
use crate::rdb::shape::PayloadPart::Str;
use crate::rdb::{Compression, VERSION, seal, write_string};
use crate::resp::write_command;
use crate::store::entry::Entry;
use crate::store::value::{DataType, Toy, Type};
use crate::types::spec::{CommandFormat, PayloadFormat, TypeNumber, TypeSpec};

/// The number of the type in payloads, which no other server uses.
const NUMBER: u8 = 200;

pub(super) const SPEC: TypeSpec = TypeSpec {
    of: Type::Toy,
    encoding: |_| "text",
    numbers: &[TypeNumber::new(NUMBER, &[Str])],
    payload: PayloadFormat {
        number: |_, _| NUMBER,
        write: |out, _, entry, options| write_string(out, Toy::read(entry), options.compression),
        begin: |_, _, _, _| None,
        read: |_, reader, target, options| {
            let text = reader.string(options.len_max).filter(|text| !text.is_empty())?;
            let mut entry = Toy::create(target.key);
            Toy::write(&mut entry).set(&text);
            entry.set_deadline(target.deadline);
            Some(entry)
        },
    },
    commands: CommandFormat { write: write_restore, begin: |_, _, _| None },
    digest: |digest, entry| {
        digest.mix_type(u32::from(NUMBER));
        digest.mix(Toy::read(entry));
    },
};

/// Appends RESTORE with the payload, because the type has no commands of its own.
fn write_restore(out: &mut Vec<u8>, entry: &Entry, _: i64) {
    let mut payload = MarkedBytes::from(vec![NUMBER]);
    write_string(&mut payload, Toy::read(entry), Compression::Never);
    write_command(out, &[b"RESTORE", entry.key(), b"0", &seal(payload.into_bytes(), VERSION)]);
}
