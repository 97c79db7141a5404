//! Small scripted scenarios, whose events come in all orders.

use crate::engine::model::mutant::Mutant;
use crate::engine::model::requests::{ModelKey, ModelRequest};
use crate::engine::model::world::{World, WorldEvent};

/// A small scripted scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) processes: usize,
    /// The clients: the process of each, its requests before the exploration, one after the other, and those during it.
    pub(super) clients: &'static [(usize, &'static [ModelRequest], &'static [ModelRequest])],
    /// A process that has died before, one that may die at any time, one that may miss changes and so read all names
    /// again, the number of answers that may be lost, and the passages of time.
    pub(super) dead: Option<usize>,
    pub(super) may_crash: Option<usize>,
    pub(super) may_reload: Option<usize>,
    pub(super) losses: usize,
    pub(super) passages: &'static [u64],
}

/// A scenario without faults.
const PLAIN: Scenario = Scenario {
    name: "",
    processes: 2,
    clients: &[],
    dead: None,
    may_crash: None,
    may_reload: None,
    losses: 0,
    passages: &[],
};

/// Name of the scenario that requires a handover to be one transaction.
pub(super) const RELEASE_BESIDE_A_POLLER: &str = "a lock is released while somebody waits and a poller comes";

/// A TTL that does not end.
const LONG: u64 = 100_000;

use ModelKey::{Lock, Number};
use ModelRequest::{
    Acquire, AcquireBoth, AcquirePermits, AcquireSession, AcquireShared, Close, Convert, Del, FlushAll, Get, GetSet,
    Incr, Release, ReleaseOther, SetNx, SetNxPx,
};

