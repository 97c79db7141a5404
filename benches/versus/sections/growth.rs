//! The longest wait of one client while another loads keys, compared with an idle server.

use std::time::{Duration, Instant};

use super::keys::VALUE_LEN;
use super::wait;
use crate::load::{beside, fill};
use crate::measure::medians;
use crate::report::{Table, number};
use crate::server::Kind;
use crate::workload::{GET, SET};
use crate::{Context, Result};

/// Time for which the unloaded server is observed, about the duration of a load.
const UNLOADED: Duration = Duration::from_secs(5);

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let keys = context.effort.keys_max;
    let unloaded_for = if context.effort.is_quick { UNLOADED / 5 } else { UNLOADED };
    let readings = context.each_anew(context.effort.rounds.min(3), Kind::is_store, |server| {
        println!("{}", server.kind.name());
        let (unloaded, ()) = beside(&server, &GET, || wait(unloaded_for))?;
        let (loaded, seconds) = beside(&server, &GET, || {
            let started = Instant::now();
            fill(&server, &SET, 0..keys, VALUE_LEN)?;
            Ok(started.elapsed().as_secs_f64())
        })?;
        let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let worst = [ms(unloaded.max()), ms(loaded.max())];
        Ok([worst[0], ms(loaded.value_at_quantile(0.999)), worst[1], worst[1] - worst[0], seconds])
    })?;
    let units = ["worst unloaded ms", "p99.9 ms", "worst ms", "ms above unloaded", "load s"];
    let mut table = Table::new(&[&["server"], &units[..]].concat());
    context.figures.forget(section);
    for (kind, rounds) in &readings {
        let medians = medians(rounds);
        for (unit, value) in units.into_iter().zip(medians) {
            context.figures.set(section, "GET while keys are loaded", *kind, unit, value);
        }
        table.row(std::iter::once(kind.name().to_owned()).chain(medians.map(number)));
    }
    let how = format!(
        "round trips of a client that sends a `GET` every 0.2 ms while another loads {keys} keys in pipelines of 1,000; \
         medians of {} loads. Unloaded is the same client for {} s before.",
        context.effort.rounds.min(3),
        unloaded_for.as_secs()
    );
    context.publish(section, &how, &table.markdown())
}
