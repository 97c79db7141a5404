//! CPU time per request, compared with redis-server: of each command, and against the size of a collection.

use super::{Collection, HASH, LIST, NUMBERS, SET, SORTED_SET};
use crate::load::send;
use crate::measure::{Sample, interleaved};
use crate::plot::{Axis, Plot, Scale};
use crate::redis_benchmark::{CLIENTS, KEYS, load, load_among};
use crate::report::{Table, number, ratio, short};
use crate::sections::{CPU_LINEAR, Sweep};
use crate::server::{Kind, Server};
use crate::workload::{Workload, single};
use crate::{Context, Result};

/// Number of requests of a reading at depth 64 and at depth 1.
const REQUESTS: usize = 1_000_000;
const SINGLE_REQUESTS: usize = 60_000;
/// Number of requests that one request with a long reply counts as.
const LONG: usize = 10;
/// Number of elements that a filling request adds to the lists that are popped from.
const PUSHED: usize = 1_000;
const ROUNDS_MAX: usize = 3;

const SHORT_REPLIES: &[Workload] = &[
    single("LPUSH", &["LPUSH pushed xxx"]),
    single("RPUSH", &["RPUSH pushed xxx"]),
    single("LPOP", &["LPOP popped"]),
    single("RPOP", &["RPOP popped"]),
    single("SADD", &["SADD set m:__rand_int__"]),
    single("SISMEMBER", &["SISMEMBER set m:__rand_int__"]),
    single("HGET", &["HGET hash f:__rand_int__"]),
    single("HSET", &["HSET hash f:__rand_int__ xyz"]),
    single("HINCRBY", &["HINCRBY numbers f:__rand_int__ 1"]),
    single("ZSCORE", &["ZSCORE zset m:__rand_int__"]),
    single("XADD", &["XADD stream * field value"]),
    single("ZADD", &["ZADD zset __rand_int__ m:__rand_int__"]),
    single("ZRANK", &["ZRANK zset m:__rand_int__"]),
    single("ZINCRBY", &["ZINCRBY zset 1 m:__rand_int__"]),
];

const LONG_REPLIES: &[Workload] = &[
    single("LRANGE of 100", &["LRANGE list 0 99"]),
    single("ZRANGE of 100", &["ZRANGE zset 0 99"]),
    single("HGETALL of 50", &["HGETALL hash50"]),
    single("SMEMBERS of 50", &["SMEMBERS set50"]),
];

fn is_compared(kind: Kind) -> bool {
    matches!(kind, Kind::Keylatch | Kind::Redis | Kind::Valkey)
}

/// Fills the collections of a new server.
fn prepare(server: &Server) -> Result<()> {
    for collection in [HASH, NUMBERS, SET, SORTED_SET, LIST] {
        collection.fill(server, 0..KEYS)?;
    }
    send(server, (0..50).map(|at| format!("HSET hash50 field:{at} value:{at}")))?;
    send(server, (0..50).map(|at| format!("SADD set50 member:{at}")))
}

/// Loads a server with a command; elements that the command removes are added first.
fn reading(server: &Server, workload: &Workload, depth: usize, requests: usize) -> Result<Sample> {
    if workload.steps[0].ends_with("popped") {
        let pushed = format!("RPUSH popped{}", " xxx".repeat(PUSHED));
        send(server, (0..requests.div_ceil(PUSHED)).map(|_| pushed.clone()))?;
    }
    load(server, workload, depth, requests)
}

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let rounds = context.effort.rounds.min(ROUNDS_MAX);
    let share = if context.effort.is_quick { 8 } else { 1 };
    let cases = SHORT_REPLIES.iter().map(|workload| (workload, 1)).chain(LONG_REPLIES.iter().map(|long| (long, LONG)));
    let cases: Vec<(&Workload, usize, usize)> =
        cases.flat_map(|(workload, weight)| [(workload, weight, 64), (workload, weight, 1)]).collect();
    let mut kinds = Vec::new();
    let mut readings: Vec<Vec<Vec<Sample>>> = Vec::new();
    for round in 0..rounds {
        println!("round {} of {rounds}", round + 1);
        let servers = context.start(is_compared)?;
        servers.iter().try_for_each(prepare)?;
        kinds = servers.iter().map(|server| server.kind).collect();
        readings.resize_with(cases.len(), || kinds.iter().map(|_| Vec::new()).collect());
        for ((workload, weight, depth), readings) in cases.iter().zip(&mut readings) {
            let requests = if *depth == 1 { SINGLE_REQUESTS } else { REQUESTS / weight } / share;
            for (server, readings) in servers.iter().zip(readings) {
                readings.push(reading(server, workload, *depth, requests)?);
            }
        }
    }
    context.figures.forget(section);
    let mut table = Table::new(&["command", "P", "server", "CPU us/req", "x redis", "req/s", "x redis"]);
    for ((workload, _, depth), readings) in cases.iter().zip(&readings) {
        let medians: Vec<Sample> = readings.iter().map(|samples| Sample::median(samples)).collect();
        let redis = kinds.iter().position(|kind| *kind == Kind::Redis).map_or(Sample::NONE, |at| medians[at]);
        for (kind, median) in kinds.iter().zip(&medians) {
            context.figures.set_sample(section, &format!("{} P={depth}", workload.name), *kind, "req/s", median);
            table.row([
                workload.name.to_owned(),
                depth.to_string(),
                kind.name().to_owned(),
                number(median.cpu_us),
                ratio(median.cpu_us, redis.cpu_us),
                format!("{:.0}", median.per_second),
                ratio(median.per_second, redis.per_second),
            ]);
        }
    }
    let how = format!(
        "`redis-benchmark`, {CLIENTS} clients, collections of {KEYS} elements, each row the median of {rounds} rounds \
         with new processes."
    );
    context.publish(section, &how, &table.markdown())
}

