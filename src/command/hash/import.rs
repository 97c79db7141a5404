//! HIMPORT: hashes with the same fields, which the connection names once.

use crate::client::fieldsets::Fieldset;
use crate::command::hash::fields::{HSET, growth};
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{DENY_OOM, Effect, Group, NO_ENGINE, NO_SCRIPT, OW, UPDATE, WRITE, key, string};

use crate::store::Lookup;
use crate::store::value::{DataType, Hash};

#[rustfmt::skip] // one command, the same few lines
pub(super) const SUBCOMMANDS: &[Command] = &[
    Command::new("DISCARD", discard, NO_SCRIPT | NO_ENGINE, Group::Hash)
        .args(&[string("fieldset-name")])
        .docs("8.10.0", "O(N) where N is the number of fields in the fieldset.", "Forgets a fieldset of the connection."),
    Command::new("DISCARDALL", discard_all, NO_SCRIPT | NO_ENGINE, Group::Hash)
        .docs("8.10.0", "O(N) where N is the number of fields in all fieldsets.", "Forgets all fieldsets of the connection."),
    Command::new("PREPARE", prepare, DENY_OOM | NO_SCRIPT | NO_ENGINE, Group::Hash)
        .args(&[string("fieldset-name"), string("field").multiple()])
        .docs("8.10.0", "O(N*log(N)) where N is the number of fields.", "Names the fields of hashes to be stored, for this connection."),
    Command::new("SET", set, WRITE | DENY_OOM | NO_SCRIPT | NO_ENGINE, Group::Hash)
        .effect(Effect::Values)
        .args(&[key("key", OW | UPDATE), string("fieldset-name"), string("value").multiple()])
        .docs("8.10.0", "O(N) where N is the number of fields in the fieldset.", "Stores a hash with the fields of a fieldset, whatever the key held before."),
];

fn prepare(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?;
    let fields: Vec<&[u8]> = call.args.rest().collect();
    let mut sorted = fields.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::other("duplicate field name in fieldset"));
    }
    let (caller, session) = call.connection()?;
    let growth = session.fieldsets.get_or_insert_default().insert(name, &fields);
    caller.info.buffers.add_kept_len(growth);
    call.reply.ok();
    Ok(())
}

fn set(call: &mut Call<'_>) -> Result<()> {
    let (key, name) = (call.args.key()?, call.args.bytes()?);
    let fieldset = call.session()?.fieldsets.as_ref().and_then(|fieldsets| fieldsets.get(name)).map(Fieldset::clone);
    let fieldset = fieldset.ok_or(Error::other("no such fieldset"))?;
    if call.args.left() != fieldset.len() {
        return Err(Error::other("value count does not match fieldset"));
    }
    call.view.get::<Hash>(key, Lookup::WRITE)?;
    let growth = growth(call);
    let mut entry = Hash::create(key.bytes);
    let mut hash = Hash::write(&mut entry);
    hash.expect_fields(fieldset.len(), growth);
    for (field, value) in fieldset.iter().zip(call.args.rest()) {
        hash.set(field, value, growth);
    }
    entry.fit();
    call.view.overwrite(key, entry, HSET, fieldset.len() as u64);
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?;
    let (caller, session) = call.connection()?;
    let removed = session.fieldsets.as_mut().and_then(|fieldsets| fieldsets.remove(name));
    caller.info.buffers.add_kept_len(-removed.unwrap_or(0));
    call.reply.int(i64::from(removed.is_some()));
    Ok(())
}

fn discard_all(call: &mut Call<'_>) -> Result<()> {
    let count = forget_all(call)?;
    call.reply.int(count as i64);
    Ok(())
}

/// Forgets all fieldsets of the connection; returns their number.
pub(crate) fn forget_all(call: &mut Call<'_>) -> Result<usize> {
    let (caller, session) = call.connection()?;
    let Some(fieldsets) = session.fieldsets.take() else { return Ok(0) };
    caller.info.buffers.add_kept_len(-fieldsets.memory());
    Ok(fieldsets.len())
}
