//! Plots as SVG: panels in a grid, a line per server. `plot.py` in this directory draws them with matplotlib.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::server::Kind;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/versus/plot.py");

/// Scale of an axis.
#[derive(Clone, Copy, PartialEq)]
pub enum Scale {
    /// Linear, from zero.
    Linear,
    /// Logarithmic, by powers of ten or of two.
    Log { base: f64 },
    /// Share of requests that are slower, halving again and again: 50 %, 90 %, 99 %, 99.9 % are equally far apart.
    Percentile,
}

/// Label and scale of an axis.
#[derive(Clone, Copy)]
pub struct Axis {
    pub label: &'static str,
    pub scale: Scale,
}

/// Figure with its panels.
pub struct Plot {
    pub title: String,
    pub x: Axis,
    pub panels: Vec<Panel>,
}

/// One system of axes.
pub struct Panel {
    pub title: String,
    pub y: Axis,
    pub lines: Vec<Line>,
}

/// Points of one server.
pub struct Line {
    pub server: Kind,
    pub points: Vec<(f64, f64)>,
}

impl Plot {
    /// Draws the plot into a file.
    ///
    /// # Errors
    /// An error when matplotlib is missing, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut command = Command::new("python3");
        command.arg(PROGRAM).arg(path).stdin(Stdio::piped());
        let mut python = command.spawn().map_err(|error| format!("python3, which draws the plots: {error}"))?;
        let written = python.stdin.take().map(|mut input| input.write_all(self.text().as_bytes()));
        match python.wait()? {
            status if status.success() => Ok(written.transpose().map(|_| ())?),
            status => Err(format!("{PROGRAM}, which needs matplotlib: {status}").into()),
        }
    }

    /// Returns the input of `plot.py`: a line for each axis, panel and point, with tabs between its parts.
    fn text(&self) -> String {
        let mut text = format!("title\t{}\n", self.title);
        self.x.describe("x", &mut text);
        for panel in &self.panels {
            // Writing to a string cannot fail.
            _ = writeln!(text, "panel\t{}", panel.title);
            panel.y.describe("y", &mut text);
            for line in &panel.lines {
                for (x, y) in line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
                    _ = writeln!(text, "point\t{}\t{x}\t{y}", line.server.name());
                }
            }
        }
        text
    }
}

impl Axis {
    fn describe(self, name: &str, text: &mut String) {
        let scale = match self.scale {
            Scale::Linear => "linear".to_owned(),
            Scale::Log { base } => format!("log {base}"),
            Scale::Percentile => "percentile".to_owned(),
        };
        _ = writeln!(text, "{name}\t{}\t{scale}", self.label);
    }
}
