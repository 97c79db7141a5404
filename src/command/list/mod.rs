//! The commands on lists.
//!
//! [`ends`] has the commands that push and pop, [`blocking`] their blocking forms, [`many`] LMOVEM and BLMOVEM, [`inside`] the
//! commands by index or by value.
//!
//! Invariant: checks are made in Redis' order, so that a call with two errors gets the same error as in Redis.

mod blocking;
mod ends;
mod inside;
mod many;

use crate::dispatch::Command;
use crate::spec::{
    ACCESS, Arg, BLOCKING, DELETE, DENY_OOM, Effect, FAST, Group, INSERT, MOVABLE_KEYS, READ, RO, RW, UPDATE, WRITE,
    block, double, integer, key, one_of, string, token,
};

pub(crate) use ends::node_limit;

use blocking::{blmove, blmpop, blpop, brpop, brpoplpush};
use ends::{lmove, lmpop, lpop, lpush, lpushx, rpop, rpoplpush, rpush, rpushx};
use inside::{lindex, linsert, llen, lpos, lrange, lrem, lset, ltrim};
use many::{blmovem, lmovem};

const PUSH_COST: &str = "O(1) for each element added, so O(N) to add N elements when the command is called with \
multiple arguments.";
const POP_COST: &str = "O(N) where N is the number of elements returned";
const KEYS_COST: &str = "O(N) where N is the number of provided keys.";
const MPOP_COST: &str = "O(N+M) where N is the number of provided keys and M is the number of elements returned.";
const MOVE_COST: &str = "O(N) where N is the number of elements moved.";
const RANGE_COST: &str = "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end \
(HEAD or TAIL) for large lists; and N is the number of elements in the specified range.";
const INDEX_COST: &str = "O(N) where N is the number of elements to traverse to get to the element at index. This makes \
asking for the first or the last element of the list O(1).";
const SET_COST: &str =
    "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).";
const INSERT_COST: &str = "O(N) where N is the number of elements to traverse before seeing the value pivot. This means \
that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right \
end (tail) is O(N).";
const REM_COST: &str = "O(N+M) where N is the length of the list and M is the number of elements removed.";
const TRIM_COST: &str = "O(N) where N is the number of elements to be removed by the operation.";
const POS_COST: &str = "O(N) where N is the number of elements in the list, for the average case. When searching for \
elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant \
time.";

