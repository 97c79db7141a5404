//! Comparison of lock designs for the sharded store. The designs below guard the same sharded hash tables and replay
//! the same requests in one process: no sockets, no parsing, only locking and the table.
//!
//!     cargo bench --bench store
//!
//! It takes about two minutes. A cell is the median wall time per request over short, interleaved rounds, all threads together
//! (two threads at their best halve it), and its ratio to design C. The half of the rounds in which the workers waited
//! longest for a CPU is left out: other processes disturbed it. `C again`, a second store of the same type, shows the
//! noise; `a store per worker` gains nearly 2.00x from its second thread, or the two-thread columns cannot be believed.
//! Locks cost less in a server, which makes system calls between batches and misses the cache more often.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::{
    cell::RefCell,
    collections::HashMap,
    hint::black_box,
    ops::{Deref, DerefMut},
    sync::{Arc, Barrier, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use ahash::RandomState;
use crossbeam_utils::{CachePadded, sync::ShardedLock};
use parking_lot::{Mutex, RwLock};

const KEYS: u64 = 100_000;
const SHARDS: usize = 64;
const WORKERS: usize = 2;
const MSET_KEYS: usize = 10;
/// Threads and requests per batch; the second half repeats the first with two threads.
const COLUMNS: [(usize, usize); 6] = [(1, 1), (1, 16), (1, 64), (2, 1), (2, 16), (2, 64)];
const HASHER: RandomState = RandomState::with_seeds(1, 2, 3, 4);

type Map = HashMap<Box<[u8]>, Box<[u8]>, RandomState>;
type Shards<S> = Vec<CachePadded<S>>;

/// A key as the decoder would hand it over: hashed already, and nothing is locked. Ascending `hash` is ascending shard.
struct Key {
    hash: usize,
    bytes: [u8; 16],
}

impl Key {
    fn new(number: u64) -> Self {
        let bytes: [u8; 16] = format!("key:{number:012}").into_bytes().try_into().expect("16 bytes");
        // Middle bits: hashbrown takes the lowest for the group and the highest for the tag.
        Self { hash: (HASHER.hash_one::<&[u8]>(&bytes) >> 32) as usize & 0xffff, bytes }
    }
    fn shard<S>(&self, shards: &[S]) -> usize {
        (self.hash * shards.len()) >> 16
    }
}

fn filled<S: Shard>(shards: usize) -> Shards<S> {
    let mut maps: Vec<Map> = (0..shards).map(|_| Map::with_hasher(HASHER)).collect();
    for key in (0..KEYS).map(Key::new) {
        let shard = key.shard(&maps);
        maps[shard].insert(Box::new(key.bytes), Box::new([0; 32]));
    }
    maps.into_iter().map(|map| CachePadded::new(S::from(map))).collect()
}

fn get(map: &Map, key: &Key) {
    let _ = black_box(map.get(&key.bytes[..]).map(|value| <[u8; 32]>::try_from(&**value)));
}

fn put(map: &mut Map, key: &Key) {
    if let Some(value) = map.get_mut(&key.bytes[..]) {
        value.copy_from_slice(black_box(&[7; 32]));
    }
}

/// Locks every shard of `keys` (sorted by shard) once, all before the first write.
fn mset<S: Shard>(shards: &Shards<S>, keys: &[Key]) {
    let mut guards = [const { None }; MSET_KEYS];
    let groups = || keys.chunk_by(|a, b| a.shard(shards) == b.shard(shards));
    for (slot, group) in guards.iter_mut().zip(groups()) {
        *slot = Some(shards[group[0].shard(shards)].write());
    }
    for (guard, group) in guards.iter_mut().flatten().zip(groups()) {
        group.iter().for_each(|key| put(guard, key));
    }
}

/// Lock of one shard.
trait Shard: From<Map> + Send + 'static {
    fn read(&self) -> impl Deref<Target = Map>;
    fn write(&self) -> impl DerefMut<Target = Map>;
}

macro_rules! shard {
    ($shard:ident, $read:ident, $write:ident) => {
        impl Shard for $shard<Map> {
            fn read(&self) -> impl Deref<Target = Map> {
                self.$read()
            }
            fn write(&self) -> impl DerefMut<Target = Map> {
                self.$write()
            }
        }
    };
}

shard!(RefCell, borrow, borrow_mut); // behind a global mutex: a flag, not a lock
shard!(Mutex, lock, lock);
shard!(RwLock, read, write);