#[rustfmt::skip] // a client a line
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "two processes set a key that is missing, and one reads it",
        clients: &[(0, &[], &[SetNx(Number, 1)]), (1, &[], &[SetNx(Number, 2), Get(Number)])],
        ..PLAIN
    },
    Scenario {
        name: "a read follows on the write of another process",
        clients: &[(0, &[], &[GetSet(Number, 1)]), (1, &[], &[Get(Number), Get(Number)])],
        ..PLAIN
    },
    Scenario {
        name: "the answer to a SETNX is lost while another process deletes the key",
        clients: &[(0, &[], &[SetNx(Number, 1)]), (1, &[], &[Del(Number)])],
        losses: 1,
        ..PLAIN
    },
    Scenario {
        name: "answers to increments are lost",
        clients: &[(0, &[], &[Incr(Number)]), (1, &[], &[Incr(Number)])],
        losses: 2,
        ..PLAIN
    },
    Scenario {
        name: RELEASE_BESIDE_A_POLLER,
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[Release(1)]),
            (1, &[Acquire(2, LONG, Some(0))], &[]),
            (0, &[], &[SetNxPx(3, LONG)]),
            (1, &[], &[SetNxPx(4, LONG)]),
        ],
        ..PLAIN
    },
    Scenario {
        name: "the answer to a release is lost while somebody waits and a poller comes",
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[Release(1)]),
            (1, &[Acquire(2, LONG, Some(0))], &[SetNxPx(3, LONG)]),
            (1, &[], &[SetNx(Lock, 4)]),
        ],
        losses: 1,
        ..PLAIN
    },
    Scenario {
        name: "somebody queues while the lock is released",
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[Release(1)]),
            (1, &[], &[Acquire(2, LONG, Some(0))]),
            (0, &[], &[Acquire(3, LONG, Some(0))]),
        ],
        ..PLAIN
    },
    Scenario {
        name: "the head of the queue is dead",
        processes: 3,
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[Release(1)]),
            (1, &[Acquire(2, 2000, Some(0))], &[]),
            (2, &[Acquire(3, LONG, Some(0))], &[]),
        ],
        dead: Some(1),
        ..PLAIN
    },
    Scenario {
        name: "the process that releases a lock may die",
        clients: &[(0, &[Acquire(1, 2000, None)], &[Release(1)]), (1, &[Acquire(2, LONG, Some(0))], &[])],
        may_crash: Some(0),
        ..PLAIN
    },
    Scenario {
        name: "the process of who waits may die",
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[Release(1)]),
            (1, &[Acquire(2, 2000, Some(0))], &[]),
            (0, &[Acquire(3, LONG, Some(0))], &[]),
        ],
        may_crash: Some(1),
        ..PLAIN
    },
    Scenario {
        name: "who waits closes while the lock is released",
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[Release(1)]),
            (1, &[], &[Acquire(2, LONG, Some(0)), Close]),
            (0, &[], &[Acquire(3, LONG, Some(0))]),
        ],
        ..PLAIN
    },
    Scenario {
        name: "the process of a session may die",
        clients: &[(0, &[AcquireSession(1)], &[]), (1, &[], &[Acquire(2, LONG, Some(0))])],
        may_crash: Some(0),
        ..PLAIN
    },
    Scenario {
        name: "the client of a session closes before its process knows that it has the lock",
        clients: &[(0, &[], &[AcquireSession(1), Close]), (1, &[], &[Acquire(2, LONG, Some(0))])],
        ..PLAIN
    },
    Scenario {
        name: "a process misses that a lock was handed over to its client and deleted",
        clients: &[(0, &[Acquire(1, LONG, None)], &[Release(1), Del(Lock)]), (1, &[Acquire(2, LONG, Some(0))], &[])],
        may_reload: Some(1),
        ..PLAIN
    },
    Scenario {
        name: "all keys are deleted while somebody waits and a poller comes",
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[FlushAll]),
            (1, &[Acquire(2, LONG, Some(0))], &[]),
            (1, &[GetSet(Number, 7)], &[SetNxPx(3, LONG), Get(Number)]),
        ],
        losses: 1,
        ..PLAIN
    },
    Scenario {
        name: "all keys are deleted while somebody queues and a key is set",
        clients: &[
            (0, &[Acquire(1, LONG, None), GetSet(Number, 7)], &[FlushAll]),
            (1, &[], &[Acquire(2, LONG, Some(0))]),
            (1, &[], &[Incr(Number)]),
        ],
        may_reload: Some(1),
        ..PLAIN
    },
    Scenario {
        name: "a TTL ends while others want the lock",
        clients: &[(0, &[], &[SetNxPx(1, 1000)]), (1, &[], &[SetNxPx(2, 1000), Acquire(3, 1000, Some(0))])],
        passages: &[1020, 100],
        ..PLAIN
    },
    Scenario {
        name: "a reader ends that waits to be alone, while its process reads all names again",
        clients: &[
            (0, &[AcquireShared(1, 1000)], &[Convert(1, false, 1000)]),
            (1, &[AcquireShared(2, LONG)], &[]),
        ],
        may_reload: Some(0),
        losses: 1,
        passages: &[1020, 100],
        ..PLAIN
    },
    Scenario {
        name: "two readers wait to be alone while a writer waits",
        clients: &[
            (0, &[AcquireShared(1, LONG)], &[Convert(1, false, LONG), Release(1)]),
            (1, &[AcquireShared(2, LONG)], &[Convert(2, false, LONG), Release(2)]),
            (1, &[], &[Acquire(3, LONG, Some(0))]),
        ],
        ..PLAIN
    },
    Scenario {
        name: "a writer becomes a reader and is alone again while readers come",
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[Convert(1, true, LONG), Convert(1, false, LONG)]),
            (1, &[], &[AcquireShared(2, LONG), Release(2)]),
        ],
        losses: 1,
        ..PLAIN
    },
    Scenario {
        name: "permits are released while somebody waits for two and somebody wants one",
        clients: &[
            (0, &[AcquirePermits(1, 2, LONG)], &[Release(1)]),
            (1, &[AcquirePermits(2, 1, LONG)], &[Release(2)]),
            (1, &[], &[AcquirePermits(3, 2, LONG)]),
            (0, &[], &[AcquirePermits(4, 1, LONG)]),
        ],
        ..PLAIN
    },
    Scenario {
        name: "two clients want both locks, and one of the two locks is released",
        clients: &[
            (0, &[Acquire(1, LONG, None)], &[Release(1)]),
            (0, &[], &[AcquireBoth(2, LONG), ReleaseOther(2)]),
            (1, &[], &[AcquireBoth(3, LONG)]),
        ],
        ..PLAIN
    },
    Scenario {
        name: "a TTL ends while somebody waits and a poller comes to another process",
        clients: &[(0, &[Acquire(1, 1000, None)], &[]), (0, &[Acquire(2, LONG, Some(0))], &[]), (1, &[], &[SetNxPx(3, LONG)])],
        passages: &[1020, 100],
        ..PLAIN
    },
];

impl Scenario {
    /// Creates the world at the start of the scenario.
    pub(super) fn begin(&self, mutant: Mutant) -> World {
        const SKEWS_MS: [i64; 3] = [0, 3000, -2000];
        let mut world = World::new(&SKEWS_MS[..self.processes], mutant);
        for (slot, _, _) in self.clients {
            world.connect(*slot, &[]);
        }
        for (at, (_, before, _)) in self.clients.iter().enumerate() {
            for request in *before {
                world.agents[at].script.push_back(*request);
                world.execute(WorldEvent::Request(at));
                world.deliver_all();
            }
        }
        for (agent, (_, _, then)) in world.agents.iter_mut().zip(self.clients) {
            agent.script.extend(then.iter().copied());
        }
        if let Some(slot) = self.dead {
            world.execute(WorldEvent::Crash(slot));
        }
        (world.losses_left, world.may_crash, world.may_reload) = (self.losses, self.may_crash, self.may_reload);
        world.passages = self.passages.iter().copied().collect();
        world
    }
}
