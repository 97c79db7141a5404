//! The goals, as data, and whether the figures reach them.

use crate::figures::Figures;
use crate::report::{Table, number};
use crate::server::Kind;

/// Which side of a limit is the good one.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

use Limit::{AtLeast, AtMost};

impl Limit {
    fn is_met(self, value: f64) -> bool {
        match self {
            AtMost(limit) => value <= limit,
            AtLeast(limit) => value >= limit,
        }
    }

    fn shown(self, unit: &str) -> String {
        let (sign, limit) = match self {
            AtMost(limit) => ("at most", limit),
            AtLeast(limit) => ("at least", limit),
        };
        format!("{sign} {limit} {unit}")
    }
}

/// CPU time per request as a ratio: tests, whom to, limit.
const CPU: &[(&[&str], Kind, Limit)] = &[
    (&["SET P=1", "GET P=1"], Kind::Redis, AtMost(0.92)),
    (&["SET P=1", "GET P=1"], Kind::Null, AtMost(1.03)),
    (&["SET P=16"], Kind::Redis, AtMost(0.48)),
    (&["GET P=16"], Kind::Redis, AtMost(0.55)),
    (&["SET P=16", "GET P=16"], Kind::Null, AtMost(1.15)),
    (&["SET P=64"], Kind::Redis, AtMost(0.25)),
    (&["GET P=64"], Kind::Redis, AtMost(0.30)),
    (&["SET P=64", "GET P=64"], Kind::Null, AtMost(1.6)),
    (
        &["SETNX P=64", "INCR P=64", "DEL P=64", "GETSET P=64", "MSET of 10 P=64", "MGET of 10 P=64", "SET PX P=64"],
        Kind::Redis,
        AtMost(0.4),
    ),
];

/// Requests per second as a ratio.
const THROUGHPUT: &[(&[&str], Kind, Limit)] = &[
    (&["SET P=16", "GET P=16"], Kind::Redis, AtLeast(2.2)),
    (&["SET P=64", "GET P=64"], Kind::Redis, AtLeast(3.3)),
    (&["SET P=1", "GET P=1", "SET P=16", "GET P=16", "SET P=64", "GET P=64"], Kind::Pogocache, AtLeast(1.0)),
];

/// Figures of other sections: what, section, test, figure, to whom if it is a ratio, limit, unit.
type Single = (&'static str, &'static str, &'static str, &'static str, Option<Kind>, Limit, &'static str);
const SINGLES: &[Single] = &[
    ("CPU of SET, P=64, 10 M keys", "keys", "SET 10M", "CPU us", Some(Kind::Redis), AtMost(0.33), "x redis"),
    ("CPU of GET, P=64, 10 M keys", "keys", "GET 10M", "CPU us", Some(Kind::Redis), AtMost(0.33), "x redis"),
    ("CPU of EVALSHA, P=16", "scripts", "EVALSHA, refused P=16", "CPU us", Some(Kind::Redis), AtMost(0.6), "x redis"),
    ("CPU of EVALSHA, P=1", "scripts", "EVALSHA, refused P=1", "CPU us", Some(Kind::Redis), AtMost(1.0), "x redis"),
    ("bytes per key, 10 M keys", "memory", "without TTL 10M", "bytes", None, AtMost(30.0), "bytes"),
    ("bytes per key with TTL, 10 M keys", "memory", "with TTL 10M", "bytes", None, AtMost(38.0), "bytes"),
    ("worst stall above an unloaded server", "growth", "stall", "ms above unloaded", None, AtMost(2.0), "ms"),
    ("idle connection", "footprint", "process", "connection bytes", None, AtMost(1536.0), "bytes"),
    ("clients served", "clients", "crowd", "served", None, AtLeast(10_000.0), "clients"),
    ("start to first PONG", "footprint", "process", "start ms", Some(Kind::Redis), AtMost(0.35), "x redis"),
    ("idle memory", "footprint", "process", "idle MB", None, AtMost(3.0), "MB"),
    ("release binary", "footprint", "process", "binary MB", None, AtMost(8.0), "MB"),
];

/// Goals that another benchmark judges.
const ELSEWHERE: &[(&str, &str, &str)] =
    &[("store, 1 to 2 threads, distinct keys", "at least 1.9 x", "`cargo bench --bench store`")];

/// Returns the goals with the figures beside them.
pub fn judge(figures: &Figures) -> String {
    let mut table = Table::new(&["goal", "limit", "redis-benchmark", "our generator", "verdict"]);
    let lists = [("CPU", "CPU us", CPU), ("throughput", "req/s", THROUGHPUT)];
    for (what, figure, goals) in lists {
        for (tests, to, limit) in goals {
            for test in *tests {
                let unit = format!("x {}", to.name());
                let name = format!("{what} of {}", test.replace(" P=", ", P="));
                let by = |section| ratio(figures, section, test, figure, Some(*to));
                // redis-benchmark is the ruler that the goals were made with.
                let (ruler, own) = (by("redis-benchmark"), by("commands"));
                let verdict = verdict(ruler.or(own), *limit);
                table.row([name, limit.shown(&unit), shown(ruler), shown(own), verdict]);
            }
        }
    }
    for (name, section, test, figure, to, limit, unit) in SINGLES {
        let value = ratio(figures, section, test, figure, *to);
        table.row([(*name).to_owned(), limit.shown(unit), String::new(), shown(value), verdict(value, *limit)]);
    }
    for (name, limit, verdict) in ELSEWHERE {
        table.row([(*name).to_owned(), (*limit).to_owned(), String::new(), String::new(), (*verdict).to_owned()]);
    }
    table.markdown()
}

/// Returns keylatch's figure, by that of another server if it is a ratio.
fn ratio(figures: &Figures, section: &str, test: &str, figure: &str, to: Option<Kind>) -> Option<f64> {
    let own = figures.get(section, test, Kind::Keylatch, figure)?;
    to.map_or(Some(own), |to| Some(own / figures.get(section, test, to, figure)?))
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

fn verdict(value: Option<f64>, limit: Limit) -> String {
    match value {
        Some(value) if limit.is_met(value) => "met",
        Some(_) => "**missed**",
        None => "not measured",
    }
    .to_owned()
}
