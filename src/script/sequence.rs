//! Tables of values that come one by one.

use mlua::{Lua, Result, Table, Value};

/// How many values wait until they are put into a table together, which is faster than one by one.
const WAITING_MAX: usize = 64;
/// How deep in other tables values may wait: each takes room where mlua keeps its references.
const WAITING_DEPTH_MAX: usize = 16;

/// A table with indices from 1 on.
pub(super) struct Sequence<'l> {
    lua: &'l Lua,
    waiting_max: usize,
    waiting: Vec<Value>,
    table: Option<Table>,
    len: usize,
}

impl<'l> Sequence<'l> {
    /// Begins a table that is so deep in others.
    pub(super) fn new(lua: &'l Lua, depth: usize) -> Self {
        let waiting_max = if depth <= WAITING_DEPTH_MAX { WAITING_MAX } else { 0 };
        Sequence { lua, waiting_max, waiting: Vec::new(), table: None, len: 0 }
    }

    /// Appends a value.
    pub(super) fn push(&mut self, value: Value) -> Result<()> {
        self.len += 1;
        // Where values are missing, the length of a table depends on how it has grown.
        if self.table.is_none() && self.waiting.len() < self.waiting_max && !value.is_nil() {
            self.waiting.push(value);
            return Ok(());
        }
        let index = self.len;
        self.table()?.raw_set(index, value)
    }

    fn table(&mut self) -> Result<&Table> {
        let table = match self.table.take() {
            Some(table) => table,
            None if self.waiting.is_empty() => self.lua.create_table()?,
            None => self.lua.create_sequence_from(self.waiting.drain(..))?,
        };
        Ok(self.table.insert(table))
    }

    /// Returns the table.
    pub(super) fn finish(mut self) -> Result<Table> {
        self.table().cloned()
    }
}
