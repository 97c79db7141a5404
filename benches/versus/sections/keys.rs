//! Many keys: the cost of a request, and the memory overhead of a key.

use std::thread;
use std::time::Duration;

use super::{CPU_LINEAR, Columns, Sweep, pivot};
use crate::load::{Load, Spec, fill};
use crate::measure::memory as memory_of;
use crate::plot::{Axis, Line, Panel, Plot, Scale};
use crate::report::{Table, number, short};
use crate::server::{Kind, Server};
use crate::workload::{GET, KEY_LEN, SET, Workload};
use crate::{Context, Result};

const DEPTH: usize = 64;
const CONNECTIONS: usize = 50;
pub const VALUE_LEN: usize = 32;
/// Time for which a server is loaded with requests for one key before anything else.
const WARM_UP: Duration = Duration::from_millis(200);
const KEYS: Axis = Axis { label: "keys", scale: Scale::Log { base: 10.0 } };

/// Workload that stores a value with a TTL of a day, so none expires during the measurement.
const SET_PX: Workload = Workload { name: "SET PX", steps: &["SET {key} {value} PX 86400000"], memcached: None, ..SET };

/// Returns the numbers of keys, in powers of ten.
fn counts(context: &Context) -> Vec<u64> {
    (3..).map(|power| 10u64.pow(power)).take_while(|&count| count <= context.effort.keys_max).collect()
}

pub fn cost(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|kind| kind.is_store() || kind == Kind::Null)?;
    let (mut set, mut get, mut filled) = (Vec::new(), Vec::new(), 0);
    for keys in counts(context) {
        println!("{keys} keys");
        for server in servers.iter().filter(|server| server.kind.is_store()) {
            fill(server, &SET, filled..keys, VALUE_LEN)?;
        }
        filled = keys;
        let sweep = |workload: &'static Workload| {
            Sweep::measure(context, &servers, &[keys as f64], |server, _| {
                let spec = Spec { workload, connections: CONNECTIONS, depth: DEPTH, keys, value_len: VALUE_LEN };
                Ok(Load::closed(server, spec)?.measure(context.effort.warm_up, context.effort.window)?.sample())
            })
        };
        set.push(sweep(&SET)?);
        get.push(sweep(&GET)?);
    }
    let (set, get) = (Sweep::joined(set), Sweep::joined(get));
    context.figures.forget(section);
    set.record(&mut context.figures, section, |keys| format!("SET {keys}"));
    get.record(&mut context.figures, section, |keys| format!("GET {keys}"));
    let plot = Plot {
        title: format!("CPU per request against the number of keys, P={DEPTH}"),
        x: KEYS,
        panels: vec![set.panel("SET", CPU_LINEAR, |s| s.cpu_us), get.panel("GET", CPU_LINEAR, |s| s.cpu_us)],
    };
    let how = format!(
        "CPU microseconds per request with all keys equally likely, {CONNECTIONS} connections, pipelines of {DEPTH}, values \
         of {VALUE_LEN} bytes."
    );
    let table = pivot(
        "keys",
        &[
            Columns { title: "SET", sweep: &set, figure: |s| s.cpu_us },
            Columns { title: "GET", sweep: &get, figure: |s| s.cpu_us },
        ],
    );
    context.draw(section, &plot)?;
    context.publish(section, &how, &table)
}

pub fn memory(context: &mut Context, section: &str) -> Result<()> {
    let counts = counts(context);
    let measure = |workload: &Workload| {
        println!("{}", workload.name);
        context.each_anew(1, Kind::is_store, |server| beyond(&server, workload, &counts, context.effort.window * 4))
    };
    let readings = [("without TTL", measure(&SET)?), ("with TTL", measure(&SET_PX)?)];
    context.figures.forget(section);
    let mut head = vec!["keys".to_owned()];
    let mut panels = Vec::new();
    for (title, servers) in &readings {
        for (kind, rounds) in servers {
            head.push(format!("{} {title}", kind.name()));
            for (&count, &bytes) in counts.iter().zip(&rounds[0]) {
                context.figures.set(section, &format!("{title} {}", short(count as f64)), *kind, "bytes", bytes);
            }
        }
        let line = |(kind, rounds): &(Kind, Vec<Vec<f64>>)| Line {
            server: *kind,
            points: counts.iter().map(|&count| count as f64).zip(rounds[0].iter().copied()).collect(),
        };
        let y = Axis { label: "bytes per key beyond key and value", scale: Scale::Linear };
        panels.push(Panel { title: (*title).to_owned(), y, lines: servers.iter().map(line).collect() });
    }
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, &count) in counts.iter().enumerate() {
        let cells = readings.iter().flat_map(|(_, servers)| servers.iter().map(|(_, rounds)| number(rounds[0][at])));
        table.row(std::iter::once(short(count as f64)).chain(cells));
    }
    let title = format!("Memory beyond keys of {KEY_LEN} and values of {VALUE_LEN} bytes");
    context.draw(section, &Plot { title, x: KEYS, panels })?;
    let how = format!(
        "bytes per key beyond its {KEY_LEN} bytes and the {VALUE_LEN} of its value, from the server's Pss \
         (`/proc/PID/smaps_rollup`) above what it had when it had served a single key for a while."
    );
    context.publish(section, &how, &table.markdown())
}

/// Returns the memory of a key beyond itself and its value, in bytes, at each of these numbers of keys. The server is
/// left alone for `settle` before its memory is read.
fn beyond(server: &Server, workload: &Workload, counts: &[u64], settle: Duration) -> Result<Vec<f64>> {
    // Code and buffers that every server needs, whatever it stores, are in memory before the first reading.
    let spec = Spec { workload, connections: 1, depth: 1_000, keys: 1, value_len: VALUE_LEN };
    Load::closed(server, spec)?.measure(Duration::ZERO, WARM_UP)?;
    thread::sleep(settle);
    let (empty, mut filled) = (memory_of(server.pid())?, 0);
    let at = |&count: &u64| {
        fill(server, workload, filled..count, VALUE_LEN)?;
        filled = count;
        thread::sleep(settle);
        Ok((memory_of(server.pid())? - empty) / count as f64 - (KEY_LEN + VALUE_LEN) as f64)
    };
    counts.iter().map(at).collect()
}
