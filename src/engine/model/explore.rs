//! Exploration of the orders in which the events of a scenario can come, each from the start, because a core cannot be
//! copied. Of orders that differ only in independent events, one is tried (sleep sets, after Godefroid). If there are
//! too many, those that are tried are spread over all.

use crate::engine::model::world::{World, WorldEvent};
use crate::random::Random;

/// Result of an exploration.
#[derive(Debug, Default)]
pub(super) struct Explored {
    /// Number of orders that were tried to their end.
    pub(super) orders: usize,
    /// True if these are all.
    pub(super) is_complete: bool,
    /// The failure, with the events that have led to it.
    pub(super) failure: Option<String>,
}

/// Returns the process that an event concerns alone.
fn process_of(event: WorldEvent, world: &World) -> Option<usize> {
    match event {
        WorldEvent::Request(at) => Some(world.slot_of(at)),
        WorldEvent::Answer((slot, _)) | WorldEvent::Lose((slot, _)) | WorldEvent::Step(slot) => Some(slot),
        _ => None,
    }
}

/// Returns true if two possible events have the same effect in either order, even as far as clients can know the order
/// of their requests.
fn are_independent(one: WorldEvent, other: WorldEvent, world: &World) -> bool {
    let is_request = |event| matches!(event, WorldEvent::Request(_));
    let is_loss = |event| matches!(event, WorldEvent::Lose(_));
    match (one, other) {
        (WorldEvent::Arrive(id), WorldEvent::Lose(lost)) | (WorldEvent::Lose(lost), WorldEvent::Arrive(id)) => {
            id != lost
        }
        (WorldEvent::Arrive(id), WorldEvent::Arrive(other)) => world.is_read(id) && world.is_read(other),
        (WorldEvent::Arrive(_), WorldEvent::Request(at)) | (WorldEvent::Request(at), WorldEvent::Arrive(_)) => {
            !world.gives_up_next(at)
        }
        (WorldEvent::Arrive(_), other) | (other, WorldEvent::Arrive(_)) => {
            matches!(other, WorldEvent::Answer(_) | WorldEvent::Step(_))
        }
        _ => match (process_of(one, world), process_of(other, world)) {
            (Some(one_slot), Some(other_slot)) => {
                one_slot != other_slot && is_request(one) == is_request(other) && !(is_loss(one) && is_loss(other))
            }
            _ => false,
        },
    }
}

/// Tries orders of events, each in a new world, in at most `worlds_max` worlds.
pub(super) fn explore(begin: impl Fn() -> World, worlds_max: u64) -> Explored {
    let (mut explored, mut random) = (Explored::default(), Random::new(worlds_max));
    // The first events of each order, and those that need not be the next ones, because they were tried before.
    let mut left: Vec<(Vec<WorldEvent>, Vec<WorldEvent>)> = vec![(Vec::new(), Vec::new())];
    for _ in 0..worlds_max {
        if left.is_empty() {
            explored.is_complete = true;
            return explored;
        }
        let (mut path, mut asleep) = left.swap_remove(random.below(left.len()));
        let mut world = begin();
        path.iter().for_each(|event| world.execute(*event));
        while world.failure.is_none() {
            let mut possible = world.enabled();
            possible.retain(|event| !matches!(event, WorldEvent::Step(slot) if !world.is_busy(*slot)));
            if possible.is_empty() {
                world.finish();
                explored.orders += 1;
                break;
            }
            possible.extend(world.accidents());
            possible.retain(|event| !asleep.contains(event));
            let Some((first, others)) = possible.split_first() else { break };
            let mut tried = vec![*first];
            for other in others {
                let stay = asleep.iter().chain(&tried).filter(|event| are_independent(**event, *other, &world));
                left.push(([&path[..], &[*other]].concat(), stay.copied().collect()));
                tried.push(*other);
            }
            asleep.retain(|event| are_independent(*event, *first, &world));
            world.execute(*first);
            path.push(*first);
        }
        if let Some(failure) = world.failure {
            explored.failure = Some(format!("{failure}\n{}", world.log.join("\n")));
            return explored;
        }
    }
    explored
}
