//! `keylatch lock --list`: the locks, as a table for people or as JSON for programs.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::app::json::json;
use crate::app::lock::failure::LockFailure;
use crate::app::lock::info::{self, Info};
use crate::app::lock::options::ServerOptions;
use crate::app::lock::primary;
use crate::app::lock::shown::{shown, time};
use crate::text::system_text;

/// Titles of the columns.
const HEADS: [&str; 6] = ["NAME", "HOLDER", "AGE", "TTL", "WAITING", "FENCE"];

/// Lists the locks that match a pattern.
///
/// # Errors
/// If the server does not tell, or standard output cannot be written.
pub(super) async fn list(
    server: &ServerOptions,
    pattern: Option<&[u8]>,
    is_json: bool,
) -> Result<ExitCode, LockFailure> {
    let failed = |error| LockFailure::of(error, pattern.unwrap_or_default());
    let mut connection = primary::connect(server).await.map_err(failed)?;
    let locks = info::list(&mut connection, pattern).await.map_err(failed)?;
    let lines = if is_json { locks.iter().map(|(name, info)| object(name, info)).collect() } else { table(&locks) };
    print_lines(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints lines on standard output; returns false if nobody reads them any more.
///
/// # Errors
/// If they cannot be written.
pub(super) fn print_lines(lines: &[String]) -> Result<bool, LockFailure> {
    let mut out = io::stdout().lock();
    let written = lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush());
    match written {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(cause) => Err(LockFailure::of_system(format!("Writing to standard output: {}", system_text(&cause)))),
        Ok(()) => Ok(true),
    }
}

/// Returns the rows of a table, the first with the titles of the columns.
pub(super) fn table(locks: &[(Vec<u8>, Info)]) -> Vec<String> {
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(locks.iter().map(|(name, info)| {
        [
            shown(name),
            info.holder(),
            info.age_ms.map_or_else(unknown, time),
            if info.ttl_ms < 0 { unknown() } else { time(info.ttl_ms) },
            info.waiters.len().to_string(),
            info.fence.map_or_else(unknown, |fence| fence.to_string()),
        ]
    }));
    let mut widths = [0; HEADS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let padded = |row: &[String; HEADS.len()]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(padded).collect()
}

/// Returns a lock as an object of JSON.
fn object(name: &[u8], info: &Info) -> String {
    let number = |value: Option<i64>| value.map_or_else(|| "null".to_owned(), |value| value.to_string());
    let text = |value: &[u8]| if value.is_empty() { "null".to_owned() } else { json(value) };
    let holder = &info.holder;
    format!(
        r#"{{"name":{},"client-name":{},"meta":{},"addr":{},"user":{},"age-ms":{},"ttl-ms":{},"waiting":{},"fence":{}}}"#,
        json(name),
        text(&holder.name),
        text(&holder.meta),
        text(&holder.addr),
        text(&holder.user),
        number(info.age_ms),
        number(Some(info.ttl_ms).filter(|ttl_ms| *ttl_ms >= 0)),
        info.waiters.len(),
        number(info.fence),
    )
}

fn unknown() -> String {
    "-".into()
}
