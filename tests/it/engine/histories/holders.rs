//! Clients that acquire locks with TTLs, and believe to hold one until its TTL is over by their own clock. Some of them
//! are queued, and get fencing tokens.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::site::{Session, is_refusal};
use super::{Figures, Run, SERVERS};
use crate::harness::Dice;

/// Number of locks.
const LOCKS: u64 = 2;

/// Period in which a client believes to hold a lock, in monotonic microseconds.
#[derive(Clone)]
struct Belief {
    lock: String,
    token: String,
    /// Time of the reply.
    from_us: u64,
    /// Time of the request plus the TTL, or time of the release.
    until_us: u64,
}

/// Grant of a lock with a fencing token, in monotonic microseconds.
#[derive(Clone)]
struct Grant {
    lock: String,
    fence: i64,
    asked_us: u64,
    replied_us: u64,
}

/// Periods and grants of all clients.
#[derive(Default)]
pub(super) struct Locks {
    beliefs: Mutex<Vec<Belief>>,
    grants: Mutex<Vec<Grant>>,
    faults: Mutex<Vec<String>>,
    requests: AtomicU64,
    looks: AtomicU64,
}

impl Locks {
    /// Returns the first error, if any.
    pub(super) fn fault(&self) -> Option<String> {
        if let Some(fault) = self.faults.lock().expect("it was unlocked").first() {
            return Some(fault.clone());
        }
        if let Some(fault) = self.fault_of_fences() {
            return Some(fault);
        }
        let mut beliefs = self.beliefs.lock().expect("it was unlocked").clone();
        beliefs.sort_by_key(|belief| (belief.lock.clone(), belief.from_us));
        beliefs.windows(2).find_map(|pair| {
            let overlaps = pair[0].lock == pair[1].lock && pair[1].from_us < pair[0].until_us;
            let shown =
                |Belief { token, from_us, until_us, .. }: &Belief| format!("{token} from {from_us} to {until_us}");
            overlaps.then(|| format!("two hold {}: {} and {}", pair[0].lock, shown(&pair[0]), shown(&pair[1])))
        })
    }

    /// Returns two grants whose fencing tokens are out of order, if any.
    fn fault_of_fences(&self) -> Option<String> {
        let mut grants = self.grants.lock().expect("it was unlocked").clone();
        grants.sort_by_key(|grant| grant.replied_us);
        grants.iter().enumerate().find_map(|(at, grant)| {
            let before = grants[..at].iter().filter(|before| before.replied_us < grant.asked_us);
            let wrong = before.clone().find(|before| before.fence >= grant.fence);
            let shown = |Grant { lock, fence, asked_us, replied_us }: &Grant| {
                format!("{fence} of {lock}, asked for at {asked_us} and given at {replied_us}")
            };
            wrong.map(|wrong| format!("fencing tokens: {} and {}", shown(wrong), shown(grant)))
        })
    }

    /// Adds the numbers of periods and grants to the counts.
    pub(super) fn count(&self, figures: &mut Figures) {
        figures.add("locks asked for", self.requests.load(SeqCst));
        figures.add("locks held", self.beliefs.lock().expect("it was unlocked").len() as u64);
        figures.add("fences given", self.grants.lock().expect("it was unlocked").len() as u64);
        figures.add("looks at held locks", self.looks.load(SeqCst));
    }
}

/// Acquires locks until the history is over.
pub(super) fn work(run: &Run, number: u64) {
    let mut dice = Dice::new(run.seed * 100 + 50 + number);
    let mut session: Option<Session> = None;
    let mut count = 0;
    while !run.is_over() {
        if session.is_none() || dice.roll(20) == 0 {
            session = run.site.session(dice.roll(SERVERS as u64) as usize);
        }
        count += 1;
        if let Some(mut connected) = session.take() {
            session = take_lock(run, &mut connected, (number, count), &mut dice).map(|()| connected);
        }
        run.turns.fetch_add(1, SeqCst);
        run.wait_at_most(dice.roll(20), || false);
    }
}

/// Asks for a lock once, and keeps it for a while if it is granted. Returns `None` if the connection is lost.
fn take_lock(run: &Run, session: &mut Session, (number, count): (u64, u64), dice: &mut Dice) -> Option<()> {
    let (lock, token) = (format!("lock:{}", dice.roll(LOCKS)), format!("{number}.{count}"));
    let (ttl_ms, block_ms, is_queued) = (30 + dice.roll(300), 1 + dice.roll(300), dice.roll(3) > 0);
    run.locks.requests.fetch_add(1, SeqCst);
    let asked_us = run.now_us();
    let (ttl, block) = (ttl_ms.to_string(), block_ms.to_string());
    let reply = if is_queued {
        session.call(&["LOCK.ACQUIRE", &lock, &token, "PX", &ttl, "BLOCK", &block])?
    } else {
        session.call(&["SET", &lock, &token, "NX", "PX", &ttl])?
    };
    let (from_us, mut until_us) = (run.now_us(), asked_us + 1000 * ttl_ms);
    let fence = reply.strip_prefix(':').and_then(|fence| fence.parse().ok());
    if let Some(fence) = fence {
        let grant = Grant { lock: lock.clone(), fence, asked_us, replied_us: from_us };
        run.locks.grants.lock().expect("it was unlocked").push(grant);
    } else if reply != "+OK" {
        let is_expected = ["-UNCERTAIN ", "-UNBLOCKED "].iter().any(|code| reply.starts_with(code));
        if !is_refusal(&reply) && reply != "$-1" && !is_expected {
            run.locks.faults.lock().expect("it was unlocked").push(format!("a lock is asked for: {reply}"));
        }
        return Some(());
    }
    let release_us = (dice.roll(2) == 0).then(|| asked_us + dice.roll(1000 * ttl_ms));
    let keep_until_us = release_us.unwrap_or(until_us);
    while run.now_us() < keep_until_us && !run.is_over() {
        look(run, (&lock, &token), until_us, dice);
        run.wait_at_most(10, || run.now_us() >= keep_until_us);
    }
    let gives_up_us = run.now_us();
    let mut is_lost = false;
    if release_us.is_some() && gives_up_us < until_us {
        until_us = gives_up_us;
        is_lost = match dice.roll(2) {
            0 => session.call(&["LOCK.RELEASE", &lock, &token]),
            _ => session.call(&["DELEX", &lock, "IFEQ", &token]),
        }
        .is_none();
    }
    if from_us < until_us {
        run.locks.beliefs.lock().expect("it was unlocked").push(Belief { lock, token, from_us, until_us });
    }
    (!is_lost).then_some(())
}

/// Asks any server for the holder of a held lock.
fn look(run: &Run, (lock, token): (&str, &str), until_us: u64, dice: &mut Dice) {
    let Some(mut session) = run.site.session(dice.roll(SERVERS as u64) as usize) else { return };
    let Some(reply) = session.call(&["GET", lock]) else { return };
    if run.now_us() >= until_us || is_refusal(&reply) {
        return;
    }
    run.locks.looks.fetch_add(1, SeqCst);
    if reply != format!("${} {token}", token.len()) {
        let fault = format!("{token} holds {lock} until {until_us} us, but {} us: {reply}", run.now_us());
        run.locks.faults.lock().expect("it was unlocked").push(fault);
    }
}
