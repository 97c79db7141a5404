//! Requests of the benchmarks, as data: one template serves our own generator, redis-benchmark and memcached.
//!
//! In a template `{key}` stands for a new random key, `{same}` for the previous one, `{counter}` for a new random key
//! among those that hold numbers, `{missing}` for a key that never exists, `{value}` for a value and `{len}` for its
//! length.

use crate::server::Protocol;

/// Number of digits of a key's number; with the prefix of four bytes a key has [`KEY_LEN`] bytes.
pub const DIGITS: usize = 12;
/// Length of every key, equal to redis-benchmark's.
pub const KEY_LEN: usize = DIGITS + 4;

/// Cycle of requests; each is sent when the pipeline has room, the first after the last.
pub struct Workload {
    /// Name in tables.
    pub name: &'static str,
    /// Requests of a cycle. More than one step makes sense at depth 1 and where the depth is a multiple.
    pub steps: &'static [&'static str],
    /// Pipeline depths of the tables.
    pub depths: &'static [usize],
    /// The only step in memcached's text protocol, if memcached has the command.
    pub memcached: Option<&'static str>,
    /// Number of keys of a request.
    pub keys: usize,
}

/// Declares a workload of one step.
pub const fn single(name: &'static str, step: &'static [&'static str; 1]) -> Workload {
    Workload { name, steps: step, depths: &[1, 16, 64], memcached: None, keys: 1 }
}

/// Stores a value.
pub const SET: Workload =
    Workload { memcached: Some("set {key} 0 0 {len}\r\n{value}"), ..single("SET", &["SET {key} {value}"]) };
/// Reads a value that exists.
pub const GET: Workload = Workload { memcached: Some("get {key}"), ..single("GET", &["GET {key}"]) };
/// Acquires and releases an uncontended lock.
pub const LOCK: Workload = Workload {
    steps: &["SETNX {key} {value}", "DEL {same}"],
    depths: &[1, 64],
    ..single("SETNX, DEL", &["SETNX {key} {value}"])
};
/// Takes over the lock of a crashed holder.
pub const TAKEOVER: Workload = Workload {
    steps: &["GET {key}", "GETSET {same} {value}"],
    depths: &[1, 64],
    ..single("GET, GETSET", &["GET {key}"])
};
/// Stores three values at once.
pub const TRANSACTION: Workload = Workload {
    steps: &["MULTI", "SET {key} {value}", "SET {key} {value}", "SET {key} {value}", "EXEC"],
    depths: &[1, 16],
    ..single("MULTI, 3 SET, EXEC", &["MULTI"])
};

/// Releases a lock held by the caller, in Lua.
pub const RELEASE: &str =
    "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// The SHA1 of [`RELEASE`].
pub const RELEASE_SHA: &str = "ae3671744a5dbb24ea37ef607b8b10ac7856d43e";
/// Attempts to release a lock that the caller does not hold.
pub const REFUSED_RELEASE: Workload = Workload {
    depths: &[1, 16],
    ..single("EVALSHA, refused", &["EVALSHA ae3671744a5dbb24ea37ef607b8b10ac7856d43e 1 {key} other"])
};
/// Acquires a lock as libraries do, and releases it by the script.
pub const SCRIPTED_LOCK: Workload = Workload {
    steps: &["SET {key} {value} NX PX 30000", "EVALSHA ae3671744a5dbb24ea37ef607b8b10ac7856d43e 1 {same} {value}"],
    depths: &[1, 16],
    ..single("SET NX PX, EVALSHA", &["SET {key} {value}"])
};

/// Rows of the command tables.
pub const COMMANDS: &[Workload] = &[
    SET,
    GET,
    Workload {
        depths: &[16, 64],
        memcached: Some("get {missing}"),
        ..single("GET of a missing key", &["GET {missing}"])
    },
    single("SETNX", &["SETNX {key} {value}"]),
    single("INCR", &["INCR {counter}"]),
    single("DEL", &["DEL {key}"]),
    single("GETSET", &["GETSET {key} {value}"]),
    single("SET PX", &["SET {key} {value} PX 100000"]),
    single("SET NX PX", &["SET {key} {value} NX PX 100000"]),
    Workload {
        keys: 10,
        ..single(
            "MSET of 10",
            &[
                "MSET {key} {value} {key} {value} {key} {value} {key} {value} {key} {value} {key} {value} {key} {value} {key} {value} {key} {value} {key} {value}",
            ],
        )
    },
    Workload {
        keys: 10,
        ..single("MGET of 10", &["MGET {key} {key} {key} {key} {key} {key} {key} {key} {key} {key}"])
    },
];

/// Numbers of the keys that a connection draws.
pub enum Keys {
    /// Uniformly below `below`, from a generator with this state.
    Random { below: u64, state: u64 },
    /// Consecutively from this number on.
    From(u64),
}

impl Keys {
    /// Draws from `0..below`; different seeds give different numbers.
    pub fn random(below: u64, seed: u64) -> Keys {
        Keys::Random { below, state: (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    fn draw(&mut self) -> u64 {
        match self {
            Keys::Random { below, state } => {
                // xorshift64*, and the high half scaled to the range.
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) * *below) >> 32
            }
            Keys::From(next) => {
                *next += 1;
                *next - 1
            }
        }
    }
}

/// Requests of one connection: encoded once, then only the digits of its keys are rewritten.
pub struct Script {
    batches: Vec<Batch>,
    next: usize,
    keys: Keys,
    last: u64,
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

/// Position of the digits of a key.
struct Slot {
    at: usize,
    is_fresh: bool,
}

impl Script {
    /// Encodes batches of `depth` requests. Returns `None` if the protocol has no such command.
    pub fn new(workload: &Workload, protocol: Protocol, depth: usize, value_len: usize, keys: Keys) -> Option<Script> {
        let steps = workload.steps.len();
        // With a depth of one every step is a batch of its own; deeper pipelines hold whole cycles.
        let batches = if depth < steps { steps } else { 1 };
        let value = "x".repeat(value_len);
        let batch = |first: usize| {
            let mut batch = Batch::default();
            for request in 0..depth {
                match protocol {
                    Protocol::Resp => batch.resp(workload.steps[(first + request) % steps], &value),
                    Protocol::Memcached => {
                        batch.expand(workload.memcached?, &value);
                        batch.bytes.extend_from_slice(b"\r\n");
                    }
                }
            }
            Some(batch)
        };
        let batches = (0..batches).map(batch).collect::<Option<Vec<_>>>()?;
        Some(Script { batches, next: 0, keys, last: 0 })
    }

    /// Draws the keys of the next batch and returns its bytes.
    pub fn next_batch(&mut self) -> &[u8] {
        let at = self.next;
        self.next = (at + 1) % self.batches.len();
        let Batch { bytes, slots } = &mut self.batches[at];
        for slot in slots {
            if slot.is_fresh {
                self.last = self.keys.draw();
            }
            let mut rest = self.last as u32;
            // The digits before the last eight stay zero: no test has a hundred million keys.
            for digit in bytes[slot.at + DIGITS - 8..slot.at + DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        bytes
    }
}

impl Batch {
    fn resp(&mut self, step: &str, value: &str) {
        self.bytes.extend_from_slice(format!("*{}\r\n", step.split(' ').count()).as_bytes());
        for word in step.split(' ') {
            let mut argument = Batch::default();
            argument.expand(word, value);
            self.bytes.extend_from_slice(format!("${}\r\n", argument.bytes.len()).as_bytes());
            let start = self.bytes.len();
            self.slots.extend(argument.slots.iter().map(|slot| Slot { at: start + slot.at, is_fresh: slot.is_fresh }));
            self.bytes.extend_from_slice(&argument.bytes);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Appends a template with its placeholders filled in.
    fn expand(&mut self, template: &str, value: &str) {
        for (at, piece) in template.split(['{', '}']).enumerate() {
            // The pieces with odd numbers stand between braces.
            match piece {
                _ if at % 2 == 0 => self.bytes.extend_from_slice(piece.as_bytes()),
                "value" => self.bytes.extend_from_slice(value.as_bytes()),
                "len" => self.bytes.extend_from_slice(value.len().to_string().as_bytes()),
                "key" | "same" => self.key("key:", piece == "key"),
                "counter" => self.key("ctr:", true),
                "missing" => self.key("mis:", true),
                unknown => panic!("a template has {{{unknown}}}"),
            }
        }
    }

    fn key(&mut self, prefix: &str, is_fresh: bool) {
        self.bytes.extend_from_slice(prefix.as_bytes());
        self.slots.push(Slot { at: self.bytes.len(), is_fresh });
        self.bytes.extend_from_slice(&[b'0'; DIGITS]);
    }
}
