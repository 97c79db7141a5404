//! Markdown: tables, and the block of `benches/RECORD.md` that the goals go into.

use std::fs;
use std::path::Path;

use crate::Result;

/// Line width of the documents.
const LINE_LEN_MAX: usize = 120;

/// A table whose columns are as wide as their cells, so that it is readable as text too.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns the table as Markdown; numbers are right-aligned.
    pub fn markdown(&self) -> String {
        let columns = 0..self.rows[0].len();
        let widths: Vec<usize> =
            columns.map(|at| self.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(3)).collect();
        let is_number = |cell: &str| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let is_right: Vec<bool> =
            (0..widths.len()).map(|at| self.rows[1..].iter().all(|row| is_number(&row[at]))).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for ((cell, &width), &is_right) in row.iter().zip(&widths).zip(&is_right) {
                text.push_str(&if is_right { format!("| {cell:>width$} ") } else { format!("| {cell:<width$} ") });
            }
            text.push_str("|\n");
            if number == 0 {
                for (&width, &is_right) in widths.iter().zip(&is_right) {
                    text.push_str(&format!("|{}{}", "-".repeat(width + 1), if is_right { ":" } else { "-" }));
                }
                text.push_str("|\n");
            }
        }
        text
    }
}

/// Formats a number with three significant digits; empty if there is none.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => String::new(),
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Formats a ratio; empty if one of its terms is missing.
pub fn ratio(value: f64, base: f64) -> String {
    if (value / base).is_finite() { format!("{:.2}", value / base) } else { String::new() }
}

/// Formats a round number in the usual short form: 1, 10, 1k, 1M.
pub fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", (v / 1e4).round() / 100.0),
        v if v >= 1e3 => format!("{}k", (v / 10.0).round() / 100.0),
        v => format!("{}", (v * 1000.0).round() / 1000.0),
    }
}

/// Breaks a paragraph into lines of the documents' width.
pub fn wrapped(paragraph: &str) -> String {
    let mut lines = vec![String::new()];
    for word in paragraph.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= LINE_LEN_MAX => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Replaces the text between the markers of a block: `<!-- versus: name -->` and the next `<!-- /versus -->`.
///
/// # Errors
/// An error when the file or the markers are missing.
pub fn replace_block(path: &Path, name: &str, block: &str) -> Result<()> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (begin, end) = (format!("<!-- versus: {name} -->\n"), "<!-- /versus -->");
    let missing = || format!("{} has no block {} ... {end}", path.display(), begin.trim_end());
    let (head, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let at = rest.find(end).ok_or_else(missing)?;
    Ok(fs::write(path, [head, &begin, block.trim_end(), "\n", &rest[at..]].concat())?)
}
