//! Lists, hashes, sets, sorted sets and streams.

pub mod cost;
pub mod memory;
pub mod stalls;

use crate::Result;
use crate::load::send;
use crate::server::Server;

/// Collection of any size under a key of its own.
struct Collection {
    /// Name in tables, and key.
    name: &'static str,
    /// Returns the request that adds the element with a number.
    add: fn(u64) -> String,
}

const HASH: Collection = Collection { name: "hash", add: |at| format!("HSET hash f:{at:012} xxx") };
const NUMBERS: Collection = Collection { name: "numbers", add: |at| format!("HSET numbers f:{at:012} 10") };
const SET: Collection = Collection { name: "set", add: |at| format!("SADD set m:{at:012}") };
const SORTED_SET: Collection =
    Collection { name: "zset", add: |at| format!("ZADD zset {} m:{at:012}", at * 2_654_435_761 % 1_000_003) };
const LIST: Collection = Collection { name: "list", add: |at| format!("RPUSH list v:{at:012}") };
const STREAM: Collection = Collection { name: "stream", add: |at| format!("XADD stream * field v:{at:012}") };

impl Collection {
    /// Adds the elements with these numbers, in an order without a pattern.
    fn fill(&self, server: &Server, numbers: std::ops::Range<u64>) -> Result<()> {
        let (start, count) = (numbers.start, numbers.end - numbers.start);
        // A step without a common divisor with any power of ten visits every number once.
        let step = 1_000_003 % count.max(1);
        let step = if step % 2 == 0 || step % 5 == 0 { 1 } else { step };
        send(server, (0..count).map(|at| (self.add)(start + at * step % count)))
    }
}
