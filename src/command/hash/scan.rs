//! HSCAN: iterates over the fields of a hash.

use crate::command::element_expiry::unexpired_key;
use crate::command::hash::fields::reply_text;
use crate::command::scan_elements::{ElementScan, NO_VALUES, read_cursor, reply_nothing};
use crate::dispatch::Call;
use crate::error::Result;
use crate::resp::Reply;
use crate::store::Lookup;

pub(super) fn hscan(call: &mut Call<'_>) -> Result<()> {
    let (key, cursor) = (unexpired_key(call)?, read_cursor(&mut call.args)?);
    let Some(hash) = call.view.get_hash(key, Lookup::READ)? else {
        reply_nothing(&mut call.reply);
        return Ok(());
    };
    let options = ElementScan::read(cursor, &mut call.args, Some(NO_VALUES))?;
    let visit = |reply: &mut Reply<'_>, position: u64| {
        let (mut visited, mut written) = (0, 0);
        let next = hash.scan(position, |field, value| {
            visited += 1;
            if !field.with(|field| options.admits(field)) {
                return;
            }
            reply_text(reply, field);
            written += 1;
            if !options.is_bare {
                reply_text(reply, value);
                written += 1;
            }
        });
        (visited, written, next)
    };
    if hash.is_packed() {
        options.reply_packed(&mut call.reply, |reply| visit(reply, 0).1);
    } else {
        options.reply_table(&mut call.reply, visit);
    }
    Ok(())
}
