//! Every figure ever measured here, by name, in a file beside the plots: the goals are judged by it, and a section that
//! runs alone leaves the figures of the others in place.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::measure::Sample;
use crate::server::Kind;

/// The figures and where they are kept.
pub struct Figures {
    path: PathBuf,
    values: BTreeMap<String, f64>,
}

impl Figures {
    /// Reads the file, if there is one.
    pub fn read(path: &Path) -> Figures {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = |line: &str| {
            let (name, value) = line.split_once('\t')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Figures { path: path.to_owned(), values: text.lines().filter_map(line).collect() }
    }

    /// Forgets what a section measured before: a server may be gone, or a row.
    pub fn forget(&mut self, section: &str) {
        let prefix = format!("{section} | ");
        self.values.retain(|name, _| !name.starts_with(&prefix));
    }

    pub fn set(&mut self, section: &str, test: &str, server: Kind, figure: &str, value: f64) {
        if value.is_finite() {
            self.values.insert(name(section, test, server, figure), value);
        }
    }

    /// Notes throughput and CPU time, which the goals are about.
    pub fn set_sample(&mut self, section: &str, test: &str, server: Kind, sample: &Sample) {
        self.set(section, test, server, "req/s", sample.per_second);
        self.set(section, test, server, "CPU us", sample.cpu_us);
    }

    pub fn get(&self, section: &str, test: &str, server: Kind, figure: &str) -> Option<f64> {
        self.values.get(&name(section, test, server, figure)).copied()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> Result<()> {
        let mut text = String::new();
        for (name, value) in &self.values {
            writeln!(text, "{name}\t{value:.4}")?;
        }
        Ok(fs::write(&self.path, text)?)
    }
}

fn name(section: &str, test: &str, server: Kind, figure: &str) -> String {
    format!("{section} | {test} | {} | {figure}", server.name())
}
