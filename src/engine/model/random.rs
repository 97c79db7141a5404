//! Random histories, by seed.

use crate::engine::model::mutant::Mutant;
use crate::engine::model::requests::{ModelKey, ModelRequest};
use crate::engine::model::world::{SeenCounts, World, WorldEvent};
use crate::random::Random;

/// Numbers of processes and clients, and largest number of events in a history.
const PROCESSES: usize = 3;
const CLIENTS: usize = 5;
const EVENTS: usize = 90;

/// Possible passages of time, in milliseconds.
const PASSAGES_MS: [u64; 8] = [1, 15, 60, 110, 500, 1100, 2500, 4000];

/// Creates the requests of a client, with tokens and values that no other client has.
fn script(random: &mut Random, client: usize, (takes_away, shares): (bool, bool)) -> Vec<ModelRequest> {
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
                script.push(match kind {
                    7 | 8 => ModelRequest::SetNxPx(token, ttl_ms),
                    9 => ModelRequest::AcquireSession(token),
                    10 => ModelRequest::Acquire(token, ttl_ms, Some(700)),
                    11 => ModelRequest::Acquire(token, ttl_ms, None),
                    12 | 13 if shares => ModelRequest::AcquireShared(token, ttl_ms),
                    _ => ModelRequest::Acquire(token, ttl_ms, Some(0)),
                });
                // A client that queues with a session of the same lock would wait for itself.
                script.extend((release || kind == 9).then_some(ModelRequest::Release(token)));
            }
        }
    }
    if random.below(5) == 0 {
        script.push(ModelRequest::Close);
    }
    script
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
    world.shares = random.below(3) == 0;
    world.may_fill = random.below(4) == 0;
    for client in 0..CLIENTS {
        let (slot, script) = (random.below(PROCESSES), script(&mut random, client, (takes_away, world.shares)));
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
