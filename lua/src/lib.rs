//! Links Lua 5.1.5, with the repairs of all advisories published for it as Redis embeds it, into keylatch.
//!
//! There is nothing to call here: the interpreter is used through `mlua`, whose feature `external` leaves it to another
//! crate to bring one. Its README names the origin of the sources and every change.
