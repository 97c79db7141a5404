//! Registration of functions by the text of a library while it runs.

use keylatch_lua::{Kind, Raised};

use crate::script::raise::reply_on_api;
use crate::script::shared::{Registered, VmStack, set_native, stored};
use crate::script::shebang::ScriptFlags;
use crate::script::{raise, shebang};

/// The rule for names, as an error text.
pub(super) const NAME_RULE: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// The fields of the table `redis` that a library sees while it is loaded, besides `register_function`.
const WHILE_LOADING: [&str; 7] =
    ["log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM"];

/// Stores the globals that a library sees while it is loaded.
pub(super) fn store_environment(frame: &mut VmStack<'_>) {
    let base = frame.top();
    frame.push_stored(stored::GLOBALS);
    frame.push_field(base + 1, "redis");
    frame.push_metatable(base + 2);
    frame.push_field(base + 3, "__index");
    let (globals, redis) = (base + 1, base + 4);
    frame.push_table(0, 8);
    let api = frame.top();
    set_native(frame, "register_function", register);
    for name in WHILE_LOADING {
        frame.push_field(redis, name);
        frame.set_field(api, name);
    }
    frame.push_metatable(globals);
    frame.set_metatable(api);
    frame.protect();
    frame.push_table(0, 2);
    let environment = frame.top();
    for name in ["redis", "server"] {
        frame.push_copy(api);
        frame.set_field(environment, name);
    }
    frame.push_metatable(globals);
    frame.set_metatable(environment);
    frame.store(stored::WHILE_LOADING);
    frame.set_top(base);
}

/// Formats the error on the top, raised by a library's text.
pub(super) fn loading_error(frame: &mut VmStack<'_>) -> Vec<u8> {
    let error = frame.top();
    let is_table = frame.kind(error) == Kind::Table;
    if is_table {
        frame.push_field(error, "err");
    }
    let at = frame.top();
    let text = if frame.to_string(at) { frame.bytes(at).unwrap_or_default() } else { b"" };
    if is_table { text.to_vec() } else { [b"ERR ", text].concat() }
}

/// Implements `redis.register_function`.
fn register(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    if frame.data().registered.borrow().is_none() {
        return Err(reply_on_api(frame, "redis.register_function can only be called on FUNCTION LOAD command"));
    }
    let registered = match frame.top() {
        1 => named(frame),
        2 => positional(frame),
        _ => Err("wrong number of arguments to redis.register_function"),
    };
    let mut registered = match registered {
        Ok(registered) => registered,
        Err(complaint) => return Err(reply_on_api(frame, complaint)),
    };
    if !is_name(&registered.name) {
        return Err(raise::reply(frame, NAME_RULE));
    }
    let is_known = |known: &Vec<Registered>| known.iter().any(|known| known.name == registered.name);
    if frame.data().registered.borrow().as_ref().is_some_and(is_known) {
        return Err(raise::reply(frame, "Function already exists in the library"));
    }
    let number = frame.data().registered_number.get() + 1;
    frame.data().registered_number.set(number);
    let callback = frame.top();
    frame.push_stored(stored::FUNCTIONS);
    frame.push_copy(callback);
    frame.set_item(callback + 1, number);
    registered.number = number as usize;
    if let Some(functions) = frame.data().registered.borrow_mut().as_mut() {
        functions.push(registered);
    }
    Ok(0)
}

/// Returns a string or a number as text, without converting the original, which may be a key.
fn text(frame: &mut VmStack<'_>, position: usize) -> Option<Vec<u8>> {
    frame.push_copy(position);
    let at = frame.top();
    let text = frame.to_string(at).then(|| frame.bytes(at).unwrap_or_default().to_vec());
    frame.pop();
    text
}

/// Reads a name and a function, which stays on the top.
fn positional(frame: &mut VmStack<'_>) -> Result<Registered, &'static str> {
    let name = text(frame, 1).ok_or("first argument to redis.register_function must be a string")?;
    match frame.kind(2) {
        Kind::Function => Ok(Registered { name, description: None, flags: 0, number: 0 }),
        _ => Err("second argument to redis.register_function must be a function"),
    }
}

/// Reads a table of named arguments; the function stays on the top.
fn named(frame: &mut VmStack<'_>) -> Result<Registered, &'static str> {
    if frame.kind(1) != Kind::Table {
        return Err(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
             arguments).",
        );
    }
    let (mut name, mut description, mut flags) = (None, None, 0);
    frame.push_nil(); // the function
    frame.push_nil(); // the first key
    while frame.next(1) {
        let (key, value) = (frame.top() - 1, frame.top());
        let key = text(frame, key).ok_or("named argument key given to redis.register_function is not a string")?;
        match &key.to_ascii_lowercase()[..] {
            b"function_name" => {
                let given = text(frame, value);
                name = Some(given.ok_or("function_name argument given to redis.register_function must be a string")?);
            }
            b"description" => {
                let given = text(frame, value);
                description =
                    Some(given.ok_or("description argument given to redis.register_function must be a string")?);
            }
            b"callback" if frame.kind(value) == Kind::Function => frame.replace(2, value),
            b"callback" => return Err("callback argument given to redis.register_function must be a function"),
            b"flags" if frame.kind(value) == Kind::Table => {
                flags = read_flags(frame, value).ok_or("unknown flag given")?;
            }
            b"flags" => {
                return Err("flags argument to redis.register_function must be a table representing function flags");
            }
            _ => return Err("unknown argument given to redis.register_function"),
        }
        frame.set_top(3);
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    match frame.kind(2) {
        Kind::Function => Ok(Registered { name, description, flags, number: 0 }),
        _ => Err("redis.register_function must get a callback argument"),
    }
}

fn read_flags(frame: &mut VmStack<'_>, names: usize) -> Option<ScriptFlags> {
    let mut flags = 0;
    for index in 1.. {
        frame.push_item(names, index);
        let at = frame.top();
        if frame.kind(at) == Kind::Nil {
            break;
        }
        flags |= shebang::flag(&text(frame, at)?.to_ascii_lowercase())?;
        frame.pop();
    }
    frame.set_top(names);
    Some(flags)
}

/// Returns true if a library or function may have this name.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
