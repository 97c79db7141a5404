//! Figures of every benchmark: one table next to the plots, with a row for each workload and unit. The goals are judged
//! by it. A section that runs alone replaces its own rows; rows of other sections and other benchmarks stay as they
//! are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::measure::Sample;
use crate::server::Kind;

/// Columns before and after those of the servers.
const KEY: [&str; 3] = ["area", "workload", "unit"];
const TAIL: [&str; 3] = ["ratio", "command", "source"];
/// Number of significant digits of a figure.
const DIGITS: i32 = 4;

/// Key of a row: area, which is the section here, workload and unit.
type Key = [String; 3];

/// Figures of one workload in one unit.
#[derive(Default)]
struct Row {
    /// Values by the server's name, as written.
    values: BTreeMap<String, String>,
    /// Command that measures them again.
    command: String,
    /// Measured versions: the commit of keylatch with its date, and the version of Redis.
    source: String,
}

/// Figures, with the path of their file.
pub struct Figures {
    path: PathBuf,
    /// Source of newly measured rows.
    source: String,
    rows: BTreeMap<Key, Row>,
}

impl Figures {
    /// Reads the file, if it exists.
    pub fn read(path: &Path, source: String) -> Figures {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let head = lines.next().unwrap_or_default();
        Figures { path: path.to_owned(), source, rows: lines.map(|cells| parsed(&head, &cells)).collect() }
    }

    /// Removes the rows that a section measured before: a server or a row may no longer exist.
    pub fn forget(&mut self, section: &str) {
        self.rows.retain(|[area, ..], _| area != section);
    }

    pub fn set(&mut self, section: &str, workload: &str, server: Kind, unit: &str, value: f64) {
        if value.is_finite() {
            let row = self.rows.entry(key(section, workload, unit)).or_default();
            row.values.insert(server.name().to_owned(), shown(value));
            row.command = format!("cargo bench --bench versus -- --only {section}");
            row.source.clone_from(&self.source);
        }
    }

    /// Records all figures of a sample; `throughput` names the unit counted per second.
    pub fn set_sample(&mut self, section: &str, workload: &str, server: Kind, throughput: &str, sample: &Sample) {
        let figures = [
            (throughput, sample.per_second),
            ("CPU us", sample.cpu_us),
            ("p50 ms", sample.p50_ms),
            ("p99 ms", sample.p99_ms),
            ("p99.9 ms", sample.p999_ms),
        ];
        for (unit, value) in figures {
            self.set(section, workload, server, unit, value);
        }
    }

    pub fn get(&self, section: &str, workload: &str, server: Kind, unit: &str) -> Option<f64> {
        self.rows.get(&key(section, workload, unit))?.value(server)
    }

    /// Lists the commits at which the figures of a section were measured.
    pub fn commits(&self, section: &str) -> String {
        let rows = self.rows.iter().filter(|([area, ..], _)| area == section);
        let commits: BTreeSet<&str> = rows.filter_map(|(_, row)| row.source.split(", ").next()).collect();
        commits.into_iter().collect::<Vec<_>>().join("; ")
    }

    /// Writes the file.
    ///
    /// # Errors
    /// An error when it cannot be written.
    pub fn write(&self) -> Result<()> {
        let servers = Kind::ALL.map(Kind::name);
        let mut text = [&KEY[..], &servers, &TAIL].concat().join("\t") + "\n";
        for (key, row) in &self.rows {
            let values = servers.map(|server| row.values.get(server).cloned().unwrap_or_default());
            let tail = [row.ratio(), row.command.clone(), row.source.clone()];
            text += &([&key[..], &values, &tail].concat().join("\t") + "\n");
        }
        Ok(fs::write(&self.path, text)?)
    }
}

impl Row {
    fn value(&self, server: Kind) -> Option<f64> {
        self.values.get(server.name())?.parse().ok()
    }

    /// Returns the ratio of keylatch's figure to that of Redis.
    fn ratio(&self) -> String {
        let ratio = self.value(Kind::Keylatch).zip(self.value(Kind::Redis)).map(|(keylatch, redis)| keylatch / redis);
        ratio.filter(|ratio| ratio.is_finite()).map_or_else(String::new, shown)
    }
}

fn key(section: &str, workload: &str, unit: &str) -> Key {
    [section, workload, unit].map(str::to_owned)
}

/// Reads a line by the names of its columns; the ratio follows from the others.
fn parsed(head: &[&str], cells: &[&str]) -> (Key, Row) {
    let mut cell: BTreeMap<&str, &str> = head.iter().copied().zip(cells.iter().copied()).collect();
    let mut take = |column: &str| cell.remove(column).unwrap_or_default().to_owned();
    let key = KEY.map(&mut take);
    let [_, command, source] = TAIL.map(&mut take);
    let values = cell.into_iter().filter(|(_, value)| !value.is_empty());
    (
        key,
        Row { values: values.map(|(server, value)| (server.to_owned(), value.to_owned())).collect(), command, source },
    )
}

/// Formats a figure with its significant digits.
fn shown(value: f64) -> String {
    let before_point = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    format!("{value:.*}", usize::try_from(DIGITS - before_point).unwrap_or(0))
}
