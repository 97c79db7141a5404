//! A small table of commands for unit tests of modules below `command`: look-up, ACL rules, settings.

use std::sync::LazyLock;

use crate::spec::{
    ADMIN, Arg, CommandTable, DENY_OOM, Declaration, FAST, Group, LOADING, OW, PUBSUB, READ, RO, RW, Row, WRITE,
    channel, integer, key, pattern, string,
};

const KEY: Arg = key("key", RO);

const ROWS: &[Row<()>] = &[
    Row::new("GET", (), READ | FAST, Group::String).args(&[KEY]),
    Row::new("SET", (), WRITE | DENY_OOM, Group::String).args(&[key("key", OW), string("value")]),
    Row::new("INCRBY", (), WRITE | FAST, Group::String).args(&[key("key", RW), integer("increment")]),
    Row::new("EXISTS", (), READ | FAST, Group::Generic).args(&[KEY.multiple()]),
    Row::new("KEYS", (), READ, Group::Generic).args(&[pattern("pattern")]).categories(&["dangerous"]),
    Row::new("SELECT", (), FAST, Group::Connection).args(&[integer("index")]),
    Row::new("PUBLISH", (), PUBSUB | FAST, Group::PubSub).args(&[channel("channel"), string("message")]),
    Row::new("FLUSHALL", (), WRITE, Group::Server).categories(&["keyspace", "dangerous"]),
    Row::container(
        "CLIENT",
        Group::Connection,
        &[
            Row::new("ID", (), LOADING, Group::Connection),
            Row::new("LIST", (), ADMIN, Group::Connection),
            Row::new("REPLY", (), LOADING, Group::Connection).args(&[string("on-off")]),
        ],
    ),
    Row::container(
        "CONFIG",
        Group::Server,
        &[
            Row::new("GET", (), ADMIN, Group::Server).args(&[string("parameter").multiple()]),
            Row::new("SET", (), ADMIN, Group::Server).args(&[string("parameter"), string("value")]),
        ],
    ),
];

fn help(container: &Declaration) -> Row<()> {
    Row::new("HELP", (), LOADING, container.group)
}

/// Returns the table.
pub(crate) fn commands() -> &'static CommandTable {
    static TABLE: LazyLock<CommandTable> = LazyLock::new(|| CommandTable::register(&[ROWS], help, ()).0);
    &TABLE
}
