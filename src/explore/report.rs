//! The report of an exploration.

use std::fmt;
use std::time::Duration;

/// The outcome of an exploration. Its `Display` names each point at which the scenario fails in a line that makes
/// [`Explore::only`](crate::Explore::only) try it again.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExploreReport {
    /// The number of points that were tried.
    pub points: usize,
    /// The points at which the scenario has failed, with what it said.
    pub failures: Vec<(String, String)>,
    /// The points before which the scenario did something else than without a fault, with the first difference.
    pub not_repeatable: Vec<(String, String)>,
    /// The number of points that were left out because their keys, or the order of the connections that are set up there, differ
    /// from run to run.
    pub left_out: usize,
    /// The number of points for which there was no time.
    pub not_tried: usize,
    /// The seed by which pairs were chosen.
    pub seed: Option<u64>,
    /// The time that it took.
    pub time: Duration,
}

/// The outcome of the runs with the fault of a point.
pub(super) enum PointOutcome {
    Passed,
    /// The fault has struck a key that has another name than without a fault.
    LeftOut,
    /// The scenario has failed, with what it said.
    Failed(String),
    /// The scenario did something else before the point, each time.
    NotRepeatable(String),
}

impl ExploreReport {
    /// Adds the outcome of a point.
    pub(super) fn add(&mut self, name: String, outcome: PointOutcome) {
        self.points += 1;
        match outcome {
            PointOutcome::Passed => {}
            PointOutcome::LeftOut => (self.points, self.left_out) = (self.points - 1, self.left_out + 1),
            PointOutcome::Failed(message) => self.failures.push((name, message)),
            PointOutcome::NotRepeatable(difference) => self.not_repeatable.push((name, difference)),
        }
    }

    /// Returns true if the scenario has passed at all points that were tried, and there was one.
    pub fn is_passed(&self) -> bool {
        self.points > 0 && self.failures.is_empty() && self.not_repeatable.is_empty()
    }
}

impl fmt::Display for ExploreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        write!(f, "explore: {} points in {seconds:.1} s: {} failed", self.points, self.failures.len())?;
        for (count, what) in [
            (self.not_repeatable.len(), "not repeatable"),
            (self.not_tried, "not tried (budget)"),
            (self.left_out, "left out (keys or connections differ from run to run)"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if let Some(seed) = self.seed {
            write!(f, ", pairs of seed {seed}")?;
        }
        let mut messages: Vec<&str> = Vec::new();
        for (_, message) in &self.failures {
            if !messages.contains(&&**message) {
                messages.push(message);
            }
        }
        for message in messages {
            write!(f, "\n{message}")?;
            for (name, _) in self.failures.iter().filter(|(_, other)| other == message) {
                write!(f, "\n  only={}", literal(name))?;
            }
        }
        for (name, difference) in &self.not_repeatable {
            write!(f, "\nnot repeatable: {}\n  {difference}", literal(name))?;
        }
        Ok(())
    }
}

/// Returns a text as a string literal of Rust, Python and JavaScript.
fn literal(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
