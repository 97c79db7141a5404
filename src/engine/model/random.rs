//! Random histories, by seed.

use crate::engine::model::mutant::Mutant;
use crate::engine::model::requests::{Key, Request};
use crate::engine::model::world::{Event, Seen, World};
use crate::persist::disk::simulated::random::Random;

/// Numbers of processes and clients, and largest number of events in a history.
const PROCESSES: usize = 3;
const CLIENTS: usize = 5;
const EVENTS: usize = 90;

/// Possible passages of time, in milliseconds.
const PASSAGES_MS: [u64; 8] = [1, 15, 60, 110, 500, 1100, 2500, 4000];

/// Creates the requests of a client, with tokens and values that no other client has.
fn script(random: &mut Random, client: usize, takes_away: bool) -> Vec<Request> {
    let mut script = Vec::new();
    for number in 0..1 + random.below(3) {
        let token = 1000 + 10 * client as i64 + number as i64;
        let ttl_ms = [300, 1000, 3000][random.below(3)];
        let release = random.below(3) > 0;
        match random.below(14) {
            0 | 1 => script.push(Request::Get(Key::Number)),
            2 => script.push(Request::SetNx(Key::Number, token)),
            3 => script.push(Request::GetSet(Key::Number, token)),
            4 => script.push(Request::Del(Key::Number)),
            5 => script.push(Request::Incr(Key::Number)),
            6 if takes_away => script.push(Request::Del(Key::Lock)),
            6 => script.push(Request::Get(Key::Lock)),
            kind => {
                script.push(match kind {
                    7 | 8 => Request::SetNxPx(token, ttl_ms),
                    9 => Request::AcquireSession(token),
                    10 => Request::Acquire(token, ttl_ms, Some(700)),
                    11 => Request::Acquire(token, ttl_ms, None),
                    _ => Request::Acquire(token, ttl_ms, Some(0)),
                });
                // A client that queues with a session of the same lock would wait for itself.
                script.extend((release || kind == 9).then_some(Request::Release(token)));
            }
        }
    }
    if random.below(5) == 0 {
        script.push(Request::Close);
    }
    script
}

/// Chooses the next event.
fn choose(random: &mut Random, world: &World) -> Option<Event> {
    let living = world.living();
    let a_process = |random: &mut Random| living.get(random.below(living.len())).copied();
    let chosen = match random.below(200) {
        0..10 => {
            let messages = world.losable();
            messages.get(random.below(messages.len())).copied().map(Event::Lose)
        }
        10..24 => Some(Event::Pass(PASSAGES_MS[random.below(PASSAGES_MS.len())])),
        24 | 38 => Some(Event::Pass(4000)),
        39 => a_process(random).filter(|_| living.len() > 1).map(Event::Crash),
        25 => (0..PROCESSES).find(|slot| !living.contains(slot)).map(Event::Start),
        26 => a_process(random).map(|slot| Event::CutOff(slot, true)),
        27 => a_process(random).map(|slot| Event::CutOff(slot, false)),
        40..43 => a_process(random).map(|slot| Event::Stick(slot, true)),
        49 | 50 => world.may_fill.then_some(Event::Fill(true)),
        51..54 => world.may_fill.then_some(Event::Fill(false)),
        43..49 => a_process(random).map(|slot| Event::Stick(slot, false)),
        28 | 29 => a_process(random).map(Event::Reload),
        30 => Some(Event::Elsewhere),
        31..38 => world.overdue_leases().first().copied().map(Event::EndLease),
        _ => None,
    };
    let enabled = world.enabled();
    chosen.or_else(|| enabled.get(random.below(enabled.len())).copied())
}

/// Runs the history of a seed; returns the failure, if there is one.
pub(super) fn run(seed: u64, mutant: Mutant, seen: &mut Vec<Seen>) -> Option<String> {
    let mut random = Random::new(seed);
    let skews_ms: Vec<i64> = (0..PROCESSES).map(|_| random.below(10_000) as i64 - 5000).collect();
    let mut world = World::new(&skews_ms, mutant);
    let takes_away = random.below(4) == 0;
    world.may_fill = random.below(4) == 0;
    for client in 0..CLIENTS {
        let (slot, script) = (random.below(PROCESSES), script(&mut random, client, takes_away));
        world.connect(slot, &script);
    }
    if random.below(4) == 0 {
        world.execute(Event::CutOff(random.below(PROCESSES), true));
    }
    for _ in 0..EVENTS {
        let Some(event) = choose(&mut random, &world).filter(|_| world.failure.is_none()) else { break };
        world.execute(event);
    }
    world.finish();
    seen.push(world.seen.clone());
    world.failure.map(|failure| format!("{failure}\n{}", world.log.join("\n")))
}
