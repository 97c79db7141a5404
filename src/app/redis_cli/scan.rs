//! `--scan`: prints the names of all keys.

use crate::app::redis_cli::options::KeySelection;
use crate::app::redis_cli::output::{pause, print, unwritten};
use crate::app::redis_cli::session::CliSession;
use crate::app::redis_cli::show::ReplyForm;
use crate::resp::Frame;
use crate::text::quote;

/// Prints the names, one in a line.
///
/// # Errors
/// If the connection or standard output fails, or the server refuses SCAN.
pub(super) fn run(session: &mut CliSession) -> Result<bool, String> {
    let (selection, interval) = (session.options.selection.clone(), session.options.interval);
    let is_quoted = session.options.format.form == ReplyForm::Typed;
    let mut cursor = b"0".to_vec();
    loop {
        let names;
        (cursor, names) = next(session, &cursor, &selection)?;
        let lines: Vec<u8> = names.iter().flat_map(|name| line(name, is_quoted)).collect();
        print(&lines).map_err(|cause| unwritten(&cause))?;
        pause(interval);
        if cursor == b"0" {
            return Ok(true);
        }
    }
}

fn line(name: &[u8], is_quoted: bool) -> Vec<u8> {
    let shown = if is_quoted { quote(name).into_bytes() } else { name.to_vec() };
    [&shown[..], b"\n"].concat()
}

/// Calls SCAN; returns the next cursor and the names.
///
/// # Errors
/// If the connection fails, or the server refuses.
pub(super) fn next(
    session: &mut CliSession,
    cursor: &[u8],
    selection: &KeySelection,
) -> Result<(Vec<u8>, Vec<Vec<u8>>), String> {
    let mut words = vec![b"SCAN".to_vec(), cursor.to_vec()];
    let count = selection.count.map(|count| count.to_string().into_bytes());
    let options = [(&b"MATCH"[..], &selection.pattern), (b"COUNT", &count), (b"TYPE", &selection.kind)];
    for (name, value) in options {
        words.extend(value.iter().flat_map(|value| [name.to_vec(), value.clone()]));
    }
    match session.ask(&words)? {
        Frame::Error(text) => Err(format!("ERROR: {}", String::from_utf8_lossy(&text))),
        Frame::Array(parts) => match &parts[..] {
            [cursor, Frame::Array(names)] => {
                let names = names.iter().filter_map(Frame::as_bytes).map(<[u8]>::to_vec).collect();
                Ok((cursor.as_bytes().unwrap_or_default().to_vec(), names))
            }
            _ => Err("Invalid response from SCAN".into()),
        },
        _ => Err("Non ARRAY response from SCAN!".into()),
    }
}
