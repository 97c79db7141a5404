//! What a library registers while its text runs: its functions.

use mlua::{Function, Lua, MultiValue, Table, Value};
use parking_lot::Mutex;

use crate::script::arguments::Arguments;
use crate::script::dialect::reply_on_api;
use crate::script::shebang::Flags;
use crate::script::{raise, shebang};

/// The rule for names, as an error text.
pub(super) const NAME_RULE: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// A function registered by a library.
#[derive(Clone)]
pub(crate) struct Registered {
    /// Its name.
    pub name: Vec<u8>,
    /// The author's description.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: Flags,
    /// Set until the interpreter keeps the function under a number, because Rust can hold only a few Lua values.
    pub(super) function: Option<Function>,
}

/// The functions that a library registers while its text runs.
#[derive(Default)]
pub(super) struct Registrations(pub(super) Mutex<Vec<Registered>>);

/// The function `redis.register_function`.
pub(super) fn register(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    let Some(registrations) = lua.app_data_ref::<Registrations>() else {
        return Err(reply_on_api(lua, "redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let args = Arguments::new(lua, args);
    let registered = match args.len() {
        1 => named(lua, &args),
        2 => positional(lua, &args),
        _ => Err("wrong number of arguments to redis.register_function"),
    };
    let registered = registered.map_err(|complaint| reply_on_api(lua, complaint))?;
    let mut functions = registrations.0.lock();
    if !is_name(&registered.name) {
        return Err(raise::reply(NAME_RULE));
    }
    if functions.iter().any(|known| known.name == registered.name) {
        return Err(raise::reply("Function already exists in the library"));
    }
    functions.push(registered);
    Ok(())
}

/// Returns a string or a number as text.
fn text(lua: &Lua, value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            lua.coerce_string(value.clone()).ok().flatten().map(|text| text.as_bytes().to_vec())
        }
        _ => None,
    }
}

fn positional(lua: &Lua, args: &Arguments<'_>) -> Result<Registered, &'static str> {
    let name = text(lua, &args.value(1)).ok_or("first argument to redis.register_function must be a string")?;
    let Value::Function(function) = args.value(2) else {
        return Err("second argument to redis.register_function must be a function");
    };
    Ok(Registered { name, description: None, flags: 0, function: Some(function) })
}

fn named(lua: &Lua, args: &Arguments<'_>) -> Result<Registered, &'static str> {
    let Value::Table(named) = args.value(1) else {
        return Err(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
             arguments).",
        );
    };
    let (mut name, mut description, mut function, mut flags) = (None, None, None, 0);
    for pair in named.pairs::<Value, Value>() {
        let Ok((key, value)) = pair else { return Err("unknown argument given to redis.register_function") };
        let key = text(lua, &key).ok_or("named argument key given to redis.register_function is not a string")?;
        match &key.to_ascii_lowercase()[..] {
            b"function_name" => {
                let given = text(lua, &value);
                name = Some(given.ok_or("function_name argument given to redis.register_function must be a string")?);
            }
            b"description" => {
                let given = text(lua, &value);
                description =
                    Some(given.ok_or("description argument given to redis.register_function must be a string")?);
            }
            b"callback" => match value {
                Value::Function(given) => function = Some(given),
                _ => return Err("callback argument given to redis.register_function must be a function"),
            },
            b"flags" => match value {
                Value::Table(names) => flags = read_flags(lua, &names).ok_or("unknown flag given")?,
                _ => {
                    return Err(
                        "flags argument to redis.register_function must be a table representing function flags",
                    );
                }
            },
            _ => return Err("unknown argument given to redis.register_function"),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let function = function.ok_or("redis.register_function must get a callback argument")?;
    Ok(Registered { name, description, flags, function: Some(function) })
}

fn read_flags(lua: &Lua, names: &Table) -> Option<Flags> {
    let mut flags = 0;
    for index in 1.. {
        match names.raw_get::<Value>(index).ok()? {
            Value::Nil => break,
            name => flags |= shebang::flag(&text(lua, &name)?.to_ascii_lowercase())?,
        }
    }
    Some(flags)
}

/// Returns whether a library or function may have this name.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