/// Lock that is held around a batch, with the way in which an exclusive call (any key, no other write in between) gets
/// in.
trait Design: Send + Sync + 'static {
    type Shard: Shard;
    fn batch(&self, worker: usize, body: impl FnOnce(&Shards<Self::Shard>));
    fn exclusive(&self, keys: &[Key]);

    /// Executes requests, none of which is exclusive, as one batch.
    fn run(&self, worker: usize, requests: &[Request]) {
        self.batch(worker, |shards| {
            for (op, keys) in requests {
                match op {
                    Op::Get => keys.iter().for_each(|key| get(&shards[key.shard(shards)].read(), key)),
                    Op::Set => keys.iter().for_each(|key| put(&mut shards[key.shard(shards)].write(), key)),
                    Op::Mset | Op::Exclusive => mset(shards, keys),
                }
            }
        });
    }
}

/// A: one mutex for everything. With two copies, a private store per worker: the maximum that the machine allows.
struct Global<const COPIES: usize>([CachePadded<Mutex<Shards<RefCell<Map>>>>; COPIES]);

impl<const COPIES: usize> Design for Global<COPIES> {
    type Shard = RefCell<Map>;
    fn batch(&self, worker: usize, body: impl FnOnce(&Shards<Self::Shard>)) {
        body(&self.0[worker % COPIES].lock());
    }
    fn exclusive(&self, keys: &[Key]) {
        let shards = self.0[0].lock();
        keys.iter().for_each(|key| put(&mut shards[key.shard(&shards)].write(), key));
    }
}

/// B with a mutex per shard, E with a readers-writer lock: no gate. An exclusive call locks all shards, ascending.
struct Ungated<S>(Shards<S>);

impl<S: Shard + Sync> Design for Ungated<S> {
    type Shard = S;
    fn batch(&self, _: usize, body: impl FnOnce(&Shards<S>)) {
        body(&self.0);
    }
    fn exclusive(&self, keys: &[Key]) {
        let mut guards: Vec<_> = self.0.iter().map(|shard| shard.write()).collect();
        keys.iter().for_each(|key| put(&mut guards[key.shard(&self.0)], key));
    }
}

/// C and D: a readers-writer gate around shard mutexes. Behind its write side every shard is a plain `&mut`.
macro_rules! gated {
    ($gate:ty $(, $sound:ident)?) => {
        impl Design for $gate {
            type Shard = Mutex<Map>;
            fn batch(&self, _: usize, body: impl FnOnce(&Shards<Self::Shard>)) {
                let shards = self.read()$(.$sound(PoisonError::into_inner))?;
                body(&shards);
            }
            fn exclusive(&self, keys: &[Key]) {
                let mut shards = self.write()$(.$sound(PoisonError::into_inner))?;
                for key in keys {
                    let shard = key.shard(&shards);
                    put(shards[shard].get_mut(), key);
                }
            }
        }
    };
}

gated!(ShardedLock<Shards<Mutex<Map>>>, unwrap_or_else);
gated!(std::sync::RwLock<Shards<Mutex<Map>>>, unwrap_or_else);
gated!(RwLock<Shards<Mutex<Map>>>);

/// H: no gate; a batch locks the shards of all its keys, ascending, and keeps them.
struct Kept(Shards<Mutex<Map>>);

impl Design for Kept {
    type Shard = Mutex<Map>;
    fn batch(&self, _: usize, body: impl FnOnce(&Shards<Self::Shard>)) {
        body(&self.0);
    }
    fn exclusive(&self, keys: &[Key]) {
        let mut guards: Vec<_> = self.0.iter().map(|shard| shard.lock()).collect();
        keys.iter().for_each(|key| put(&mut guards[key.shard(&self.0)], key));
    }
    fn run(&self, _: usize, requests: &[Request]) {
        let keys = requests.iter().flat_map(|(_, keys)| keys);
        let mut missing = keys.fold(0u64, |mask, key| mask | 1 << key.shard(&self.0));
        let mut guards = [const { None }; SHARDS];
        while missing != 0 {
            let shard = missing.trailing_zeros() as usize;
            guards[shard] = Some(self.0[shard].lock());
            missing &= missing - 1;
        }
        for (op, keys) in requests {
            for key in keys {
                let Some(map) = &mut guards[key.shard(&self.0)] else { continue };
                if *op == Op::Get { get(map, key) } else { put(map, key) }
            }
        }
    }
}

