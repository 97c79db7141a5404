//! The sequential model: a map of a few keys, and the reply of each command.
//!
//! A command defines both the request and the model's behaviour. Replies are in the wire form that the harness shows.

use todc_utils::Specification;

use crate::harness::encode;

/// Keys of the map; commands refer to them by their index here.
pub(crate) const KEYS: [&str; 3] = ["a", "b", "c"];

/// Maximum number of connections of a history.
pub(super) const CONNECTIONS: usize = 8;

/// Content of the keys.
pub(super) type Map = [Option<i64>; KEYS.len()];

/// State of the model: the map, and the number of executed commands of each connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    map: Map,
    turns: [usize; CONNECTIONS],
}

#[derive(Clone, Debug)]
pub(crate) enum Command {
    Get(usize),
    Set(usize, i64),
    SetNx(usize, i64),
    GetSet(usize, i64),
    Del(Vec<usize>),
    Incr(usize),
    Mset(Vec<(usize, i64)>),
    /// Sets a key if it holds the value read before.
    SetIfEq {
        key: usize,
        seen: i64,
        to: i64,
    },
    /// Deletes a key if it holds the value read before.
    DelEx {
        key: usize,
        seen: i64,
    },
    /// MULTI, the commands, EXEC if a key holds the value read before.
    ExecIfEq {
        key: usize,
        seen: i64,
        commands: Vec<Command>,
    },
    /// Reads all keys.
    Mget,
    /// MULTI, the commands, EXEC.
    Exec(Vec<Command>),
    /// A script that releases a lock if its caller still holds it.
    #[cfg_attr(not(feature = "lua"), expect(dead_code, reason = "there are no scripts"))]
    Release(usize, i64),
    /// A script that exchanges two keys which it does not declare.
    #[cfg_attr(not(feature = "lua"), expect(dead_code, reason = "there are no scripts"))]
    Exchange(usize, usize),
    /// A script that increments a number and publishes it to the channel of the key's name.
    #[cfg_attr(not(feature = "lua"), expect(dead_code, reason = "there are no scripts"))]
    Announce(usize),
    /// MULTI, INCR, PUBLISH of the constant [`WORD`] to the channel of the key's name, EXEC.
    #[cfg_attr(not(feature = "lua"), expect(dead_code, reason = "only told beside scripts"))]
    Proclaim(usize),
    /// MULTI, SET, EXEC on a key that is watched since it was last seen unchanged; it may do nothing.
    Swap {
        key: usize,
        seen: Option<i64>,
        to: i64,
    },
}

impl Command {
    /// Returns the requests to send, the keys' names prefixed.
    pub(crate) fn requests(&self, prefix: &str) -> Vec<u8> {
        let name = |key: &usize| format!("{prefix}{}", KEYS[*key]);
        let words = |verb: &str, rest: Vec<String>| encode(&[vec![verb.to_owned()], rest].concat());
        match self {
            Command::Get(key) => words("GET", vec![name(key)]),
            Command::Set(key, value) => words("SET", vec![name(key), value.to_string()]),
            Command::SetNx(key, value) => words("SETNX", vec![name(key), value.to_string()]),
            Command::GetSet(key, value) => words("GETSET", vec![name(key), value.to_string()]),
            Command::Del(keys) => words("DEL", keys.iter().map(name).collect()),
            Command::Incr(key) => words("INCR", vec![name(key)]),
            Command::Mset(pairs) => {
                words("MSET", pairs.iter().flat_map(|(key, value)| [name(key), value.to_string()]).collect())
            }
            Command::Mget => words("MGET", (0..KEYS.len()).map(|key| name(&key)).collect()),
            Command::Exec(commands) => {
                let queued: Vec<u8> = commands.iter().flat_map(|command| command.requests(prefix)).collect();
                [encode(&["MULTI"]), queued, encode(&["EXEC"])].concat()
            }
            Command::Release(key, token) => {
                words("EVAL", vec![RELEASE.to_owned(), "1".to_owned(), name(key), token.to_string()])
            }
            Command::Exchange(key, other) => {
                words("EVAL", vec![EXCHANGE.to_owned(), "0".to_owned(), name(key), name(other)])
            }
            Command::Announce(key) => words("EVAL", vec![ANNOUNCE.to_owned(), "1".to_owned(), name(key)]),
            Command::Proclaim(key) => {
                let queued = [words("INCR", vec![name(key)]), words("PUBLISH", vec![name(key), WORD.to_owned()])];
                [encode(&["MULTI"]), queued.concat(), encode(&["EXEC"])].concat()
            }
            Command::Swap { key, to, .. } => Command::Exec(vec![Command::Set(*key, *to)]).requests(prefix),
            Command::SetIfEq { key, seen, to } => {
                words("SET", vec![name(key), to.to_string(), "IFEQ".into(), seen.to_string()])
            }
            Command::DelEx { key, seen } => words("DELEX", vec![name(key), "IFEQ".into(), seen.to_string()]),
            Command::ExecIfEq { key, seen, commands } => {
                let queued: Vec<u8> = commands.iter().flat_map(|command| command.requests(prefix)).collect();
                let exec = words("EXEC", vec!["IFEQ".into(), name(key), seen.to_string()]);
                [encode(&["MULTI"]), queued, exec].concat()
            }
        }
    }

