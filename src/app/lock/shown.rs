//! Text that others have chosen, such as names of locks, made safe for a terminal or a program.

use std::fmt::Write;

/// Returns text that cannot steer a terminal: characters that are not printable, bytes that are no text, and marks that
/// change the direction of writing are escaped.
pub(super) fn shown(text: &[u8]) -> String {
    let mut safe = String::new();
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\'' => safe.push(c),
                _ => safe.extend(c.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(safe, "\\x{byte:02x}"); // a string takes everything
        }
    }
    safe
}

/// Returns a time in its two largest units, such as `3m12s`; tenths of a second where it is short.
pub(super) fn time(ms: i64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match ms {
        ..10_000 => format!("{}.{}s", seconds, ms.max(0) % 1000 / 100),
        10_000..60_000 => format!("{seconds}s"),
        60_000..3_600_000 => format!("{minutes}m{:02}s", seconds % 60),
        3_600_000..86_400_000 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// Cuts a line to the width of a terminal. Each character that is not ASCII may be two columns wide.
pub(super) fn cut(line: &str, columns: usize) -> String {
    let width = |c: char| if c.is_ascii() { 1 } else { 2 };
    if line.chars().map(width).sum::<usize>() <= columns {
        return line.to_owned();
    }
    let mut left = columns.saturating_sub(3);
    let fits = |c: &char| {
        let enough = width(*c) <= left;
        left = left.saturating_sub(width(*c));
        enough
    };
    let mut cut: String = line.chars().take_while(fits).collect();
    cut.push_str("...");
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_shown_as_it_is() {
        for (text, expected) in [
            (&b"plain text, \"it's\""[..], "plain text, \"it's\""),
            ("gr\u{fc}n \u{9501}".as_bytes(), "gr\u{fc}n \u{9501}"),
            (b"a\x1b[2Jb\r\n\x07\x7f", r"a\u{1b}[2Jb\r\n\u{7}\u{7f}"),
            (b"\xff\x9b1m", r"\xff\x9b1m"),
            ("\u{9b}\u{202e}x\u{200b}".as_bytes(), r"\u{9b}\u{202e}x\u{200b}"),
            (br"back\slash", r"back\\slash"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn times_and_lines_are_short() {
        for (ms, expected) in [
            (-1, "0.0s"),
            (0, "0.0s"),
            (1234, "1.2s"),
            (59_999, "59s"),
            (192_000, "3m12s"),
            (3_600_000, "1h00m"),
            (90_000_000, "1d01h"),
        ] {
            assert_eq!(time(ms), expected);
        }
        assert_eq!((cut("12345", 5).as_str(), cut("123456", 5).as_str()), ("12345", "12..."));
        assert_eq!(cut("\u{9501}\u{9501}\u{9501}", 5), "\u{9501}...");
    }
}