/// F: a lock per worker. An exclusive call takes them all, then (to avoid `unsafe`) the mutexes of its keys.
struct PerWorker([CachePadded<RwLock<()>>; WORKERS], Shards<Mutex<Map>>);

impl Design for PerWorker {
    type Shard = Mutex<Map>;
    fn batch(&self, worker: usize, body: impl FnOnce(&Shards<Self::Shard>)) {
        let _gate = self.0[worker].read();
        body(&self.1);
    }
    fn exclusive(&self, keys: &[Key]) {
        let _gates: [_; WORKERS] = std::array::from_fn(|worker| self.0[worker].write());
        mset(&self.1, keys);
    }
}

#[derive(PartialEq)]
enum Op {
    Get,
    Set,
    Mset,
    Exclusive,
}

type Request = (Op, Vec<Key>);

/// Returns the requests that one worker replays. Of a hundred, `empty` access no key, `msets` are an MSET of ten,
/// `exclusives` are exclusive, and the rest is half GET, half SET. With `distinct`, no two workers share a key.
fn script(worker: usize, (empty, msets, exclusives): (u64, u64, u64), distinct: bool) -> Vec<Request> {
    let mut count = 0;
    let mut random = move |below: u64| {
        count += 1;
        HASHER.hash_one((worker, count)) % below
    };
    (0..16_384)
        .map(|_| {
            let (op, keys) = match random(100) {
                dice if dice < empty => (Op::Get, 0),
                dice if dice < empty + msets => (Op::Mset, MSET_KEYS),
                dice if dice < empty + msets + exclusives => (Op::Exclusive, 3),
                _ if random(2) == 0 => (Op::Get, 1),
                _ => (Op::Set, 1),
            };
            let mut number = || if distinct { random(KEYS / 2) * 2 + worker as u64 } else { random(KEYS) };
            let mut keys: Vec<Key> = (0..keys).map(|_| Key::new(number())).collect();
            keys.sort_by_key(|key| key.hash);
            (op, keys)
        })
        .collect()
}

/// Replays `script` from `start` on for `time`; returns how long it waited for a CPU, and the requests per nanosecond.
fn replay(design: &impl Design, id: usize, script: &[Request], batch: usize, start: Instant, time: Duration) -> Sample {
    let (before, mut done) = (waited(), 0);
    for part in script.chunks(64).cycle().take_while(|_| start.elapsed() < time) {
        // An exclusive call stands alone; the rest of a batch before and after it goes through the gate together.
        let alone = |request: &Request| request.0 == Op::Exclusive;
        for run in part.chunks(batch).flat_map(|batch| batch.chunk_by(|a, b| !alone(a) && !alone(b))) {
            match run {
                [(Op::Exclusive, keys)] => design.exclusive(keys),
                _ => design.run(id, run),
            }
        }
        done += part.len();
    }
    (waited() - before, done as f64 / start.elapsed().as_nanos() as f64)
}

/// Returns the time that this thread has waited for a CPU so far, in nanoseconds (0 where the system does not report
/// it).
fn waited() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    statistics.split(' ').nth(1).and_then(|waited| waited.parse().ok()).unwrap_or_default()
}

/// Measurement with its results so far.
struct Cell(Box<dyn Fn(Duration) -> Sample>, Vec<Sample>);
type Sample = (f64, f64);

/// Table with a design in each row; its cells are one thread at every batch size, then two.
struct Table {
    title: &'static str,
    scripts: Arc<[Vec<Request>; WORKERS]>,
    rows: Vec<(&'static str, Vec<Cell>)>,
}

/// Adds a row for the design to every table; all of them share its one store.
fn add(tables: &mut [Table], name: &'static str, design: impl Design) {
    let design = Arc::new(design);
    for Table { scripts, rows, .. } in tables {
        let cells = COLUMNS.map(|(threads, batch)| {
            let (design, scripts) = (design.clone(), scripts.clone());
            let run = move |time: Duration| {
                // One start for all: threads that take turns must not look as if they had run in parallel.
                let (barrier, start) = (Barrier::new(threads), OnceLock::new());
                let worker = |id: usize| {
                    let replay = |start| replay(&*design, id, &scripts[id], batch, start, time);
                    replay(Instant::now()); // warm-up
                    barrier.wait();
                    replay(*start.get_or_init(Instant::now))
                };
                std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..threads).map(|id| scope.spawn(move || worker(id))).collect();
                    let samples = threads.into_iter().map(|thread| thread.join().expect("a worker panicked"));
                    samples.fold((0.0, 0.0), |sum, sample| (sum.0 + sample.0, sum.1 + sample.1))
                })
            };
            Cell(Box::new(run), Vec::new())
        });
        rows.push((name, cells.into()));
    }
}

