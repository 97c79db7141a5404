//! JSON documents: JSON.SET, JSON.GET and related commands.
//!
//! Most commands take a path in one of two dialects ([`args::DocumentPath`]): one of JSONPath, which begins with `$`, is answered
//! with one value for each place that it names; one of the older dialect with that of a single place, or an error.

mod args;
mod arrays;
mod change;
mod get;
mod inspect;
mod remove;
mod scalars;
mod set;

use crate::dispatch::Command;
use crate::spec::{
    ACCESS, Arg, DELETE, DENY_OOM, Effect, Group, OW, READ, RO, RW, UPDATE, WRITE, block, double, integer, key, one_of,
    string, token,
};

const READ_KEY: Arg = key("key", RO | ACCESS);
const CHANGED_KEY: Arg = key("key", RW | UPDATE);
const SHRUNK_KEY: Arg = key("key", RW | DELETE);
const PATH: Arg = string("path");
const OPTIONAL_PATH: Arg = string("path").optional();
const VALUE: Arg = string("value");
const FORMAT: Arg = string("format").token("FORMAT").optional();
const TRIPLET: Arg = block("triplet", &[key("key", OW | UPDATE), PATH, VALUE]).multiple();
const CONDITION: Arg = one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional();

const PLACE_COST: &str =
    "O(1) for one place, O(N) where N is the size of the document for a path that may name several.";
const VALUE_COST: &str = "O(N) where N is the size of the value, or of the document for a path that may name several.";
const SET_COST: &str = "O(M+N) where M is the size of the document and N that of the new values.";
const MSET_COST: &str =
    "O(K*(M+N)) where K is the number of keys, M the size of a document and N that of the new values.";
