//! Commands across a wire, where the CPU time of received packets is counted with the receiver.

use crate::load::Spec;
use crate::redis_benchmark::{self, CLIENTS, KEYS};
use crate::sections::commands::{Row, VALUE_LEN, table};
use crate::wire::Wire;
use crate::workload::{COMMANDS, Workload};
use crate::{Context, Result};

/// Commands of the table, with these depths of the pipeline.
const SHOWN: [&str; 4] = ["SET", "GET", "SETNX", "INCR"];
const DEPTHS: [usize; 2] = [1, 16];

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    if let Some(lacking) = Wire::lacking() {
        println!("left out: it needs {lacking}");
        return Ok(());
    }
    let wire = Wire::make()?;
    let servers = context.start_across(&wire)?;
    let share = if context.effort.is_quick { 8 } else { 1 };
    let how = format!(
        "`redis-benchmark` with {CLIENTS} clients at one end of a wire, the servers at the other: two network namespaces \
         joined by veth, threaded NAPI, GRO on, TSO off; the server and the softirqs that receive for it on one core, \
         the generator and its own on the other. CPU is that of both, the process and these softirqs. {KEYS} keys, \
         values of {VALUE_LEN} bytes, each row the median of {} interleaved rounds.",
        context.effort.rounds
    );
    let row = |workload: &'static Workload, depth| {
        let spec = Spec { workload, connections: CLIENTS, depth, keys: KEYS, value_len: VALUE_LEN };
        Row { test: workload.name.to_owned(), spec }
    };
    let shown = COMMANDS.iter().filter(|workload| SHOWN.contains(&workload.name));
    let rows: Vec<Row<'_>> = shown.flat_map(|workload| DEPTHS.map(|depth| row(workload, depth))).collect();
    table(context, section, &how, &servers, &rows, |server, Spec { workload, depth, .. }| {
        redis_benchmark::load(server, workload, depth, 100_000 * depth.min(8) / share)
    })
}
