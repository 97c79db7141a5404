//! Exploration: a test scenario is run once for each thing that can go wrong at one of its calls.
//!
//! `points` finds the points in the journals of two runs without a fault, `runs` makes runs in private instances, `report`
//! shows what has come of them. The helpers in Python and Node do the same over the wire, see `docs/EXPLORE.md`.

mod kind;
mod points;
mod report;
mod runs;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::explore::kind::PointKind;
use crate::explore::points::{Baseline, Difference, Point};
use crate::explore::report::PointOutcome;
use crate::explore::runs::{ExploredScenario, Runner};
use crate::random::Random;
use crate::time::clock::Clock;

pub use report::ExploreReport;
pub use runs::{ScenarioOutcome, TestInstance};

/// Time for which pairs are tried without a budget.
const PAIRS_BUDGET: Duration = Duration::from_secs(10);

/// The maximum number of runs of a point, and of pairs of runs without a fault, for one that is like the others.
const RUNS_MAX: usize = 3;

/// Runs a scenario once for each thing that can go wrong at one of its calls, see [`Explore`].
///
/// # Panics
/// With the report, if the scenario fails at a point, or is not repeatable.
#[track_caller]
pub fn explore<R: ScenarioOutcome>(scenario: impl Fn(&TestInstance) -> R + Send + Sync + 'static) {
    Explore::new().run(scenario);
}

/// An exploration: a scenario is run twice without a fault, and then once for each of its *points*, a call and a kind of
/// fault, each time in a private instance of its own. The scenario asserts what must hold, by a panic or an `Err`.
///
/// The kinds `lost-reply`, `not-executed`, `cut-all`, `late`, `expired` and `noscript` are those that a correct client can
/// always survive; `evicted`, `failover`, `readonly`, `oom`, `loading` and `busy` are tried if they are asked for.
///
/// ```no_run
/// # fn work(_: &str) {}
/// keylatch::Explore::new().kinds(["lost-reply", "evicted"]).run(|instance| {
///     work(&instance.url()); // your own code, which is tested
///     assert_eq!(instance.ttl("lock:report").unwrap(), None);
/// });
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is tried before `run` or `report` is called"]
pub struct Explore {
    kinds: Vec<String>,
    only: Vec<String>,
    budget: Option<Duration>,
    workers: usize,
    has_pairs: bool,
    seed: u64,
    late_by: Duration,
    timeout: Duration,
}

impl Default for Explore {
    fn default() -> Self {
        Self::new()
    }
}

impl Explore {
    /// Creates an exploration of the default kinds.
    pub fn new() -> Self {
        Explore {
            kinds: PointKind::ALL.iter().filter(|kind| kind.is_default()).map(|kind| kind.name().to_owned()).collect(),
            only: Vec::new(),
            budget: None,
            workers: thread::available_parallelism().map_or(1, usize::from),
            has_pairs: false,
            seed: 1,
            late_by: Duration::from_secs(60),
            timeout: Duration::from_secs(10),
        }
    }

    /// Sets the kinds of faults, by their names.
    pub fn kinds<N: Into<String>>(self, kinds: impl IntoIterator<Item = N>) -> Self {
        Explore { kinds: kinds.into_iter().map(Into::into).collect(), ..self }
    }

    /// Tries this point alone, by the name that a report has for it; may be called several times.
    pub fn only(mut self, point: impl Into<String>) -> Self {
        self.only.push(point.into());
        self
    }

    /// Sets the time after which no further point is tried; the report says how many were not.
    pub fn budget(self, budget: Duration) -> Self {
        Explore { budget: Some(budget), ..self }
    }

    /// Sets the number of instances in which the scenario runs at the same time; without it the number of cores.
    pub fn workers(self, workers: usize) -> Self {
        Explore { workers: workers.max(1), ..self }
    }

    /// Tries two points at once, too: pairs chosen by chance, for ten seconds or for the budget.
    pub fn pairs(self) -> Self {
        Explore { has_pairs: true, ..self }
    }

    /// Sets the seed of the random numbers that choose pairs; 1 without it.
    pub fn seed(self, seed: u64) -> Self {
        Explore { seed, ..self }
    }

    /// Sets by how much the clock is moved before a reply that is `late`; a minute without it.
    pub fn late_by(self, time: Duration) -> Self {
        Explore { late_by: time, ..self }
    }

    /// Sets the real time within which a run must end; ten seconds without it.
    pub fn timeout(self, timeout: Duration) -> Self {
        Explore { timeout, ..self }
    }

    /// Explores a scenario.
    ///
    /// # Panics
    /// With the report, if the scenario fails at a point, or is not repeatable; if it fails without a fault; if a kind or a
    /// point that was asked for does not exist.
    #[track_caller]
    pub fn run<R: ScenarioOutcome>(self, scenario: impl Fn(&TestInstance) -> R + Send + Sync + 'static) {
        let report = self.report(scenario);
        assert!(report.is_passed(), "{report}");
    }

    /// Explores a scenario, and returns the report whatever it says.
    ///
    /// # Panics
    /// If the scenario fails without a fault, or is another one in the second run; if a kind or a point that was asked for does
    /// not exist.
    #[track_caller]
    pub fn report<R: ScenarioOutcome>(
        self,
        scenario: impl Fn(&TestInstance) -> R + Send + Sync + 'static,
    ) -> ExploreReport {
        match self.explore(Arc::new(move |instance: &TestInstance| scenario(instance).into_result())) {
            Ok(report) => report,
            Err(reason) => panic!("explore: {reason}"),
        }
    }

