//! Test-only commands for features of the server itself; a server has them only with `Builder::with_test_commands`.

use std::sync::LazyLock;

use crate::command::timeout::read_timeout;
use crate::command::{FAMILIES, server};
use crate::dispatch::{Call, Command, Handlers};
use crate::error::Result;
use crate::spec::{ACCESS, BLOCKING, DELETE, Effect, Group, RW, WRITE, integer, key};
use crate::store::{Lookup, Str};

const COMMANDS: &[Command] = &[Command::new("TEST.BGETDEL", blocking_getdel, WRITE | BLOCKING, Group::String)
    .effect(Effect::Given)
    .args(&[key("key", RW | ACCESS | DELETE).multiple(), integer("timeout")])
    .docs("1.0.0", "O(N) where N is the number of keys", "Removes the first key that exists, or waits for one.")];

/// Returns the commands of every server and those of this file.
pub(crate) fn handlers() -> &'static Handlers {
    static HANDLERS: LazyLock<Handlers> = LazyLock::new(|| {
        let families: Vec<&'static [Command]> = FAMILIES.iter().copied().chain([COMMANDS]).collect();
        Handlers::new(&families, server::help::row)
    });
    &HANDLERS
}

/// Replies with the name and the value of the first key that holds a string, and deletes it; keys of other types are
/// skipped.
fn blocking_getdel(call: &mut Call<'_>) -> Result<()> {
    while call.args.left() > 1 {
        let key = call.args.key()?;
        if let Ok(Some(text)) = call.view.get::<Str>(key, Lookup::READ) {
            call.reply.array(2);
            call.reply.bulk(key.bytes);
            call.reply.bulk(text.as_slice());
            call.view.remove(key);
            call.log(&[b"DEL", key.bytes]);
            return Ok(());
        }
    }
    let until_ms = read_timeout(call)?;
    call.block_on_keys::<Str>(until_ms, |reply| reply.null_array());
    Ok(())
}