fn median(Cell(_, samples): &Cell) -> f64 {
    let mut samples = samples.clone();
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    samples.truncate(samples.len() / 2);
    samples.sort_by(|a, b| a.1.total_cmp(&b.1));
    samples[samples.len() / 2].1.recip()
}

fn print(Table { title, rows, .. }: &Table) {
    print!("\n{title}: ns per request (ratio to C)\n{:24}", "");
    COLUMNS.iter().for_each(|(threads, batch)| print!("{:>15}", format!("{threads}T batch {batch}")));
    COLUMNS[..3].iter().for_each(|(_, batch)| print!("{:>10}", format!("1->2, {batch}")));
    println!();
    let medians = |(_, cells): &(_, Vec<Cell>)| cells.iter().map(median).collect::<Vec<_>>();
    let reference = rows.iter().find(|row| row.0.starts_with("C ")).map(medians).unwrap_or_default();
    for row in rows {
        let cells = medians(row);
        print!("{:24}", row.0);
        cells.iter().zip(&reference).for_each(|(ns, c)| print!("{ns:8.1} ({:4.2})", ns / c));
        cells.iter().zip(&cells[3..]).for_each(|(one, two)| print!("{:9.2}x", one / two));
        println!();
    }
}

fn main() {
    // `cargo test --benches` runs this without `--bench`: two short rounds, to see that it works.
    let (rounds, millis) = if std::env::args().any(|arg| arg == "--bench") { (20, 4) } else { (2, 1) };
    let cases = [
        ("1. GET/SET 50/50, distinct keys", (0, 0, 0), true),
        ("2. GET/SET 50/50", (0, 0, 0), false),
        ("3. with 10 % MSET of ten keys", (0, 10, 0), false),
        ("4. with 1 % exclusive", (0, 0, 1), false),
        ("5. with 10 % exclusive", (0, 0, 10), false),
        ("6. requests that touch no key, the gate alone", (100, 0, 0), false),
        ("7. nothing but exclusive calls", (0, 0, 100), false),
    ];
    let mut tables = cases.map(|(title, mix, distinct)| {
        let scripts = Arc::new(std::array::from_fn(|worker| script(worker, mix, distinct)));
        Table { title, scripts, rows: Vec::new() }
    });
    let global = || CachePadded::new(Mutex::new(filled(SHARDS)));
    add(&mut tables, "A one mutex", Global([global()]));
    add(&mut tables, "C ShardedLock gate", ShardedLock::new(filled(SHARDS)));
    add(&mut tables, "C again", ShardedLock::new(filled(SHARDS)));
    add(&mut tables, "D std RwLock gate", std::sync::RwLock::new(filled(SHARDS)));
    add(&mut tables, "D parking_lot gate", RwLock::new(filled(SHARDS)));
    add(&mut tables, "E shard RwLock, no gate", Ungated(filled::<RwLock<Map>>(SHARDS)));
    add(&mut tables, "F gate lock per worker", PerWorker(Default::default(), filled(SHARDS)));
    for (shards, of_a_call, of_a_batch) in [
        (8, "B with 8 shards", "H kept, 8 shards"),
        (16, "B with 16 shards", "H kept, 16 shards"),
        (32, "B with 32 shards", "H kept, 32 shards"),
        (64, "B with 64 shards", "H kept, 64 shards"),
    ] {
        add(&mut tables, of_a_call, Ungated(filled::<Mutex<Map>>(shards)));
        add(&mut tables, of_a_batch, Kept(filled(shards)));
    }
    add(&mut tables[..3], "C with 16 shards", ShardedLock::new(filled(16)));
    add(&mut tables[..3], "C with 256 shards", ShardedLock::new(filled(256)));
    add(&mut tables[..1], "a store per worker", Global([global(), global()]));
    for _ in 0..rounds {
        for Table { rows, .. } in &mut tables {
            for column in 0..COLUMNS.len() {
                for Cell(run, samples) in rows.iter_mut().map(|(_, cells)| &mut cells[column]) {
                    samples.push(run(Duration::from_millis(millis)));
                }
            }
            rows.reverse(); // no design always comes first; after an even number of rounds the order is as above
        }
    }
    tables.iter().for_each(print);
}
