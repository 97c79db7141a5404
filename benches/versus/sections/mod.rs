//! Sections of this benchmark. Each can be run alone and replaces only its own figures and plot.

mod clients;
mod collections;
mod commands;
mod curves;
mod disturbed;
mod footprint;
mod growth;
mod keys;
mod large;
mod latency;
mod libraries;
mod locks;
mod wire;
mod workers;

use std::thread;
use std::time::Duration;

use crate::figures::Figures;
use crate::measure::{Sample, interleaved};
use crate::plot::{Axis, Line, Panel, Scale};
use crate::report::{Table, number, short};
use crate::server::{Kind, Server};
use crate::{Context, Result};

/// Section: the area of its figures, its subject, and its function.
pub struct Section {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&mut Context, &str) -> Result<()>,
}

/// All sections in the order of a full run.
pub const SECTIONS: &[Section] = &[
    Section {
        name: "redis-benchmark",
        about: "string commands by `redis-benchmark`: 50 connections, 100,000 keys, values of 3 bytes",
        run: commands::redis_benchmark,
    },
    Section {
        name: "commands",
        about: "the same by our generator; latencies are those of a whole pipeline",
        run: commands::own,
    },
    Section {
        name: "earlier",
        about: "this build beside the one that `KEYLATCH_EARLIER` names",
        run: commands::earlier,
    },
    Section {
        name: "wire",
        about: "`redis-benchmark` across a wire: two network namespaces joined by veth, CPU with the receiving softirqs",
        run: wire::run,
    },
    Section { name: "depth", about: "CPU time by pipeline depth", run: curves::depth },
    Section { name: "keys", about: "CPU time by the number of keys", run: keys::cost },
    Section { name: "memory", about: "bytes per key beside key and value, from Pss", run: keys::memory },
    Section { name: "size", about: "CPU time by the size of values", run: curves::size },
    Section {
        name: "large-values",
        about: "`SET` and `GET` of 10 kB to 1 MB; of 512 MiB with the server's peak memory",
        run: large::run,
    },
    Section { name: "connections", about: "CPU time by the number of connections", run: curves::connections },
    Section {
        name: "latency",
        about: "`SET` at a fixed rate, from the time at which a request was due (no coordinated omission)",
        run: latency::run,
    },
    Section {
        name: "workers",
        about: "one worker thread and two: `SET`, `GET`, transactions, the script that releases a lock",
        run: workers::run,
    },
    Section {
        name: "lock-cycles",
        about: "`SETNX` and `DEL`; `GET` and `GETSET` that take over: 50 connections, 100,000 locks",
        run: locks::run,
    },
    Section {
        name: "scripts",
        about: "the script that releases a lock, refused, and in cycles with `SET NX PX`",
        run: locks::scripts,
    },
    Section { name: "script-libraries", about: "`cjson` and `cmsgpack` in scripts", run: libraries::run },
    Section { name: "fairness", about: "one client beside eight that flood", run: clients::fairness },
    Section {
        name: "disturbed",
        about: "one client beside others that flood, never read, or send a byte a second",
        run: disturbed::run,
    },
    Section {
        name: "clients",
        about: "10,000 clients of which 1,000 are active; needs `ulimit -n` above that",
        run: clients::many,
    },
    Section {
        name: "footprint",
        about: "start to the first `+PONG`, memory (Pss) of an idle process and of 5,000 idle connections, size of the \
                binary",
        run: footprint::run,
    },
    Section {
        name: "collections",
        about: "commands on lists, hashes, sets, sorted sets and streams of 100,000 elements by `redis-benchmark`",
        run: collections::cost::run,
    },
    Section {
        name: "collections-size",
        about: "how their CPU time grows with the size of the collection, 10 to 10 million elements",
        run: collections::cost::by_size,
    },
    Section {
        name: "collections-memory",
        about: "bytes per element beside its payload, from Pss",
        run: collections::memory::run,
    },
    Section {
        name: "collections-stalls",
        about: "round trips while others fill, remove and read collections of ten million elements",
        run: collections::stalls::run,
    },
    Section { name: "growth", about: "round trips while ten million keys are loaded", run: growth::run },
];