/// Cases measured against the size of a collection.
const BY_SIZE: &[(&Collection, Workload)] = &[
    (&HASH, single("HSET", &["HSET hash f:__rand_int__ xyz"])),
    (&HASH, single("HGET", &["HGET hash f:__rand_int__"])),
    (&SET, single("SISMEMBER", &["SISMEMBER set m:__rand_int__"])),
    (&SORTED_SET, single("ZADD", &["ZADD zset __rand_int__ m:__rand_int__"])),
    (&SORTED_SET, single("ZRANK", &["ZRANK zset m:__rand_int__"])),
    (&LIST, single("LPUSH", &["LPUSH list xxx"])),
];
const SIZE_REQUESTS: usize = 400_000;
const SIZES: Axis = Axis { label: "elements", scale: Scale::Log { base: 10.0 } };

pub fn by_size(context: &mut Context, section: &str) -> Result<()> {
    let rounds = context.effort.rounds.min(ROUNDS_MAX);
    let servers = context.start(is_compared)?;
    let sizes: Vec<u64> =
        (1..).map(|power| 10u64.pow(power)).take_while(|&size| size <= context.effort.keys_max).collect();
    let mut points: Vec<Vec<(f64, Vec<Sample>)>> = BY_SIZE.iter().map(|_| Vec::new()).collect();
    let mut filled = 0;
    for size in sizes {
        println!("{size} elements");
        for server in &servers {
            [HASH, SET, SORTED_SET, LIST].iter().try_for_each(|collection| collection.fill(server, filled..size))?;
        }
        filled = size;
        for ((_, workload), points) in BY_SIZE.iter().zip(&mut points) {
            let samples =
                interleaved(&servers, rounds, |server| load_among(server, workload, 64, SIZE_REQUESTS, size))?;
            points.push((size as f64, samples.iter().map(|samples| Sample::median(samples)).collect()));
        }
    }
    context.figures.forget(section);
    let (mut panels, mut table) = (Vec::new(), Table::new(&["command", "elements", "server", "CPU us/req"]));
    for ((_, workload), points) in BY_SIZE.iter().zip(points) {
        let sweep = Sweep { servers: servers.iter().map(|server| server.kind).collect(), points };
        sweep.record(&mut context.figures, section, |size| format!("{} {size}", workload.name));
        for (size, samples) in &sweep.points {
            for (kind, sample) in sweep.servers.iter().zip(samples) {
                table.row([workload.name.into(), short(*size), kind.name().into(), number(sample.cpu_us)]);
            }
        }
        panels.push(sweep.panel(workload.name, CPU_LINEAR, |sample| sample.cpu_us));
    }
    let title = "CPU per request against the size of a collection, P=64".to_owned();
    context.draw(section, &Plot { title, x: SIZES, panels })?;
    let how = format!(
        "CPU microseconds per request of one collection with all elements equally likely, `redis-benchmark`, {CLIENTS} \
         clients, pipelines of 64, medians of {rounds} rounds."
    );
    context.publish(section, &how, &table.markdown())
}
