//! Clients whose requests and replies are recorded, and their objects.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use super::site::{Session, is_refusal};
use super::{Figures, RECOVERY, Run, SERVERS};
use crate::harness::{Dice, wait_for};
use crate::linearizable::model::{self, Command};
use crate::linearizable::uncertain::{Request, Span, is_linearizable};

/// Approximate maximum number of operations of an object.
const OPERATIONS_MAX: usize = 120;
/// Approximate maximum number of uncertain operations of an object: the checker's work doubles with each.
const UNCERTAIN_MAX: usize = 5;

/// Use of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// SET and GET.
    Register,
    /// SETNX, GETSET, DEL and GET, as in the documented lock pattern.
    LockPattern,
    /// INCR and GET.
    Counter,
    /// EXEC over two keys, and MGET.
    Pair,
    /// A list as a queue: RPUSH, LPOP, BLPOP and LLEN.
    Queue,
    /// WATCH, GET and EXEC, with concurrent SET and DEL.
    Watched,
}

/// All uses.
const USES: [Use; 6] = [Use::Register, Use::LockPattern, Use::Counter, Use::Pair, Use::Queue, Use::Watched];

/// Keys that are used together, and only for this object.
struct Object {
    kind: Use,
    prefix: String,
    spans: Mutex<Vec<Span>>,
}

impl Object {
    /// Returns the recorded operations.
    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        self.spans.lock().expect("it was unlocked")
    }

    /// Returns whether a new object has to replace this one.
    fn is_used_up(&self) -> bool {
        let spans = self.spans();
        spans.len() >= OPERATIONS_MAX || uncertain(&spans) >= UNCERTAIN_MAX
    }

    /// Returns the request that reads the whole object.
    fn read(&self) -> Request {
        match self.kind {
            Use::Queue => Request::List,
            _ => Request::Keys(Command::Mget),
        }
    }
}

/// Counts the uncertain operations, which may have been executed or not.
fn uncertain(spans: &[Span]) -> usize {
    spans.iter().filter(|span| span.reply.is_none() && !span.request.is_read()).count()
}

pub(super) struct Objects {
    present: Mutex<Vec<Arc<Object>>>,
    former: Mutex<Vec<Arc<Object>>>,
    refused: AtomicU64,
    /// Last written value.
    value: AtomicI64,
}

impl Objects {
    /// Creates an object for each use.
    pub(super) fn new() -> Self {
        let present =
            USES.map(|kind| Arc::new(Object { kind, prefix: format!("{kind:?}:0:"), spans: Mutex::default() }));
        let (present, former) = (Mutex::new(present.into()), Mutex::default());
        Objects { present, former, refused: AtomicU64::new(0), value: AtomicI64::new(0) }
    }

    /// Returns an object, and replaces it by a new one if it is used up.
    fn take(&self, place: usize) -> Arc<Object> {
        let (mut present, mut former) =
            (self.present.lock().expect("it was unlocked"), self.former.lock().expect("it was unlocked"));
        if present[place].is_used_up() {
            let kind = present[place].kind;
            let prefix = format!("{kind:?}:{}:", former.len() + 1);
            let next = Arc::new(Object { kind, prefix, spans: Mutex::default() });
            former.push(std::mem::replace(&mut present[place], next));
        }
        present[place].clone()
    }

    /// Returns a number that is written only once, with room for INCR below the next.
    fn value(&self) -> i64 {
        self.value.fetch_add(10_000, SeqCst) + 10_000
    }

    /// Returns the replaced objects and those in use.
    fn all(&self) -> Vec<Arc<Object>> {
        let former = self.former.lock().expect("it was unlocked").clone();
        [former, self.present.lock().expect("it was unlocked").clone()].concat()
    }

    /// Returns the first error, if any, after all servers have returned the final objects.
    pub(super) fn fault(&self, run: &Run) -> Option<String> {
        let objects = self.all();
        agree(run, &objects);
        objects.iter().find_map(|object| {
            let mut spans = object.spans().clone();
            spans.sort_by_key(|span| span.called);
            (!is_linearizable(&spans)).then(|| format!("no order explains {}: {}", object.prefix, shown(&spans)))
        })
    }

    /// Adds the numbers of operations to the counts.
    pub(super) fn count(&self, figures: &mut Figures) {
        let objects = self.all();
        figures.add("objects", objects.len() as u64);
        figures.add("operations", objects.iter().map(|object| object.spans().len() as u64).sum());
        figures.add("uncertain", objects.iter().map(|object| uncertain(&object.spans()) as u64).sum());
        figures.add("refused without a quorum", self.refused.load(SeqCst));
    }
}

