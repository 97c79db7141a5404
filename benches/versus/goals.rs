//! The goals, as data, and their verdicts.

use crate::figures::Figures;
use crate::report::{Table, number};
use crate::server::Kind;

/// Direction of a limit.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

use Limit::{AtLeast, AtMost};

impl Limit {
    fn shown(self, unit: &str) -> String {
        let (sign, limit) = match self {
            AtMost(limit) => ("at most", limit),
            AtLeast(limit) => ("at least", limit),
        };
        format!("{sign} {limit} {unit}")
    }

    /// Returns the relative amount by which the limit is missed, if it is.
    fn missed_by(self, value: f64) -> Option<f64> {
        let share = match self {
            AtMost(limit) => value / limit - 1.0,
            AtLeast(limit) => 1.0 - value / limit,
        };
        (share > 0.0).then_some(share)
    }
}

/// Limit for one figure of some workloads.
struct Goal {
    what: &'static str,
    /// Areas of the figures: the first one with figures decides, a second one is shown with it.
    areas: &'static [&'static str],
    workloads: &'static [&'static str],
    unit: &'static str,
    /// Server whose figure is the divisor, if the goal is a ratio.
    to: Option<Kind>,
    limit: Limit,
}

/// Generators of the load: the goals were defined with redis-benchmark; our own generator is shown with it.
const GENERATORS: &[&str] = &["redis-benchmark", "commands"];

const fn cpu(what: &'static str, workloads: &'static [&'static str], to: Kind, limit: f64) -> Goal {
    Goal { what, areas: GENERATORS, workloads, unit: "CPU us", to: Some(to), limit: AtMost(limit) }
}

const fn throughput(what: &'static str, workloads: &'static [&'static str], to: Kind, limit: f64) -> Goal {
    Goal { what, areas: GENERATORS, workloads, unit: "req/s", to: Some(to), limit: AtLeast(limit) }
}

/// Creates a goal for a figure of another section: what, area, workload, unit, limit.
const fn single(
    what: &'static str,
    areas: &'static [&'static str],
    workloads: &'static [&'static str],
    unit: &'static str,
    limit: Limit,
) -> Goal {
    Goal { what, areas, workloads, unit, to: None, limit }
}

impl Goal {
    const fn beside_redis(self) -> Goal {
        Goal { to: Some(Kind::Redis), ..self }
    }
}

const ALL_DEPTHS: &[&str] = &["SET P=1", "GET P=1", "SET P=16", "GET P=16", "SET P=64", "GET P=64"];

const LARGE: [&[&str]; 2] = [
    &[
        "SET of 10k bytes P=1",
        "GET of 10k bytes P=1",
        "SET of 100k bytes P=1",
        "GET of 100k bytes P=1",
        "SET of 1M bytes P=1",
        "GET of 1M bytes P=1",
    ],
    &[
        "SET of 10k bytes P=16",
        "GET of 10k bytes P=16",
        "SET of 100k bytes P=16",
        "GET of 100k bytes P=16",
        "SET of 1M bytes P=16",
        "GET of 1M bytes P=16",
    ],
];
const LATENCY: &[&str] = &[
    "SET, 10000 due/s, 50 connections",
    "SET, 10000 due/s, 500 connections",
    "SET, 30000 due/s, 50 connections",
    "SET, 30000 due/s, 500 connections",
    "SET, 60000 due/s, 50 connections",
    "SET, 60000 due/s, 500 connections",
];
const TWO_WORKERS: &[&str] = &["SET P=16, 2 workers", "GET P=16, 2 workers"];

