//! Growth of a request's cost with the pipeline's depth, the size of values, and the number of connections.

use super::{CPU, CPU_LINEAR, Columns, Sweep, THROUGHPUT, pivot};
use crate::load::{Load, Spec, fill};
use crate::measure::Sample;
use crate::plot::{Axis, Plot, Scale};
use crate::report::short;
use crate::server::{Kind, Server};
use crate::workload::{GET, SET, Workload};
use crate::{Context, Result};

const KEYS: u64 = 100_000;
const CONNECTIONS: usize = 50;
const DEPTHS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
const SIZES: &[f64] = &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
const CONNECTED: &[f64] = &[1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];
/// Connections and depth for values of all sizes but the largest.
const SIZE_CONNECTIONS: usize = 25;
const SIZE_DEPTH: usize = 16;
/// Maximum number of bytes that a test of sizes stores.
const SIZE_TOTAL: f64 = 200e6;

pub fn depth(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|_| true)?;
    fill_all(&servers)?;
    let sweep = |workload: &'static Workload| {
        Sweep::measure(context, &servers, DEPTHS, |server, depth| {
            let depth = depth as usize;
            measure(context, server, Spec { workload, connections: CONNECTIONS, depth, keys: KEYS, value_len: 3 })
        })
    };
    let (set, get) = (sweep(&SET)?, sweep(&GET)?);
    let plot = Plot {
        title: format!("CPU per request against pipeline depth, {CONNECTIONS} connections"),
        x: Axis { label: "pipeline depth, requests", scale: Scale::Log { base: 2.0 } },
        panels: vec![set.panel("SET", CPU, |s| s.cpu_us), get.panel("GET", CPU, |s| s.cpu_us)],
    };
    let how = format!("CPU microseconds per request, {CONNECTIONS} connections, values of 3 bytes.");
    let table = pivot(
        "P",
        &[
            Columns { title: "SET", sweep: &set, figure: |s| s.cpu_us },
            Columns { title: "GET", sweep: &get, figure: |s| s.cpu_us },
        ],
    );
    context.figures.forget(section);
    set.record(&mut context.figures, section, |x| format!("SET P={x}"));
    get.record(&mut context.figures, section, |x| format!("GET P={x}"));
    context.draw(section, &plot)?;
    context.publish(section, &how, &table)
}

pub fn size(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|_| true)?;
    let (mut set, mut get) = (Vec::new(), Vec::new());
    for &size in SIZES {
        let keys = ((SIZE_TOTAL / size) as u64).clamp(1, KEYS);
        let spec = |workload| Spec {
            workload,
            connections: if size > 1e5 { SIZE_CONNECTIONS / 5 } else { SIZE_CONNECTIONS },
            depth: if size > 1e5 { SIZE_DEPTH / 4 } else { SIZE_DEPTH },
            keys,
            value_len: size as usize,
        };
        let sweep = |workload: &'static Workload| {
            Sweep::measure(context, &servers, &[size], |server, _| {
                // memcached accepts no item beyond a mebibyte, which includes the key and its own fields.
                if server.kind == Kind::Memcached && size > 9e5 {
                    return Ok(Sample::NONE);
                }
                fill(server, &SET, 0..keys, size as usize)?;
                measure(context, server, spec(workload))
            })
        };
        println!("{} bytes", short(size));
        set.push(sweep(&SET)?);
        get.push(sweep(&GET)?);
    }
    let (set, get) = (Sweep::joined(set), Sweep::joined(get));
    let plot = Plot {
        title: "Cost and throughput against the size of values".to_owned(),
        x: Axis { label: "bytes per value", scale: Scale::Log { base: 10.0 } },
        panels: vec![
            set.panel("SET, cost", CPU, |s| s.cpu_us),
            get.panel("GET, cost", CPU, |s| s.cpu_us),
            set.panel("SET, throughput", THROUGHPUT, |s| s.per_second),
            get.panel("GET, throughput", THROUGHPUT, |s| s.per_second),
        ],
    };
    let how = format!(
        "CPU microseconds per request, {SIZE_CONNECTIONS} connections, pipelines of {SIZE_DEPTH} ({} and {} for values of a \
         megabyte). The null server keeps and returns no value.",
        SIZE_CONNECTIONS / 5,
        SIZE_DEPTH / 4
    );
    let table = pivot(
        "bytes",
        &[
            Columns { title: "SET", sweep: &set, figure: |s| s.cpu_us },
            Columns { title: "GET", sweep: &get, figure: |s| s.cpu_us },
        ],
    );
    context.figures.forget(section);
    set.record(&mut context.figures, section, |x| format!("SET of {x} bytes"));
    get.record(&mut context.figures, section, |x| format!("GET of {x} bytes"));
    context.draw(section, &plot)?;
    context.publish(section, &how, &table)
}

pub fn connections(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|_| true)?;
    fill_all(&servers)?;
    let sweep = Sweep::measure(context, &servers, CONNECTED, |server, connections| {
        let connections = connections as usize;
        if connections > server.kind.clients_max() {
            return Ok(Sample::NONE);
        }
        measure(context, server, Spec { workload: &GET, connections, depth: 1, keys: KEYS, value_len: 3 })
    })?;
    let plot = Plot {
        title: "GET against the number of connections, one request at a time on each".to_owned(),
        x: Axis { label: "connections", scale: Scale::Log { base: 10.0 } },
        panels: vec![
            sweep.panel("Cost", CPU_LINEAR, |s| s.cpu_us),
            sweep.panel("Throughput", Axis { scale: Scale::Linear, ..THROUGHPUT }, |s| s.per_second),
        ],
    };
    let how = "`GET` at depth 1, CPU microseconds per request and requests per second.";
    let table = pivot(
        "connections",
        &[
            Columns { title: "CPU", sweep: &sweep, figure: |s| s.cpu_us },
            Columns { title: "req/s", sweep: &sweep, figure: |s| s.per_second },
        ],
    );
    context.figures.forget(section);
    sweep.record(&mut context.figures, section, |connections| format!("GET, {connections} connections"));
    context.draw(section, &plot)?;
    context.publish(section, how, &table)
}

fn fill_all(servers: &[Server]) -> Result<()> {
    servers.iter().try_for_each(|server| fill(server, &SET, 0..KEYS, 3))
}

fn measure(context: &Context, server: &Server, spec: Spec<'_>) -> Result<Sample> {
    Ok(Load::closed(server, spec)?.measure(context.effort.warm_up, context.effort.window)?.sample())
}