/// Lists the sections with their subjects and the commits at which they were measured.
pub fn table(figures: &Figures) -> String {
    let mut table = Table::new(&["area of `versus`", "what it measures", "measured at"]);
    for section in SECTIONS {
        table.row([format!("`{}`", section.name), section.about.to_owned(), figures.commits(section.name)]);
    }
    table.markdown()
}

const CPU: Axis = Axis { label: "server CPU per request, µs", scale: Scale::Log { base: 10.0 } };
const CPU_LINEAR: Axis = Axis { label: "server CPU per request, µs", scale: Scale::Linear };
const THROUGHPUT: Axis = Axis { label: "requests per second", scale: Scale::Log { base: 10.0 } };

/// Measurements at some values of x, for each server.
struct Sweep {
    servers: Vec<Kind>,
    points: Vec<(f64, Vec<Sample>)>,
}

impl Sweep {
    /// Measures at each x; NaN for a server that does not support it.
    fn measure(
        context: &Context,
        servers: &[Server],
        xs: &[f64],
        mut measure: impl FnMut(&Server, f64) -> Result<Sample>,
    ) -> Result<Sweep> {
        let mut points = Vec::new();
        for &x in xs {
            let samples = interleaved(servers, context.effort.rounds, |server| measure(server, x))?;
            points.push((x, samples.iter().map(|samples| Sample::median(samples)).collect()));
        }
        Ok(Sweep { servers: servers.iter().map(|server| server.kind).collect(), points })
    }

    /// Joins sweeps with one x each.
    fn joined(sweeps: Vec<Sweep>) -> Sweep {
        let servers = sweeps.first().map(|sweep| sweep.servers.clone()).unwrap_or_default();
        Sweep { servers, points: sweeps.into_iter().flat_map(|sweep| sweep.points).collect() }
    }

    /// Records the figures of all points; `workload` returns a point's name from its x.
    fn record(&self, figures: &mut Figures, section: &str, workload: impl Fn(&str) -> String) {
        for (x, samples) in &self.points {
            for (&kind, sample) in self.servers.iter().zip(samples) {
                figures.set_sample(section, &workload(&short(*x)), kind, "req/s", sample);
            }
        }
    }

    fn panel(&self, title: &str, y: Axis, figure: fn(&Sample) -> f64) -> Panel {
        let line = |(at, &server): (usize, &Kind)| {
            let points = self.points.iter().map(|(x, samples)| (*x, figure(&samples[at])));
            Line { server, points: points.filter(|point| point.1.is_finite()).collect() }
        };
        Panel { title: title.to_owned(), y, lines: self.servers.iter().enumerate().map(line).collect() }
    }
}

/// Columns, one for each server: the title before the server's name, and the figure shown.
struct Columns<'a> {
    title: &'static str,
    sweep: &'a Sweep,
    figure: fn(&Sample) -> f64,
}

/// Returns a table with several sweeps over the same values as columns, and a row for each value of x.
fn pivot(x: &str, columns: &[Columns<'_>]) -> String {
    let heads = |columns: &Columns<'_>| -> Vec<String> {
        columns.sweep.servers.iter().map(|server| format!("{} {}", columns.title, server.name())).collect()
    };
    let head: Vec<String> = std::iter::once(x.to_owned()).chain(columns.iter().flat_map(heads)).collect();
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, (x, _)) in columns[0].sweep.points.iter().enumerate() {
        let cells = |columns: &Columns<'_>| -> Vec<String> {
            columns.sweep.points[at].1.iter().map(|sample| number((columns.figure)(sample))).collect()
        };
        table.row(std::iter::once(short(*x)).chain(columns.iter().flat_map(cells)));
    }
    table.markdown()
}

/// Sleeps for a duration, as a step of a measurement.
fn wait(duration: Duration) -> Result<()> {
    thread::sleep(duration);
    Ok(())
}