const fn large(what: &'static str, workloads: &'static [&'static str]) -> Goal {
    single(what, &["large-values"], workloads, "CPU us", AtMost(0.7)).beside_redis()
}

const fn latency(what: &'static str, unit: &'static str) -> Goal {
    single(what, &["latency"], LATENCY, unit, AtMost(1.0)).beside_redis()
}

const GOALS: &[Goal] = &[
    cpu("CPU of SET, GET, depth 1", &["SET P=1", "GET P=1"], Kind::Redis, 0.8),
    cpu("CPU of MGET of ten, depth 1", &["MGET of 10 P=1"], Kind::Redis, 0.95),
    cpu("CPU of SET, depth 16", &["SET P=16"], Kind::Redis, 0.45),
    cpu("CPU of GET, depth 16", &["GET P=16"], Kind::Redis, 0.48),
    cpu("CPU of INCR, depth 16", &["INCR P=16"], Kind::Redis, 0.48),
    cpu("CPU of DEL, depth 16", &["DEL P=16"], Kind::Redis, 0.55),
    cpu("CPU of MGET of ten, depth 16", &["MGET of 10 P=16"], Kind::Redis, 0.5),
    cpu("CPU of SET NX PX, depth 16", &["SET NX PX P=16"], Kind::Redis, 0.5),
    cpu("CPU of SET, depth 64", &["SET P=64"], Kind::Redis, 0.25),
    cpu("CPU of GET, depth 64", &["GET P=64"], Kind::Redis, 0.26),
    cpu("CPU of INCR, depth 64", &["INCR P=64"], Kind::Redis, 0.35),
    cpu("CPU of DEL, depth 64", &["DEL P=64"], Kind::Redis, 0.38),
    cpu("CPU of MGET of ten, depth 64", &["MGET of 10 P=64"], Kind::Redis, 0.33),
    cpu("CPU of SET NX PX, depth 64", &["SET NX PX P=64"], Kind::Redis, 0.32),
    cpu("CPU of GET of a missing key, depth 16", &["GET of a missing key P=16"], Kind::Redis, 0.6),
    cpu("CPU of GET of a missing key, depth 64", &["GET of a missing key P=64"], Kind::Redis, 0.4),
    cpu("CPU of SET, GET, all depths", ALL_DEPTHS, Kind::Pogocache, 1.0),
    cpu("CPU of SET, GET, depth 1", &["SET P=1", "GET P=1"], Kind::Null, 1.04),
    cpu("CPU of SET, GET, depth 16", &["SET P=16", "GET P=16"], Kind::Null, 1.15),
    cpu("CPU of SET, GET, depth 64", &["SET P=64", "GET P=64"], Kind::Null, 1.6),
    throughput("throughput of SET, GET, depth 16", &["SET P=16", "GET P=16"], Kind::Redis, 2.2),
    throughput("throughput of SET, GET, depth 64", &["SET P=64", "GET P=64"], Kind::Redis, 3.3),
    throughput("throughput of SET, GET, all depths", ALL_DEPTHS, Kind::Pogocache, 1.0),
    single("CPU of SET, GET, depth 64, 10 M keys", &["keys"], &["SET 10M", "GET 10M"], "CPU us", AtMost(0.33))
        .beside_redis(),
    large("CPU of SET, GET of 10 kB, 100 kB, 1 MB, depth 1", LARGE[0]),
    large("CPU of SET, GET of 10 kB, 100 kB, 1 MB, depth 16", LARGE[1]),
    latency("p50 at 10, 30, 60 k requests/s, 50 and 500 connections", "p50 ms"),
    latency("p99 of the same", "p99 ms"),
    latency("p99.9 of the same", "p99.9 ms"),
    single(
        "throughput of two workers, SET, GET, depth 16",
        &["workers"],
        TWO_WORKERS,
        "x 1 worker, estimated",
        AtLeast(1.6),
    ),
    single("CPU of EVALSHA, depth 1", &["scripts"], &["EVALSHA, refused P=1"], "CPU us", AtMost(0.95)).beside_redis(),
    single("CPU of EVALSHA, depth 16", &["scripts"], &["EVALSHA, refused P=16"], "CPU us", AtMost(0.6)).beside_redis(),
    single("overhead per key, 10 M keys", &["memory"], &["without TTL 10M"], "bytes", AtMost(31.0)),
    single("the same with TTL", &["memory"], &["with TTL 10M"], "bytes", AtMost(38.0)),
    single(
        "worst stall above an unloaded server",
        &["growth"],
        &["GET while keys are loaded"],
        "ms above unloaded",
        AtMost(2.0),
    ),
    single("idle connection", &["footprint"], &["process"], "bytes per idle connection", AtMost(1300.0)),
    single("clients served", &["clients"], &["clients"], "served", AtLeast(10_000.0)),
    single("start to first PONG", &["footprint"], &["process"], "start ms", AtMost(0.25)).beside_redis(),
    single("idle memory", &["footprint"], &["process"], "idle MB", AtMost(4.0)),
    single("release binary", &["footprint"], &["process"], "binary MB", AtMost(8.0)),
];

/// Creates a goal for collections: CPU relative to Redis by the depth, bytes per element, stalls.
const fn of_collection(what: &'static str, workloads: &'static [&'static str], limit: f64) -> Goal {
    single(what, &["collections"], workloads, "CPU us", AtMost(limit)).beside_redis()
}

const fn element(what: &'static str, workloads: &'static [&'static str], limit: f64) -> Goal {
    single(what, &["collections-memory"], workloads, "bytes", AtMost(limit))
}

const fn stall(what: &'static str, workloads: &'static [&'static str]) -> Goal {
    single(what, &["collections-stalls"], workloads, "ms above unloaded", AtMost(2.0))
}

const LISTS: &[&str] = &["LPUSH P=64", "RPUSH P=64", "LPOP P=64", "RPOP P=64"];
const SETS_AND_HASHES: &[&str] = &["SADD P=64", "SISMEMBER P=64", "HGET P=64", "HSET P=64", "HINCRBY P=64"];
const SORTED: &[&str] = &["ZADD P=64", "ZRANK P=64", "ZINCRBY P=64"];
const RANGES: &[&str] = &["LRANGE of 100 P=64", "ZRANGE of 100 P=64", "HGETALL of 50 P=64", "SMEMBERS of 50 P=64"];
const SINGLE_COMMANDS: &[&str] = &[
    "LPUSH P=1",
    "RPUSH P=1",
    "LPOP P=1",
    "RPOP P=1",
    "SADD P=1",
    "SISMEMBER P=1",
    "HGET P=1",
    "HSET P=1",
    "HINCRBY P=1",
    "ZSCORE P=1",
    "XADD P=1",
    "ZADD P=1",
    "ZRANK P=1",
    "ZINCRBY P=1",
    "LRANGE of 100 P=1",
    "ZRANGE of 100 P=1",
    "HGETALL of 50 P=1",
    "SMEMBERS of 50 P=1",
];

const COLLECTION_GOALS: &[Goal] = &[
    of_collection("CPU of LPUSH, RPUSH, LPOP, RPOP, depth 64", LISTS, 0.45),
    of_collection("CPU of SADD, SISMEMBER, HGET, HSET, HINCRBY, depth 64", SETS_AND_HASHES, 0.45),
    of_collection("CPU of ZSCORE, XADD, depth 64", &["ZSCORE P=64", "XADD P=64"], 0.45),
    of_collection("CPU of ZADD, ZRANK, ZINCRBY, depth 64", SORTED, 0.35),
    of_collection("CPU of LRANGE, ZRANGE of 100, HGETALL, SMEMBERS of 50, depth 64", RANGES, 0.5),
    of_collection("CPU of all these, depth 1", SINGLE_COMMANDS, 1.0),
    element("hash of 1 M fields, per field", &["hash 1M"], 30.0),
    element("set of 1 M, per member", &["set 1M"], 24.0),
    element("set of 1 M integers, per member", &["set of integers 1M"], 16.0),
    element("sorted set of 1 M, per member", &["sorted set 1M"], 48.0),
    element("list of 1 M, per element", &["list 1M"], 3.0),
    element("stream of 1 M, per entry", &["stream 1M"], 12.0),
    element("100 k hashes of 10, per field", &["hashes of 10 1M"], 9.0),
    element("100 k sorted sets of 10, per member", &["sorted sets of 10 1M"], 8.0),
    element("100 k lists of 10, per element", &["lists of 10 1M"], 6.0),
    element("100 k sets of 10, per member", &["sets of 10 1M"], 7.0),
    stall(
        "removing a hash of 10 M: DEL, UNLINK, EXPIRE, SET",
        &["DEL, hash of 10000000", "UNLINK, hash of 10000000", "EXPIRE, hash of 10000000", "SET, hash of 10000000"],
    ),
    stall(
        "the same with a set",
        &["DEL, set of 10000000", "UNLINK, set of 10000000", "EXPIRE, set of 10000000", "SET, set of 10000000"],
    ),
    stall(
        "the same with a sorted set",
        &["DEL, zset of 10000000", "UNLINK, zset of 10000000", "EXPIRE, zset of 10000000", "SET, zset of 10000000"],
    ),
    stall(
        "the same with a list",
        &["DEL, list of 10000000", "UNLINK, list of 10000000", "EXPIRE, list of 10000000", "SET, list of 10000000"],
    ),
    stall(
        "the same with a stream",
        &[
            "DEL, stream of 10000000",
            "UNLINK, stream of 10000000",
            "EXPIRE, stream of 10000000",
            "SET, stream of 10000000",
        ],
    ),
    stall("growth of a hash to 10 M", &["hash grows to 10000000"]),
];

/// Returns the goals with their figures.
pub fn judge(figures: &Figures) -> String {
    let mut table = Table::new(&["goal", "limit", "measured", "our generator", "verdict"]);
    for goal in GOALS.iter().chain(COLLECTION_GOALS) {
        let mut areas = goal.areas.iter().map(|area| goal.values(figures, area));
        let (decisive, other) = (areas.next().unwrap_or_default(), areas.next().unwrap_or_default());
        let limit =
            goal.limit.shown(&goal.to.map_or_else(|| unit(goal.unit).to_owned(), |to| format!("x {}", to.name())));
        let verdict = goal.verdict(&decisive);
        table.row([goal.what.to_owned(), limit, listed(&decisive), listed(&other), verdict]);
    }
    table.markdown()
}

impl Goal {
    /// Returns the value for each workload; none if one is missing.
    fn values(&self, figures: &Figures, area: &str) -> Vec<f64> {
        let value = |workload: &&str| {
            let own = figures.get(area, workload, Kind::Keylatch, self.unit)?;
            self.to.map_or(Some(own), |to| Some(own / figures.get(area, workload, to, self.unit)?))
        };
        self.workloads.iter().map(value).collect::<Option<_>>().unwrap_or_default()
    }

    fn verdict(&self, values: &[f64]) -> String {
        if values.is_empty() {
            return "not measured".to_owned();
        }
        let short = |workload: &'static str| workload.split(" P=").next().unwrap_or(workload);
        let missed = values.iter().zip(self.workloads).filter_map(|(&value, &workload)| {
            let by = percent(self.limit.missed_by(value)?);
            // The depth is named where several workloads share the short name.
            let is_unique = self.workloads.iter().filter(|other| short(other) == short(workload)).count() == 1;
            let name = if is_unique { short(workload) } else { workload };
            Some(if values.len() == 1 { format!("missed by {by}") } else { format!("{name} missed by {by}") })
        });
        let missed: Vec<String> = missed.collect();
        if missed.is_empty() { "met".to_owned() } else { missed.join(", ") }
    }
}

/// Shortens a unit that is not a ratio.
fn unit(unit: &str) -> &str {
    if unit.starts_with("x ") {
        return unit;
    }
    unit.split(' ').find(|word| ["bytes", "ms", "MB"].contains(word)).unwrap_or("")
}

fn percent(share: f64) -> String {
    if share < 0.01 { "less than 1 %".to_owned() } else { format!("{:.0} %", share * 100.0) }
}

fn listed(values: &[f64]) -> String {
    values.iter().map(|&value| number(value)).collect::<Vec<_>>().join(", ")
}
