//! Finds out from compiled code what a script does to tables that others have, too: globals and lists of arguments.
//!
//! A script sees fronts instead of the tables that scripts share (`sandbox.c`), because it could write to them, and an
//! access through a front is three look-ups. Most scripts only read fields: `redis.call`, `KEYS[1]`, `string.format`. Where
//! the compiled code shows it, they are given the tables themselves (`globals.rs`). It does if no function in it
//!
//! - writes a global,
//! - uses `_G`, or compiles text, which would have other globals, or
//! - uses a global table otherwise than to replace it in its register by a field of it, or by its length, with the next
//!   instruction: so nothing has the table afterwards that could write to it.
//!
//! In the same way, a list of arguments is used again for the next script if this one only reads items of it. Those of
//! functions are not globals but parameters, in the first two registers: no instruction may read these otherwise.
//!
//! What is read is what `lua_dump` writes, described by "A No-Frills Introduction to Lua 5.1 VM Instructions". Of code in a
//! form that is not known, a script may do anything.

/// The names of the tables of a script's arguments.
pub(super) const KEYS: &[u8] = b"KEYS";
pub(super) const ARGV: &[u8] = b"ARGV";

/// What a script or function may do to tables that others have, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Anything.
    Any,
    /// Read fields of those that scripts share; anything to its arguments.
    AnyToLists,
    /// Read fields.
    Reads,
}

/// How the compiled code of Lua 5.1 begins on this kind of machine: little-endian, numbers of 4, 8, 4 and 8 bytes.
const HEADER: &[u8] = b"\x1bLuaQ\0\x01\x04\x08\x04\x08\0";
/// How deep functions may be nested; the compiler allows 200.
const DEPTH_MAX: usize = 250;
/// The globals that lead to the table of all globals, or to code that is compiled later.
const OTHERS: [&[u8]; 3] = [b"_G", b"load", b"loadstring"];

/// The numbers of instructions.
const MOVE: u32 = 0;
const LOAD_CONSTANT: u32 = 1;
const GET_GLOBAL: u32 = 5;
const GET_TABLE: u32 = 6;
const SET_GLOBAL: u32 = 7;
const SET_TABLE: u32 = 9;
const NEW_TABLE: u32 = 10;
const SELF: u32 = 11;
const ADD: u32 = 12;
const POWER: u32 = 17;
const UNARY_MINUS: u32 = 18;
const NOT: u32 = 19;
const LEN: u32 = 20;
const CONCATENATE: u32 = 21;
const JUMP: u32 = 22;
const EQUAL: u32 = 23;
const LESS_OR_EQUAL: u32 = 25;
const TEST_AND_SET: u32 = 27;
const RETURN: u32 = 30;
const CLOSE: u32 = 35;
const VARIADIC: u32 = 37;

impl Access {
    /// Returns what a script may do, given its compiled code and which globals are tables that scripts share.
    pub(super) fn of(compiled: &[u8], mut is_shared: impl FnMut(&[u8]) -> bool) -> Self {
        let Some(rest) = compiled.strip_prefix(HEADER) else { return Access::Any };
        Reader { rest }.access(&mut is_shared, 0).unwrap_or(Access::Any)
    }

    /// Returns what a function may do to its first two parameters, given its compiled code.
    pub(super) fn of_function(compiled: &[u8]) -> Self {
        let reads = || Reader { rest: compiled.strip_prefix(HEADER)? }.reads_parameters();
        if reads() == Some(true) { Access::Reads } else { Access::AnyToLists }
    }
}

/// Reads compiled code; `None` where it ends too early.
struct Reader<'c> {
    rest: &'c [u8],
}

