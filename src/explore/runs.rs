//! Runs of a scenario, each in a private instance of its own, and at the same time by its clock.

use std::any::Any;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use crate::command::test_mode::fault::inject;
use crate::dispatch::TimeTravel;
use crate::namespace::Namespace;
use crate::net::builder::Builder;
use crate::net::inspect::{CommandError, Inspection};
use crate::net::server::Server;
use crate::test_mode::{Fault, ReceivedCall};
use crate::upkeep::time_travel::travel_blocking;

/// Name of the threads on which scenarios run, whose panics are not printed.
const THREAD: &str = "keylatch-explore";

/// The maximum number of runs without a fault beyond the first two.
const CLEAN_RUNS_MAX: usize = 5;

/// The scenario of a test.
pub(super) type ExploredScenario = Arc<dyn Fn(&TestInstance) -> Result<(), String> + Send + Sync>;

/// The outcome of a scenario: nothing, or a `Result`.
pub trait ScenarioOutcome {
    /// Returns the reason of a failure.
    ///
    /// # Errors
    /// The scenario has failed.
    fn into_result(self) -> Result<(), String>;
}

impl ScenarioOutcome for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Debug> ScenarioOutcome for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// A private instance in which a scenario runs once.
pub struct TestInstance {
    server: Arc<Server>,
    namespace: Arc<Namespace>,
    name: String,
}

impl TestInstance {
    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        format!("redis://{}:any@{}/0", self.name, self.server.addr())
    }

    /// Moves the clock forward; returns when everything that is due by then has happened.
    pub fn advance(&self, by: Duration) {
        travel_blocking(&self.namespace, self.server.handlers(), TimeTravel::By(by));
    }

    /// Returns the value of a string in database 0; `None` if there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE` for a key of another type.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, CommandError> {
        self.inspection().get(key.as_ref())
    }

    /// Returns the TTL of a key in database 0; `None` if it has none, or does not exist.
    ///
    /// # Errors
    /// `BUSY` while a script has been running for too long.
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Duration>, CommandError> {
        self.inspection().ttl(key.as_ref())
    }

    /// Returns the keys of database 0 that match a pattern, in alphabetical order.
    ///
    /// # Errors
    /// `BUSY` while a script has been running for too long.
    pub fn keys(&self, pattern: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, CommandError> {
        self.inspection().keys(pattern.as_ref())
    }

    fn inspection(&self) -> Inspection<'_> {
        Inspection { namespace: &self.namespace, handlers: self.server.handlers() }
    }
}

/// A run of the scenario.
pub(super) struct Run {
    pub(super) outcome: Result<(), String>,
    pub(super) calls: Vec<Arc<ReceivedCall>>,
}

impl Run {
    /// Returns the calls of a run without a fault.
    ///
    /// # Errors
    /// The scenario has failed.
    pub(super) fn without_fault(self) -> Result<Vec<Arc<ReceivedCall>>, String> {
        self.outcome.map_err(|message| format!("the scenario fails without a fault: {message}"))?;
        Ok(self.calls)
    }
}

/// Server, scenario and time of all runs.
pub(super) struct Runner {
    server: Arc<Server>,
    scenario: ExploredScenario,
    timeout: Duration,
    start_ms: i64,
    last: AtomicU64,
    /// The number of further runs without a fault that were made.
    clean: AtomicUsize,
}

impl Runner {
    pub(super) fn new(scenario: ExploredScenario, timeout: Duration) -> Result<Self, String> {
        let server = Builder::default().test_mode().start_blocking().map_err(|error| error.to_string())?;
        let start_ms = server.namespace().clock.now().wall_ms();
        Ok(Runner {
            server: Arc::new(server),
            scenario,
            timeout,
            start_ms,
            last: AtomicU64::new(0),
            clean: AtomicUsize::new(0),
        })
    }

    /// Returns whether a further run without a fault may be made, and counts it.
    pub(super) fn may_learn(&self) -> bool {
        self.clean.fetch_add(1, Ordering::Relaxed) < CLEAN_RUNS_MAX
    }

    /// Runs the scenario in a new instance with these faults.
    pub(super) fn run(&self, faults: &[Fault]) -> Result<Run, String> {
        let name = format!("ns-explore-{}", self.last.fetch_add(1, Ordering::Relaxed));
        let namespace = self.server.make_instance(name.as_bytes()).map_err(|error| error.to_string())?;
        travel_blocking(&namespace, self.server.handlers(), TimeTravel::To { unix_ms: self.start_ms });
        for fault in faults {
            inject(&namespace, fault.clone()).map_err(|error| error.to_string())?;
        }
        let instance = TestInstance { server: self.server.clone(), namespace: namespace.clone(), name };
        let outcome = self.outcome(instance);
        let calls = namespace.test_mode.as_ref().map(|test_mode| test_mode.calls.lock().latest(usize::MAX, None));
        namespace.clients.end_all();
        namespace.forget_node();
        namespace.end();
        Ok(Run { outcome, calls: calls.unwrap_or_default() })
    }

    /// Runs the scenario on a thread of its own, which is left to itself if it does not end.
    fn outcome(&self, instance: TestInstance) -> Result<(), String> {
        let (scenario, (sender, receiver)) = (self.scenario.clone(), channel());
        let run = move || {
            let result = quietly(|| scenario(&instance));
            let _ = sender.send(result); // nobody listens after the timeout
        };
        thread::Builder::new().name(THREAD.to_owned()).spawn(run).map_err(|error| error.to_string())?;
        let limit = self.timeout.as_secs_f64();
        receiver.recv_timeout(self.timeout).unwrap_or_else(|_| Err(format!("did not end within {limit} s")))
    }
}

/// Calls a scenario; a panic becomes an error, and is not printed.
fn quietly(scenario: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(THREAD) {
                print(panic);
            }
        }));
    });
    catch_unwind(AssertUnwindSafe(scenario)).unwrap_or_else(|panic| Err(message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "a panic".to_owned())
}
