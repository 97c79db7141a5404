//! The dialect of the errors that scripts see.

use std::sync::Arc;

use mlua::{Error, Lua};

use crate::script::control::Control;
use crate::script::raise;
use crate::text::Dialect;

/// Returns the dialect of errors in scripts.
pub(super) fn of(lua: &Lua) -> Dialect {
    lua.app_data_ref::<Arc<Control>>().map_or(Dialect::Redis, |control| control.dialect())
}

/// Creates an error table whose message names a function of the table `redis`, or `server` in Valkey's dialect.
pub(super) fn reply_on_api(lua: &Lua, message: &str) -> Error {
    match of(lua) {
        Dialect::Redis => raise::reply(message),
        Dialect::Valkey => raise::reply(message.replace("redis.", "server.")),
    }
}