impl<'c> Reader<'c> {
    fn take(&mut self, len: usize) -> Option<&'c [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn int(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.first_chunk()?;
        usize::try_from(i32::from_le_bytes(*bytes)).ok()
    }

    /// Reads a string, without the NUL at its end.
    fn string(&mut self) -> Option<&'c [u8]> {
        let len = u64::from_le_bytes(*self.take(8)?.first_chunk()?);
        let bytes = self.take(usize::try_from(len).ok()?)?;
        Some(bytes.strip_suffix(b"\0").unwrap_or(bytes))
    }

    /// Reads the beginning of a function, with its instructions.
    fn head(&mut self) -> Option<Head<'c>> {
        self.string()?;
        self.take(2 * 4)?; // lines
        let &[_, parameters, variadic, _] = self.take(4)? else { return None };
        let instructions = self.int()?;
        Some(Head { parameters, is_variadic: variadic != 0, code: self.take(instructions.checked_mul(4)?)? })
    }

    /// Returns whether a function only reads fields of the tables that are its first two parameters.
    fn reads_parameters(&mut self) -> Option<bool> {
        let head = self.head()?;
        let lists = u32::from(head.parameters.min(2));
        Some(!head.is_variadic && !instructions(head.code).any(|instruction| gives_away(instruction, lists)))
    }

    /// Reads a function, and those in it.
    fn access(&mut self, is_shared: &mut impl FnMut(&[u8]) -> bool, depth: usize) -> Option<Access> {
        if depth > DEPTH_MAX {
            return None;
        }
        let code = self.head()?.code;
        let names = self.constants()?;
        let mut access = access_by(code, &names, is_shared)?;
        for _ in 0..self.int()? {
            if access == Access::Any {
                return Some(access);
            }
            access = access.min(self.access(is_shared, depth + 1)?);
        }
        self.skip_debug_information()?;
        Some(access)
    }

    /// Reads the constants; those that are strings may be names.
    fn constants(&mut self) -> Option<Vec<Option<&'c [u8]>>> {
        let count = self.int()?;
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(match self.take(1)?.first()? {
                0 => None,
                1 => self.take(1).map(|_| None)?,
                3 => self.take(8).map(|_| None)?,
                4 => Some(self.string()?),
                _ => return None,
            });
        }
        Some(names)
    }

    fn skip_debug_information(&mut self) -> Option<()> {
        let lines = self.int()?;
        self.take(lines.checked_mul(4)?)?;
        for _ in 0..self.int()? {
            self.string()?;
            self.take(2 * 4)?;
        }
        for _ in 0..self.int()? {
            self.string()?;
        }
        Some(())
    }
}

/// How a function begins.
struct Head<'c> {
    parameters: u8,
    is_variadic: bool,
    code: &'c [u8],
}

