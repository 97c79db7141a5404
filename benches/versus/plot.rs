//! Plots as SVG: panels in a grid, a line per server, each server in the same colour everywhere.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Result;
use crate::report::short;
use crate::server::Kind;

const PANEL: (u32, u32) = (560, 400);
/// Title and legend.
const HEAD_HEIGHT: u32 = 72;
const LEGEND_STEP: i32 = 120;
/// Panels beside each other before a new row begins.
const COLUMNS: usize = 2;
const FONT: &str = "sans-serif";
const GRID: RGBColor = RGBColor(225, 225, 225);

/// How an axis is divided.
#[derive(Clone, Copy, PartialEq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten, or of two.
    Log { base: f64 },
    /// The share of requests that are slower, halving again and again: 50 %, 90 %, 99 %, 99.9 % are as far apart.
    Percentile,
}

/// What an axis shows.
#[derive(Clone, Copy)]
pub struct Axis {
    pub label: &'static str,
    pub scale: Scale,
}

/// A figure with its panels.
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

/// The points of one server.
pub struct Line {
    pub server: Kind,
    pub points: Vec<(f64, f64)>,
}

/// Returns the colour that a server has in every plot (Okabe and Ito's palette, which the colour-blind can tell apart).
fn colour(server: Kind) -> RGBColor {
    match server {
        Kind::Keylatch => RGBColor(0, 114, 178),
        Kind::Earlier => RGBColor(86, 180, 233),
        Kind::Redis => RGBColor(213, 94, 0),
        Kind::Null => RGBColor(120, 120, 120),
        Kind::Valkey => RGBColor(0, 158, 115),
        Kind::Pogocache => RGBColor(204, 121, 167),
        Kind::Memcached => RGBColor(190, 150, 0),
    }
}

impl Plot {
    /// Draws the plot into a file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let columns = self.panels.len().min(COLUMNS);
        let rows = self.panels.len().div_ceil(COLUMNS);
        let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32 + HEAD_HEIGHT);
        let root = SVGBackend::new(path, size).into_drawing_area();
        let failed = |error| format!("{}: {error}", path.display());
        root.fill(&WHITE).map_err(|error| failed(error.to_string()))?;
        let (head, body) = root.split_vertically(HEAD_HEIGHT);
        self.head(&head).map_err(|error| failed(error.to_string()))?;
        for (panel, area) in self.panels.iter().zip(body.split_evenly((rows, columns))) {
            panel.draw(self.x, &area).map_err(|error| failed(error.to_string()))?;
        }
        root.present().map_err(|error| failed(error.to_string()))?;
        Ok(())
    }

    /// Writes the title and, since the panels share it, the legend.
    fn head(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let width = area.dim_in_pixel().0 as i32;
        let centred = Pos::new(HPos::Center, VPos::Center);
        area.draw_text(&self.title, &(FONT, 22).into_text_style(area).pos(centred), (width / 2, 24))?;
        let mut servers: Vec<Kind> =
            self.panels.iter().flat_map(|panel| panel.lines.iter().map(|line| line.server)).collect();
        servers.sort_unstable();
        servers.dedup();
        let left = Pos::new(HPos::Left, VPos::Center);
        let mut x = (width - LEGEND_STEP * servers.len() as i32) / 2;
        for server in servers {
            area.draw(&PathElement::new([(x, 56), (x + 24, 56)], colour(server).stroke_width(3)))?;
            area.draw_text(server.name(), &(FONT, 15).into_text_style(area).pos(left), (x + 30, 56))?;
            x += LEGEND_STEP;
        }
        Ok(())
    }
}

impl Panel {
    fn draw(&self, x: Axis, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let (xs, ys) = (x.coordinate(points().map(|point| point.0)), self.y.coordinate(points().map(|point| point.1)));
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 17))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(xs, ys)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(BLACK.mix(0.6))
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 15))
            .x_desc(x.label)
            .y_desc(self.y.label)
            .draw()?;
        for line in &self.lines {
            let style = colour(line.server).stroke_width(2);
            // The curve of percentiles has a point for every grain of the scale; elsewhere the points are what was
            // measured.
            let dot = if x.scale == Scale::Percentile { 0 } else { 3 };
            let shown = LineSeries::new(line.points.iter().copied(), style).point_size(dot);
            chart.draw_series(shown)?;
        }
        Ok(())
    }
}

impl Axis {
    fn coordinate(self, values: impl Iterator<Item = f64>) -> Coordinate {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match self.scale {
            _ if values.is_empty() => Coordinate { scale: self.scale, low: 0.0, high: 1.0 },
            Scale::Linear => Coordinate { scale: self.scale, low: 0.0, high: largest * 1.06 },
            scale => {
                let (low, high) = (scale.forward(smallest), scale.forward(largest));
                let room = (high - low).max(0.1) * 0.03;
                Coordinate { scale, low: low - room, high: high + room }
            }
        }
    }
}

impl Scale {
    /// Maps a value to where it stands on an even scale.
    fn forward(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log { base } => value.log(base),
            Scale::Percentile => -(1.0 - value).log10(),
        }
    }

    fn backward(self, place: f64) -> f64 {
        match self {
            Scale::Linear => place,
            Scale::Log { base } => base.powf(place),
            Scale::Percentile => 1.0 - 10f64.powf(-place),
        }
    }
}

/// An axis with its range, in places of its scale.
struct Coordinate {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Ranged for Coordinate {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = (self.scale.forward(*value) - self.low) / (self.high - self.low);
        limit.0 + (place * f64::from(limit.1 - limit.0)) as i32
    }

    fn key_points<Hint: plotters::coord::ranged1d::KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let Scale::Log { base } = self.scale else { return self.even_points(hint.max_num_points()) };
        let powers = self.low.floor() as i32..=self.high.ceil() as i32;
        // Between powers of ten there is room for 2 and 5 where there are few of them.
        let within: &[f64] = if base == 10.0 && self.high - self.low < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let points = powers.flat_map(|power| within.iter().map(move |step| step * base.powi(power)));
        points.filter(|point| (self.low - 1e-9..=self.high + 1e-9).contains(&self.scale.forward(*point))).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.scale.backward(self.low)..self.scale.backward(self.high)
    }
}

impl Coordinate {
    fn even_points(&self, count_max: usize) -> Vec<f64> {
        if self.scale == Scale::Percentile {
            return [0.5, 0.9, 0.99, 0.999, 0.9999]
                .into_iter()
                .filter(|&p| self.scale.forward(p) <= self.high)
                .collect();
        }
        let rough = self.high / count_max.clamp(1, 8) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(self.high);
        (0..).map(|at| f64::from(at) * step).take_while(|point| *point <= self.high).collect()
    }
}

impl ValueFormatter<f64> for Coordinate {
    fn format_ext(&self, value: &f64) -> String {
        match self.scale {
            Scale::Percentile => format!("{} %", (value * 1e6).round() / 1e4),
            _ => short(*value),
        }
    }
}