    /// Returns the replies before the relevant one.
    pub(crate) fn replies_before_the_last(&self) -> Vec<&'static str> {
        let queued = match self {
            Command::Exec(commands) | Command::ExecIfEq { commands, .. } => commands.len(),
            Command::Proclaim(_) => 2,
            Command::Swap { .. } => 1,
            _ => return Vec::new(),
        };
        [vec!["+OK"], vec!["+QUEUED"; queued]].concat()
    }

    /// Executes the command and returns its reply.
    pub(super) fn run(&self, map: &mut Map) -> String {
        match self {
            Command::Get(key) => bulk(map[*key]),
            Command::Set(key, value) => {
                map[*key] = Some(*value);
                "+OK".to_owned()
            }
            Command::SetNx(key, value) => {
                let is_new = map[*key].is_none();
                map[*key].get_or_insert(*value);
                format!(":{}", u8::from(is_new))
            }
            Command::GetSet(key, value) => bulk(map[*key].replace(*value)),
            Command::Del(keys) => format!(":{}", keys.iter().filter_map(|key| map[*key].take()).count()),
            Command::Release(key, token) if map[*key] == Some(*token) => Command::Del(vec![*key]).run(map),
            Command::Release(..) => ":0".to_owned(),
            Command::Exchange(key, other) => {
                map.swap(*key, *other);
                "+OK".to_owned()
            }
            Command::Proclaim(key) => array(vec![Command::Incr(*key).run(map), ":1".to_owned()]),
            Command::Incr(key) | Command::Announce(key) => {
                let value = map[*key].unwrap_or(0) + 1;
                map[*key] = Some(value);
                format!(":{value}")
            }
            Command::Mset(pairs) => {
                pairs.iter().for_each(|(key, value)| map[*key] = Some(*value));
                "+OK".to_owned()
            }
            Command::Mget => array(map.iter().map(|value| bulk(*value)).collect()),
            Command::Exec(commands) => array(commands.iter().map(|command| command.run(map)).collect()),
            Command::Swap { key, seen, to } if map[*key] == *seen => {
                Command::Exec(vec![Command::Set(*key, *to)]).run(map)
            }
            Command::Swap { .. } => ABORTED.to_owned(),
            Command::SetIfEq { key, seen, to } if map[*key] == Some(*seen) => Command::Set(*key, *to).run(map),
            Command::SetIfEq { .. } => bulk(None),
            Command::DelEx { key, seen } if map[*key] == Some(*seen) => Command::Del(vec![*key]).run(map),
            Command::DelEx { .. } => ":0".to_owned(),
            Command::ExecIfEq { key, seen, commands } if map[*key] == Some(*seen) => {
                Command::Exec(commands.clone()).run(map)
            }
            Command::ExecIfEq { .. } => ABORTED.to_owned(),
        }
    }
}

/// Lua code of the scripts.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const EXCHANGE: &str = "local left, right = ARGV[1], ARGV[2] \
    local a, b = redis.call('get', left), redis.call('get', right) \
    if b then redis.call('set', left, b) else redis.call('del', left) end \
    if a then redis.call('set', right, a) else redis.call('del', right) end \
    return redis.status_reply('OK')";
const ANNOUNCE: &str = "local n = redis.call('incr', KEYS[1]) redis.call('publish', KEYS[1], n) return n";

/// Published message.
pub(super) const WORD: &str = "more";

/// Reply of EXEC when a watched key has been touched or a condition is not met.
const ABORTED: &str = "*-1";

pub(super) fn bulk(value: Option<i64>) -> String {
    value.map_or("$-1".to_owned(), |value| format!("${} {value}", value.to_string().len()))
}

pub(super) fn array(items: Vec<String>) -> String {
    [vec![format!("*{}", items.len())], items].concat().join(" ")
}

/// Parses the reply of GET.
pub(crate) fn value(reply: &str) -> Option<i64> {
    reply.split_once(' ').map(|(_, digits)| digits.parse().expect("only numbers are written"))
}

/// Command, its index on its connection, and its reply once it is known.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) connection: usize,
    /// Index from 0. The commands of one pipeline overlap, and must nevertheless be executed in this order.
    pub(super) turn: usize,
    pub(super) command: Command,
    pub(super) reply: Option<String>,
}

/// Model in the form that the checker needs.
pub(super) struct MapSpec;

impl Specification for MapSpec {
    type State = State;
    type Operation = Operation;

    fn init() -> State {
        State::default()
    }

    fn apply(operation: &Operation, state: &State) -> (bool, State) {
        let mut after = state.clone();
        after.turns[operation.connection] += 1;
        let reply = match (&operation.command, operation.reply.as_deref()) {
            // A key may have been touched and set back to its value: an abort is always valid.
            (Command::Swap { .. }, Some(ABORTED)) => ABORTED.to_owned(),
            (command, _) => command.run(&mut after.map),
        };
        let is_next = operation.turn == state.turns[operation.connection];
        if is_next && operation.reply.as_ref() == Some(&reply) { (true, after) } else { (false, state.clone()) }
    }
}
