//! Errors that native functions raise in a script: tables with the field `err`, as in Redis.

use keylatch_lua::{Kind, Raised};

use crate::script::shared::{VmStack, stored};
use crate::text::{Dialect, until_nul};

/// Creates an error table from an error line, or from a message without code.
pub(super) fn reply(frame: &mut VmStack<'_>, line: impl AsRef<[u8]>) -> Raised {
    push_error(frame, line.as_ref());
    frame.raise()
}

/// Creates an error table of an error that is already counted.
pub(super) fn counted(frame: &mut VmStack<'_>, line: &[u8]) -> Raised {
    push_counted_error(frame, line);
    frame.raise()
}

/// Pushes the table of an error from its line, which may lack the code.
pub(super) fn push_error(frame: &mut VmStack<'_>, line: &[u8]) {
    frame.push_table(0, 1);
    let table = frame.top();
    frame.push_stored(stored::ERR);
    frame.push_bytes(&error_line(line));
    frame.set(table);
}

/// Pushes the table of an error that is already counted.
pub(super) fn push_counted_error(frame: &mut VmStack<'_>, line: &[u8]) {
    push_error(frame, line);
    let table = frame.top();
    frame.push_stored(stored::COUNTED);
    frame.push_boolean(true);
    frame.set(table);
}

/// Formats an error as scripts see it: with a code, and without line ends around the message.
///
/// A leading `-` marks the first word as the code. As in C, the line ends at its first NUL.
fn error_line(line: &[u8]) -> Vec<u8> {
    let line = until_nul(line);
    let (code, message) = match line.strip_prefix(b"-") {
        None => (&b"ERR"[..], line),
        Some(line) => match line.iter().position(|byte| *byte == b' ') {
            Some(blank) => (&line[..blank], &line[blank + 1..]),
            None => (&b"ERR"[..], line),
        },
    };
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message.iter().position(|byte| !is_line_end(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !is_line_end(byte)).map_or(start, |last| last + 1);
    [code, b" ", &message[start..end]].concat()
}

/// Handles an error in a script: makes a table of the error, and adds the position in the script where it was raised.
pub(super) fn on_error(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    frame.set_top(1);
    if frame.kind(1) != Kind::Table {
        frame.push_stored(stored::TO_STRING);
        frame.push_copy(1);
        frame.call(1, 0)?;
        let text = frame.bytes(2).unwrap_or_default();
        let line = [b"ERR ", text].concat();
        frame.push_table(0, 3);
        frame.push_stored(stored::ERR);
        frame.push_bytes(&line);
        frame.set(3);
    }
    let table = frame.top();
    // A native function has no lines; its caller has.
    let culprit = frame.level(1).map(|level| if level.is_native { frame.level(2) } else { Some(level) });
    if let Some(Some(culprit)) = culprit {
        frame.push_bytes(culprit.source.as_bytes());
        frame.set_field(table, "source");
        frame.push_number(f64::from(culprit.line));
        frame.set_field(table, "line");
    }
    Ok(1)
}

/// Creates an error table whose message names a function of the table `redis`, or `server` in Valkey's dialect.
pub(super) fn reply_on_api(frame: &mut VmStack<'_>, message: &str) -> Raised {
    match frame.data().control.dialect() {
        Dialect::Redis => reply(frame, message),
        Dialect::Valkey => reply(frame, message.replace("redis.", "server.")),
    }
}