const SIDES: &[Arg] = &[token("left", "LEFT"), token("right", "RIGHT")];
/// The number of elements to be moved and their order.
const HOW_MANY: Arg = block(
    "how-many",
    &[
        one_of("selector", &[integer("count").token("COUNT"), integer("exactly").token("EXACTLY")]),
        one_of("ordering", &[token("obo", "OBO"), token("bulk", "BULK")]),
    ],
)
.optional();
const KEYS: Arg = key("key", RW | ACCESS | DELETE).multiple();
const COUNT: Arg = integer("count").token("COUNT").optional();

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("BLMOVE", blmove, WRITE | DENY_OOM | BLOCKING, Group::List)
        .effect(Effect::Given)
        .args(&[
            key("source", RW | ACCESS | DELETE),
            key("destination", RW | INSERT),
            one_of("wherefrom", SIDES),
            one_of("whereto", SIDES),
            double("timeout"),
        ])
        .docs("6.2.0", "O(1)", "Moves an element from one list to another and returns it, or waits for one."),
    Command::new("BLMOVEM", blmovem, WRITE | DENY_OOM | BLOCKING, Group::List)
        .effect(Effect::Given)
        .args(&[
            key("source", RW | ACCESS | DELETE),
            key("destination", RW | INSERT),
            one_of("wherefrom", SIDES),
            one_of("whereto", SIDES),
            double("timeout"),
            HOW_MANY,
        ])
        .docs("8.10.0", MOVE_COST, "Moves several elements from one list to another, or waits for them."),
    Command::new("BLMPOP", blmpop, WRITE | BLOCKING | MOVABLE_KEYS, Group::List)
        .effect(Effect::Given)
        .args(&[double("timeout"), integer("numkeys"), KEYS, one_of("where", SIDES), COUNT])
        .docs("7.0.0", MPOP_COST, "Removes and returns elements of the first list that has any, or waits for one."),
    Command::new("BLPOP", blpop, WRITE | BLOCKING, Group::List)
        .effect(Effect::Given)
        .args(&[KEYS, double("timeout")])
        .docs("2.0.0", KEYS_COST, "Removes and returns the first element of a list, or waits for one."),
    Command::new("BRPOP", brpop, WRITE | BLOCKING, Group::List)
        .effect(Effect::Given)
        .args(&[KEYS, double("timeout")])
        .docs("2.0.0", KEYS_COST, "Removes and returns the last element of a list, or waits for one."),
    Command::new("BRPOPLPUSH", brpoplpush, WRITE | DENY_OOM | BLOCKING, Group::List)
        .effect(Effect::Given)
        .args(&[key("source", RW | ACCESS | DELETE), key("destination", RW | INSERT), double("timeout")])
        .docs("2.2.0", "O(1)", "Moves the last element of a list to the head of another, or waits for one.")
        .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
    Command::new("LINDEX", lindex, READ, Group::List)
        .args(&[key("key", RO | ACCESS), integer("index")])
        .docs("1.0.0", INDEX_COST, "Returns the element with an index."),
    Command::new("LINSERT", linsert, WRITE | DENY_OOM, Group::List)
        .args(&[
            key("key", RW | INSERT),
            one_of("where", &[token("before", "BEFORE"), token("after", "AFTER")]),
            string("pivot"),
            string("element"),
        ])
        .docs("2.2.0", INSERT_COST, "Inserts an element before or after another one."),
    Command::new("LLEN", llen, READ | FAST, Group::List)
        .args(&[key("key", RO)])
        .docs("1.0.0", "O(1)", "Returns the number of elements."),
    Command::new("LMOVE", lmove, WRITE | DENY_OOM, Group::List)
        .args(&[
            key("source", RW | ACCESS | DELETE),
            key("destination", RW | INSERT),
            one_of("wherefrom", SIDES),
            one_of("whereto", SIDES),
        ])
        .docs("6.2.0", "O(1)", "Moves an element from one list to another and returns it."),
    Command::new("LMOVEM", lmovem, WRITE | DENY_OOM, Group::List)
        .effect(Effect::Given)
        .args(&[
            key("source", RW | ACCESS | DELETE),
            key("destination", RW | INSERT),
            one_of("wherefrom", SIDES),
            one_of("whereto", SIDES),
            HOW_MANY,
        ])
        .docs("8.10.0", MOVE_COST, "Moves several elements from one list to another and returns them."),
    Command::new("LMPOP", lmpop, WRITE | MOVABLE_KEYS, Group::List)
        .effect(Effect::Given)
        .args(&[integer("numkeys"), KEYS, one_of("where", SIDES), COUNT])
        .docs("7.0.0", MPOP_COST, "Removes and returns elements of the first list that has any."),
    Command::new("LPOP", lpop, WRITE | FAST, Group::List)
        .args(&[key("key", RW | ACCESS | DELETE), integer("count").optional().since("6.2.0")])
        .docs("1.0.0", POP_COST, "Removes and returns the first elements."),
    Command::new("LPOS", lpos, READ, Group::List)
        .args(&[
            key("key", RO | ACCESS),
            string("element"),
            integer("rank").token("RANK").optional(),
            integer("num-matches").token("COUNT").optional(),
            integer("len").token("MAXLEN").optional(),
        ])
        .docs("6.0.6", POS_COST, "Returns the indexes of elements with a value."),
    Command::new("LPUSH", lpush, WRITE | DENY_OOM | FAST, Group::List)
        .args(&[key("key", RW | INSERT), string("element").multiple()])
        .docs("1.0.0", PUSH_COST, "Adds elements at the head, creating the list if needed."),
    Command::new("LPUSHX", lpushx, WRITE | DENY_OOM | FAST, Group::List)
        .args(&[key("key", RW | INSERT), string("element").multiple()])
        .docs("2.2.0", PUSH_COST, "Adds elements at the head of an existing list."),
    Command::new("LRANGE", lrange, READ, Group::List)
        .args(&[key("key", RO | ACCESS), integer("start"), integer("stop")])
        .docs("1.0.0", RANGE_COST, "Returns the elements between two indexes."),
    Command::new("LREM", lrem, WRITE, Group::List)
        .args(&[key("key", RW | DELETE), integer("count"), string("element")])
        .docs("1.0.0", REM_COST, "Removes elements with a value."),
    Command::new("LSET", lset, WRITE | DENY_OOM, Group::List)
        .args(&[key("key", RW | UPDATE), integer("index"), string("element")])
        .docs("1.0.0", SET_COST, "Replaces the element with an index."),
    Command::new("LTRIM", ltrim, WRITE, Group::List)
        .args(&[key("key", RW | DELETE), integer("start"), integer("stop")])
        .docs("1.0.0", TRIM_COST, "Removes the elements outside of a range."),
    Command::new("RPOP", rpop, WRITE | FAST, Group::List)
        .args(&[key("key", RW | ACCESS | DELETE), integer("count").optional().since("6.2.0")])
        .docs("1.0.0", POP_COST, "Removes and returns the last elements."),
    Command::new("RPOPLPUSH", rpoplpush, WRITE | DENY_OOM, Group::List)
        .args(&[key("source", RW | ACCESS | DELETE), key("destination", RW | INSERT)])
        .docs("1.2.0", "O(1)", "Moves the last element of a list to the head of another and returns it.")
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
    Command::new("RPUSH", rpush, WRITE | DENY_OOM | FAST, Group::List)
        .args(&[key("key", RW | INSERT), string("element").multiple()])
        .docs("1.0.0", PUSH_COST, "Adds elements at the tail, creating the list if needed."),
    Command::new("RPUSHX", rpushx, WRITE | DENY_OOM | FAST, Group::List)
        .args(&[key("key", RW | INSERT), string("element").multiple()])
        .docs("2.2.0", PUSH_COST, "Adds elements at the tail of an existing list."),
];