const MGET_COST: &str = "O(N) where N is the size of all documents.";
const ARRAY_COST: &str = "O(N) where N is the size of the array, or of the document for a path that may name several.";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("JSON.ARRAPPEND", arrays::append, WRITE | DENY_OOM, Group::Json)
        .args(&[CHANGED_KEY, PATH, VALUE.multiple()])
        .docs("1.0.0", PLACE_COST, "Appends values to an array."),
    Command::new("JSON.ARRINDEX", inspect::arrindex, READ, Group::Json)
        .args(&[READ_KEY, PATH, VALUE, block("range", &[integer("start"), integer("stop").optional()]).optional()])
        .docs("1.0.0", ARRAY_COST, "Returns the index of the first element of an array that equals a value."),
    Command::new("JSON.ARRINSERT", arrays::insert, WRITE | DENY_OOM, Group::Json)
        .args(&[CHANGED_KEY, PATH, integer("index"), VALUE.multiple()])
        .docs("1.0.0", ARRAY_COST, "Inserts values into an array before an index."),
    Command::new("JSON.ARRLEN", inspect::arrlen, READ, Group::Json)
        .args(&[READ_KEY, OPTIONAL_PATH])
        .docs("1.0.0", PLACE_COST, "Returns the number of elements of an array."),
    Command::new("JSON.ARRPOP", arrays::pop, WRITE, Group::Json)
        .args(&[SHRUNK_KEY, FORMAT, block("path", &[PATH, integer("index").optional()]).optional()])
        .docs("1.0.0", ARRAY_COST, "Removes an element of an array, by default the last, and returns it."),
    Command::new("JSON.ARRTRIM", arrays::trim, WRITE, Group::Json)
        .args(&[SHRUNK_KEY, PATH, integer("start"), integer("stop")])
        .docs("1.0.0", ARRAY_COST, "Removes the elements of an array outside a range."),
    Command::new("JSON.CLEAR", remove::clear, WRITE, Group::Json)
        .args(&[SHRUNK_KEY, OPTIONAL_PATH.multiple()])
        .docs("2.0.0", VALUE_COST, "Empties arrays and objects, and sets numbers to 0."),
    Command::new("JSON.DEBUG", inspect::debug, READ, Group::Json)
        .args(&[string("subcommand"), key("key", RO).optional(), OPTIONAL_PATH])
        .docs("1.0.0", VALUE_COST, "Returns the memory of a value (MEMORY), or help (HELP)."),
    Command::new("JSON.DEL", remove::del, WRITE, Group::Json)
        .args(&[SHRUNK_KEY, OPTIONAL_PATH])
        .docs("1.0.0", VALUE_COST, "Removes values, or the key if nothing is left."),
    Command::new("JSON.FORGET", remove::del, WRITE, Group::Json)
        .args(&[SHRUNK_KEY, OPTIONAL_PATH])
        .docs("1.0.0", VALUE_COST, "Removes values, as JSON.DEL does."),
    Command::new("JSON.GET", get::get, READ, Group::Json)
        .args(&[
            READ_KEY,
            string("indent").token("INDENT").optional(),
            string("newline").token("NEWLINE").optional(),
            string("space").token("SPACE").optional(),
            FORMAT,
            OPTIONAL_PATH.multiple(),
        ])
        .docs("1.0.0", VALUE_COST, "Returns values as JSON text."),
    Command::new("JSON.MERGE", set::merge, WRITE | DENY_OOM, Group::Json)
        .args(&[CHANGED_KEY, PATH, VALUE])
        .arity(-4)
        .docs("2.6.0", SET_COST, "Merges a value into values, as RFC 7396 describes it."),
    Command::new("JSON.MGET", get::mget, READ, Group::Json)
        .args(&[READ_KEY.multiple(), PATH])
        .docs("1.0.0", MGET_COST, "Returns the values of several keys as JSON text."),
    Command::new("JSON.MSET", set::mset, WRITE | DENY_OOM, Group::Json)
        .args(&[TRIPLET])
        .docs("2.6.0", MSET_COST, "Sets values of several keys."),
    Command::new("JSON.NUMINCRBY", scalars::numincrby, WRITE, Group::Json)
        .args(&[CHANGED_KEY, PATH, double("value")])
        .docs("1.0.0", PLACE_COST, "Adds to a number."),
    Command::new("JSON.NUMMULTBY", scalars::nummultby, WRITE, Group::Json)
        .args(&[CHANGED_KEY, PATH, double("value")])
        .docs("1.0.0", PLACE_COST, "Multiplies a number."),
    Command::new("JSON.NUMPOWBY", scalars::numpowby, WRITE, Group::Json)
        .effect(Effect::Values) // powers of fractions depend on the machine
        .args(&[CHANGED_KEY, PATH, double("value")])
        .docs("1.0.0", PLACE_COST, "Raises a number to a power."),
    Command::new("JSON.OBJKEYS", inspect::objkeys, READ, Group::Json)
        .args(&[READ_KEY, OPTIONAL_PATH])
        .docs("1.0.0", VALUE_COST, "Returns the names of the members of an object."),
    Command::new("JSON.OBJLEN", inspect::objlen, READ, Group::Json)
        .args(&[READ_KEY, OPTIONAL_PATH])
        .docs("1.0.0", PLACE_COST, "Returns the number of members of an object."),
    Command::new("JSON.RESP", get::resp, READ, Group::Json)
        .args(&[READ_KEY, OPTIONAL_PATH])
        .docs("1.0.0", VALUE_COST, "Returns a value in the types of the protocol.")
        .deprecated("2.6", "`JSON.GET` with `FORMAT`"),
    Command::new("JSON.SET", set::set, WRITE | DENY_OOM, Group::Json)
        .args(&[CHANGED_KEY, PATH, VALUE, CONDITION, FORMAT])
        .docs("1.0.0", SET_COST, "Sets values, and creates the document or a member."),
    Command::new("JSON.STRAPPEND", scalars::strappend, WRITE | DENY_OOM, Group::Json)
        .args(&[CHANGED_KEY, OPTIONAL_PATH, VALUE])
        .docs("1.0.0", PLACE_COST, "Appends to a string."),
    Command::new("JSON.STRLEN", inspect::strlen, READ, Group::Json)
        .args(&[READ_KEY, OPTIONAL_PATH])
        .docs("1.0.0", PLACE_COST, "Returns the length of a string."),
    Command::new("JSON.TOGGLE", scalars::toggle, WRITE | DENY_OOM, Group::Json)
        .args(&[CHANGED_KEY, PATH])
        .docs("2.0.0", PLACE_COST, "Inverts a boolean."),
    Command::new("JSON.TYPE", inspect::type_of, READ, Group::Json)
        .args(&[READ_KEY, OPTIONAL_PATH])
        .docs("1.0.0", PLACE_COST, "Returns the name of the type of a value."),
];