/// Waits until all servers return the same objects, and records the replies.
fn agree(run: &Run, objects: &[Arc<Object>]) {
    let mut sessions: Vec<Option<Session>> = (0..SERVERS).map(|_| None).collect();
    wait_for(RECOVERY, || {
        let mut differs = false;
        for object in objects {
            let mut said = Vec::new();
            for (server, session) in sessions.iter_mut().enumerate() {
                if session.is_none() {
                    *session = run.site.session(server);
                }
                let mut caller = Caller { run, session: session.take(), server };
                said.push(caller.execute(object, object.read()));
                *session = caller.session;
            }
            if said.iter().any(|reply| reply.is_none() || *reply != said[0]) {
                run.trouble.note(run, format!("of {} the servers say {said:?}", object.prefix));
                differs = true;
            }
        }
        !differs
    });
}

/// Formats operations, one a line.
fn shown(spans: &[Span]) -> String {
    let line = |Span { called, request, reply }: &Span| match reply {
        Some((replied, reply)) => format!("\n{called:8} to {replied:8} {request:?}: {reply}"),
        None => format!("\n{called:8} to nobody knows {request:?}"),
    };
    spans.iter().map(line).collect()
}

struct Caller<'a> {
    run: &'a Run,
    session: Option<Session>,
    server: usize,
}

impl Caller<'_> {
    /// Makes a request and records it. Returns the reply, if the request is known to have been executed.
    fn execute(&mut self, object: &Object, request: Request) -> Option<String> {
        let mut session = self.session.take()?;
        let called = self.run.tick();
        let reply = session.request(&request.bytes(&object.prefix), &request.replies_before_the_last());
        let replied = self.run.tick();
        if reply.is_some() {
            self.session = Some(session);
        }
        self.run.turns.fetch_add(1, SeqCst);
        if reply.as_ref().is_some_and(|reply| is_refusal(reply)) {
            self.run.objects.refused.fetch_add(1, SeqCst);
            return None;
        }
        let known = reply.filter(|reply| !reply.starts_with("-UNCERTAIN ")).map(|reply| request.known_form(reply));
        object.spans().push(Span { called, request, reply: known.clone().map(|reply| (replied, reply)) });
        known
    }

    /// Changes a key between WATCH and EXEC.
    fn swap_watched(&mut self, object: &Object, to: i64) {
        let key = format!("{}{}", object.prefix, model::KEYS[0]);
        let Some(session) = &mut self.session else { return };
        if session.call(&["WATCH", &key]).as_deref() != Some("+OK") {
            self.session = None;
            return;
        }
        let Some(reply) = self.execute(object, Request::Keys(Command::Get(0))) else {
            self.session = None;
            return;
        };
        let seen = model::value(&reply);
        self.execute(object, Request::Keys(Command::Swap { key: 0, seen, to }));
    }

    /// Makes a random request about an object.
    fn take_turn(&mut self, dice: &mut Dice) {
        let object = self.run.objects.take(dice.roll(USES.len() as u64) as usize);
        let (value, way) = (self.run.objects.value(), dice.roll(8));
        let request = match object.kind {
            Use::Watched if way < 4 => return self.swap_watched(&object, value),
            Use::Queue => match way {
                0..=2 => Request::Push(value),
                3 => Request::Pop,
                4..=6 => Request::BlockingPop([20, 50, 200, 2000][dice.roll(4) as usize]),
                _ => Request::Len,
            },
            kind => Request::Keys(command(kind, way, value)),
        };
        self.execute(&object, request);
    }
}

/// Returns a command for a use of keys.
fn command(kind: Use, way: u64, value: i64) -> Command {
    match (kind, way) {
        (Use::Register | Use::Watched, 0..=4) => Command::Set(0, value),
        (Use::LockPattern, 0..=2) => Command::SetNx(0, value),
        (Use::LockPattern, 3) => Command::GetSet(0, value),
        (Use::LockPattern | Use::Watched, 4 | 5) => Command::Del(vec![0]),
        (Use::Counter, 0..=5) => Command::Incr(0),
        (Use::Pair, 0 | 1) => Command::Exec(vec![Command::Set(0, value), Command::Set(1, value)]),
        (Use::Pair, 2) => Command::Exec(vec![Command::Incr(1), Command::GetSet(0, value)]),
        (Use::Pair, 3) => Command::Exec(vec![Command::Get(0), Command::Incr(1), Command::Del(vec![0])]),
        (Use::Pair, 4) => Command::Exec(vec![Command::Get(0), Command::Get(1)]),
        (Use::Pair, _) => Command::Mget,
        _ => Command::Get(0),
    }
}

/// Makes requests until the history is over.
pub(super) fn work(run: &Run, number: u64) {
    let mut dice = Dice::new(run.seed * 100 + number);
    let mut caller = Caller { run, session: None, server: number as usize % SERVERS };
    while !run.is_over() {
        if caller.session.is_none() || dice.roll(50) == 0 {
            // After a lost connection the client usually switches to another server.
            caller.server = dice.roll(SERVERS as u64) as usize;
            caller.session = run.site.session(caller.server);
        }
        caller.take_turn(&mut dice);
        run.wait_at_most(dice.roll(20), || false);
    }
}