    fn explore(self, scenario: ExploredScenario) -> Result<ExploreReport, String> {
        let clock = Clock::system();
        let begun_us = clock.now().mono_us();
        let elapsed = || Duration::from_micros(clock.now().mono_us().saturating_sub(begun_us));
        let kinds = self.kinds.iter().map(|name| PointKind::named(name)).collect::<Result<Vec<_>, String>>()?;
        let runner = Runner::new(scenario, self.timeout)?;
        let baseline = baseline(&runner)?;
        let (points, left_out) = baseline.points(&kinds, self.late_by);
        let singles = self.chosen(points.iter().map(std::slice::from_ref).collect())?;
        let mut report = ExploreReport { left_out, ..ExploreReport::default() };
        self.try_all(&runner, &baseline, &singles, (&elapsed, self.budget), &mut report)?;
        if self.has_pairs && self.only.is_empty() {
            let pairs = self.pairs_of(&points);
            let until = self.budget.unwrap_or_else(|| elapsed() + PAIRS_BUDGET);
            self.try_all(
                &runner,
                &baseline,
                &pairs.iter().map(|pair| &pair[..]).collect::<Vec<_>>(),
                (&elapsed, Some(until)),
                &mut report,
            )?;
            report.seed = Some(self.seed);
        }
        report.time = elapsed();
        Ok(report)
    }

    /// Returns the points that are to be tried.
    fn chosen<'p>(&self, points: Vec<&'p [Point]>) -> Result<Vec<&'p [Point]>, String> {
        if self.only.is_empty() {
            return Ok(points);
        }
        let find = |name: &String| {
            points.iter().copied().find(|point| point[0].name == *name).ok_or_else(|| {
                let kind = name.split(':').next().unwrap_or_default();
                let similar = points.iter().filter(|point| point[0].name.starts_with(kind)).take(10);
                let similar: Vec<&str> = similar.map(|point| &*point[0].name).collect();
                format!("there is no point '{name}'; there are '{}'", similar.join("', '"))
            })
        };
        self.only.iter().map(find).collect()
    }

    /// Returns pairs of points at different calls, in random order.
    fn pairs_of(&self, points: &[Point]) -> Vec<[Point; 2]> {
        let mut pairs: Vec<[Point; 2]> = Vec::new();
        for (at, first) in points.iter().enumerate() {
            let later = points[at + 1..].iter().filter(|second| second.call != first.call);
            pairs.extend(later.map(|second| [first.clone(), second.clone()]));
        }
        let mut random = Random::new(self.seed);
        for last in (1..pairs.len()).rev() {
            pairs.swap(last, random.below(last + 1));
        }
        pairs
    }

    /// Runs the scenario with the faults of each point, or of each pair, and adds the outcomes to the report.
    fn try_all(
        &self,
        runner: &Runner,
        baseline: &Baseline,
        trials: &[&[Point]],
        (elapsed, until): (&(dyn Fn() -> Duration + Sync), Option<Duration>),
        report: &mut ExploreReport,
    ) -> Result<(), String> {
        let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let is_over = until.is_some_and(|until| elapsed() >= until);
                let Some(trial) = trials.get(at).filter(|_| !is_over) else { return Ok(()) };
                let outcome = try_points(runner, baseline, trial)?;
                outcomes.lock().push((at, outcome));
            }
        };
        let results: Vec<Result<(), String>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers.min(trials.len())).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap_or(Ok(()))).collect()
        });
        results.into_iter().collect::<Result<(), String>>()?;
        let mut outcomes = outcomes.into_inner();
        outcomes.sort_by_key(|(at, _)| *at);
        report.not_tried += trials.len() - outcomes.len();
        for (at, outcome) in outcomes {
            report.add(trials[at].iter().map(|point| &*point.name).collect::<Vec<_>>().join(" + "), outcome);
        }
        Ok(())
    }
}

/// Runs a scenario twice without a fault, and again if other calls came by chance.
fn baseline(runner: &Runner) -> Result<Baseline, String> {
    let mut difference = String::new();
    for _ in 0..RUNS_MAX {
        let (first, second) = (runner.run(&[])?.without_fault()?, runner.run(&[])?.without_fault()?);
        match Baseline::new(&first, &second) {
            Ok(baseline) => return Ok(baseline),
            Err(reason) => difference = reason,
        }
    }
    Err(format!("not repeatable: {difference}"))
}

/// Runs the scenario with the faults of points, and again if it has made other calls before them by chance. Arguments in
/// which a further run without a fault has other numbers, too, are not compared from then on.
fn try_points(runner: &Runner, baseline: &Baseline, points: &[Point]) -> Result<PointOutcome, String> {
    let faults: Vec<_> = points.iter().map(|point| point.fault.clone()).collect();
    let mut last = String::new();
    for _ in 0..RUNS_MAX {
        let run = runner.run(&faults)?;
        loop {
            let Some(Difference { text, is_of_numbers }) = baseline.difference(points, &run.calls) else {
                return Ok(match run.outcome {
                    _ if !points::names_the_keys(points, &run.calls) => PointOutcome::LeftOut,
                    Ok(()) => PointOutcome::Passed,
                    Err(message) => PointOutcome::Failed(message),
                });
            };
            last = text;
            if !is_of_numbers || !runner.may_learn() {
                break;
            }
            let clean = runner.run(&[])?;
            if clean.outcome.is_err() || !baseline.learn(&clean.calls) {
                break;
            }
        }
    }
    Ok(PointOutcome::NotRepeatable(last))
}
