//! Random histories, by seed.

use crate::engine::model::ledger::LOCK;
use crate::engine::model::mutant::Mutant;
use crate::engine::model::requests::{LockUse, ModelKey, ModelRequest};
use crate::engine::model::world::{SeenCounts, World, WorldEvent};
use crate::random::Random;

/// Numbers of processes and clients, and largest number of events in a history.
const PROCESSES: usize = 3;
const CLIENTS: usize = 5;
const EVENTS: usize = 90;

/// Possible passages of time, in milliseconds.
const PASSAGES_MS: [u64; 8] = [1, 15, 60, 110, 500, 1100, 2500, 4000];

/// Creates the requests of a client, with tokens and values that no other client has.
fn script(random: &mut Random, client: usize, (takes_away, lock_use): (bool, LockUse)) -> Vec<ModelRequest> {
    let mut script = Vec::new();
    for number in 0..1 + random.below(3) {
        let token = 1000 + 10 * client as i64 + number as i64;
        let ttl_ms = [300, 1000, 3000][random.below(3)];
        let release = random.below(3) > 0;
        match random.below(14) {
            0 | 1 => script.push(ModelRequest::Get(ModelKey::Number)),
            2 => script.push(ModelRequest::SetNx(ModelKey::Number, token)),
            3 => script.push(ModelRequest::GetSet(ModelKey::Number, token)),
            4 => script.push(ModelRequest::Del(ModelKey::Number)),
            5 => script.push(ModelRequest::Incr(ModelKey::Number)),
            6 if takes_away && random.below(2) == 0 => script.push(ModelRequest::FlushAll),
            6 if takes_away => script.push(ModelRequest::Del(ModelKey::Lock)),
            6 => script.push(ModelRequest::Get(ModelKey::Lock)),
            kind => {
                let request = acquisition(kind, (token, ttl_ms), lock_use);
                script.push(request);
                if lock_use == LockUse::Shared && kind > 8 {
                    script.extend(conversions(random, (token, ttl_ms)));
                }
                // A client that queues with a session of the same lock would wait for itself.
                if release || matches!(request, ModelRequest::AcquireSession(_)) {
                    let of = |lock| {
                        if lock == LOCK { ModelRequest::Release(token) } else { ModelRequest::ReleaseOther(token) }
                    };
                    script.extend(request.locks().iter().map(|lock| of(*lock)));
                }
            }
        }
    }
    if random.below(5) == 0 {
        script.push(ModelRequest::Close);
    }
    script
}

/// Returns a request for a lock.
fn acquisition(kind: usize, (token, ttl_ms): (i64, u64), lock_use: LockUse) -> ModelRequest {
    match (lock_use, kind) {
        (LockUse::Permits, kind) => ModelRequest::AcquirePermits(token, 1 + kind as u32 % 2, ttl_ms),
        (LockUse::Several, 7 | 8) => ModelRequest::AcquireOther(token, ttl_ms),
        (LockUse::Several, 9 | 12 | 13) => ModelRequest::AcquireBoth(token, ttl_ms),
        (LockUse::Shared, 12 | 13) => ModelRequest::AcquireShared(token, ttl_ms),
        (_, 7 | 8) => ModelRequest::SetNxPx(token, ttl_ms),
        (_, 9) => ModelRequest::AcquireSession(token),
        (_, 10) => ModelRequest::Acquire(token, ttl_ms, Some(700)),
        (_, 11) => ModelRequest::Acquire(token, ttl_ms, None),
        _ => ModelRequest::Acquire(token, ttl_ms, Some(0)),
    }
}

/// Returns up to two changes of the mode of a lock.
fn conversions(random: &mut Random, (token, ttl_ms): (i64, u64)) -> Vec<ModelRequest> {
    let first = random.below(2) == 0;
    let of = |is_shared| ModelRequest::Convert(token, is_shared, ttl_ms);
    [of(first), of(!first)].into_iter().take(random.below(3)).collect()
}

/// Chooses the next event.
fn choose(random: &mut Random, world: &World) -> Option<WorldEvent> {
    let living = world.living();
    let a_process = |random: &mut Random| living.get(random.below(living.len())).copied();
    let chosen = match random.below(200) {
        0..10 => {
            let messages = world.losable();
            messages.get(random.below(messages.len())).copied().map(WorldEvent::Lose)
        }
        10..24 => Some(WorldEvent::Pass(PASSAGES_MS[random.below(PASSAGES_MS.len())])),
        24 | 38 => Some(WorldEvent::Pass(4000)),
        39 => a_process(random).filter(|_| living.len() > 1).map(WorldEvent::Crash),
        25 => (0..PROCESSES).find(|slot| !living.contains(slot)).map(WorldEvent::Start),
        26 => a_process(random).map(|slot| WorldEvent::CutOff(slot, true)),
        27 => a_process(random).map(|slot| WorldEvent::CutOff(slot, false)),
        40..43 => a_process(random).map(|slot| WorldEvent::Stick(slot, true)),
        49 | 50 => world.may_fill.then_some(WorldEvent::Fill(true)),
        51..54 => world.may_fill.then_some(WorldEvent::Fill(false)),
        43..49 => a_process(random).map(|slot| WorldEvent::Stick(slot, false)),
        28 | 29 => a_process(random).map(WorldEvent::Reload),
        30 => Some(WorldEvent::Elsewhere),
        31..38 => world.overdue_leases().first().copied().map(WorldEvent::EndLease),
        _ => None,
    };
    let enabled = world.enabled();
    chosen.or_else(|| enabled.get(random.below(enabled.len())).copied())
}

/// Runs the history of a seed; returns the failure, if there is one.
pub(super) fn run(seed: u64, mutant: Mutant, seen: &mut Vec<SeenCounts>) -> Option<String> {
    let mut random = Random::new(seed);
    let skews_ms: Vec<i64> = (0..PROCESSES).map(|_| random.below(10_000) as i64 - 5000).collect();
    let mut world = World::new(&skews_ms, mutant);
    let takes_away = random.below(4) == 0;
    let lock_use = match random.below(8) {
        0 | 1 => LockUse::Shared,
        2 => LockUse::Permits,
        3 => LockUse::Several,
        _ => LockUse::Exclusive,
    };
    world.may_fill = random.below(4) == 0;
    for client in 0..CLIENTS {
        let (slot, script) = (random.below(PROCESSES), script(&mut random, client, (takes_away, lock_use)));
        world.connect(slot, &script);
    }
    if random.below(4) == 0 {
        world.execute(WorldEvent::CutOff(random.below(PROCESSES), true));
    }
    for _ in 0..EVENTS {
        let Some(event) = choose(&mut random, &world).filter(|_| world.failure.is_none()) else { break };
        world.execute(event);
    }
    world.finish();
    seen.push(world.seen.clone());
    world.failure.map(|failure| format!("{failure}\n{}", world.log.join("\n")))
}
