//! The dialect of the errors that scripts see.

use keylatch_lua::Raised;

use crate::script::raise;
use crate::script::shared::VmStack;
use crate::text::Dialect;

/// Creates an error table whose message names a function of the table `redis`, or `server` in Valkey's dialect.
pub(super) fn reply_on_api(frame: &mut VmStack<'_>, message: &str) -> Raised {
    match frame.data().control.dialect() {
        Dialect::Redis => raise::reply(frame, message),
        Dialect::Valkey => raise::reply(frame, message.replace("redis.", "server.")),
    }
}