fn instructions(code: &[u8]) -> impl Iterator<Item = u32> {
    code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// Returns what the instructions of a function may do; `None` for instructions that cannot be.
fn access_by(code: &[u8], names: &[Option<&[u8]>], is_shared: &mut impl FnMut(&[u8]) -> bool) -> Option<Access> {
    let mut access = Access::Reads;
    let mut code = instructions(code).peekable();
    while let Some(instruction) = code.next() {
        match instruction & 0x3f {
            SET_GLOBAL => return Some(Access::Any),
            GET_GLOBAL => {
                let name = (*names.get((instruction >> 14) as usize)?)?;
                let is_read = reads_from(*code.peek()?, operands(instruction)[0]);
                match name {
                    _ if OTHERS.contains(&name) => return Some(Access::Any),
                    _ if is_read => {}
                    KEYS | ARGV => access = Access::AnyToLists,
                    _ if is_shared(name) => return Some(Access::Any),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Some(access)
}

/// Returns whether an instruction replaces a table in a register by one of its fields, or by its length.
fn reads_from(instruction: u32, table: u32) -> bool {
    let [to, from, _] = operands(instruction);
    matches!(instruction & 0x3f, GET_TABLE | LEN) && to == table && from == table
}

/// Returns whether an instruction reads one of the first registers otherwise than for a field or the length of the table
/// in it.
fn gives_away(instruction: u32, registers: u32) -> bool {
    let [a, b, c] = operands(instruction).map(|operand| operand < registers);
    match instruction & 0x3f {
        LOAD_CONSTANT..=GET_GLOBAL | NEW_TABLE | JUMP | CLOSE..=VARIADIC | LEN => false,
        GET_TABLE => c,
        MOVE | UNARY_MINUS | NOT | CONCATENATE | TEST_AND_SET => b,
        SELF | ADD..=POWER | EQUAL..=LESS_OR_EQUAL => b || c,
        SET_TABLE => a || b || c,
        RETURN => a && operands(instruction)[1] != 1, // 1 is for no value
        _ => a,
    }
}

/// Returns the operands A, B and C of an instruction.
fn operands(instruction: u32) -> [u32; 3] {
    [instruction >> 6 & 0xff, instruction >> 23, instruction >> 14 & 0x1ff]
}

#[cfg(test)]
mod tests {
    use keylatch_lua::{Lua, Supervisor};

    use super::*;

    struct Patient;

    impl Supervisor for Patient {
        fn interrupt(&self) -> Result<(), &'static str> {
            Ok(())
        }

        fn now_us(&self) -> u64 {
            0
        }
    }

    fn compiled(text: &str) -> Vec<u8> {
        let mut lua = Lua::new(Patient).expect("memory for an interpreter");
        let mut frame = lua.frame();
        frame.compile(text.as_bytes(), "=test").expect("a text that compiles");
        frame.dump()
    }

    fn access(text: &str) -> Access {
        Access::of(&compiled(text), |name| matches!(name, b"redis" | b"string"))
    }

    #[test]
    fn scripts_that_read_fields_of_global_tables_do_nothing_else() {
        for text in [
            "return 1",
            "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end",
            "local call = redis.call for i = 1, #KEYS do call('del', KEYS[i]) end return #ARGV + 1",
            "local function f(n) return string.rep(ARGV[1], n) end return f(3), tostring(1), pcall(redis.call, 'x')",
            "local name = 'call' return redis[name]('ping')",
        ] {
            assert_eq!(access(text), Access::Reads, "{text}");
        }
    }

    #[test]
    fn scripts_that_give_away_their_lists_may_do_anything_to_them() {
        for text in [
            "KEYS[1] = 'k'",
            "return KEYS",
            "return {ARGV}",
            "local function f() return KEYS end f()[1] = 'k'",
            "return redis.call('del', unpack(KEYS))",
            "for _, key in ipairs(KEYS) do redis.call('del', key) end",
            "return function() return setmetatable(ARGV, {}) end",
        ] {
            assert_eq!(access(text), Access::AnyToLists, "{text}");
        }
    }

    #[test]
    fn scripts_that_may_write_to_a_shared_table_may_do_anything() {
        for text in [
            "x = 1",
            "return function() x = 1 end",
            "KEYS = {}",
            "redis.call = nil",
            "local r = redis r.call = nil",
            "local function f() return string end f().rep = nil",
            "setmetatable(string, {})",
            "rawset(redis, 'call', nil)",
            "string:rep(2)",
            "return (redis or string).call",
            "local r = redis and redis.call return r",
            "return redis[tostring(1)]",
            "_G.x = 1",
            "return loadstring('x = 1')",
            "return load(function() end)",
            "return coroutine.wrap(function() return string end)()",
        ] {
            assert_eq!(access(text), Access::Any, "{text}");
        }
    }

    /// Returns what the function may do that a text returns.
    fn access_to_parameters(text: &str) -> Access {
        let mut lua = Lua::new(Patient).expect("memory for an interpreter");
        let mut frame = lua.frame();
        frame.compile(text.as_bytes(), "=test").expect("a text that compiles");
        frame.call(0, 0).expect("a text that returns");
        Access::of_function(&frame.dump())
    }

    #[test]
    fn functions_that_read_items_of_their_lists_do_nothing_else() {
        for text in [
            "return function() return 1 end",
            "return function(keys) return redis.call('del', keys[1]) end",
            "return function(KEYS, ARGV) if redis.call('get', KEYS[1]) == ARGV[1] then return 1 else return 0 end end",
            "return function(keys, args) for i = 1, #keys do f() local x = {keys[i], args[i] .. args[i + 1]} end end",
            "return function(keys, args, more) more = more or 1 return more end",
            "local n = 0 return function(keys, args) n = n + 1 while n < 3 do n = -n end return f(n), not n end",
            "return function(keys, args) local g = function(t) return t end return g(keys[1]) end",
        ] {
            assert_eq!(access_to_parameters(text), Access::Reads, "{text}");
        }
    }

    #[test]
    fn functions_that_give_away_their_lists_may_do_anything_to_them() {
        for text in [
            "return function(keys) return keys end",
            "return function(keys, args) return args end",
            "return function(keys, args) keys[1] = 1 end",
            "return function(keys, args) local t = {} t[keys] = 1 end",
            "return function(keys, args) local t = {} t.x = args end",
            "return function(keys, args) return {keys} end",
            "return function(keys, args) return f(args) end",
            "return function(keys, args) return function() return args[1] end end",
            "return function(keys, args) keys:f() end",
            "return function(keys, args) local t = {} return t[keys] end",
            "return function(keys, args) return keys == args end",
            "return function(keys, args) return keys .. 'x' end",
            "return function(keys, args) return 'x' .. args end",
            "return function(keys, args) return -keys end",
            "return function(keys, args) local both = keys or args both[1] = 1 end",
            "return function(keys, args) x = keys end",
            "local up return function(keys, args) up = args end",
            "return function(keys, args) for key in args do end end",
            "return function(...) return ... end",
            "return function(keys, ...) return select(1, ...) end",
            "return tostring",
        ] {
            assert_eq!(access_to_parameters(text), Access::AnyToLists, "{text}");
        }
    }

    #[test]
    fn code_that_is_cut_or_of_another_form_may_do_anything() {
        let code = compiled("local s = 'x' return function() return redis.call(s, KEYS[1]) end");
        assert_eq!(Access::of(&code, |_| true), Access::Reads);
        for len in 0..code.len() {
            assert_eq!(Access::of(&code[..len], |_| true), Access::Any, "{len} bytes");
        }
        for at in 0..HEADER.len() {
            let mut other = code.clone();
            other[at] ^= 1;
            assert_eq!(Access::of(&other, |_| true), Access::Any, "byte {at}");
        }
    }
}
