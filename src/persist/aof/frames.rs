//! Bounds of commands in a file without headers.

/// Largest length of a line with a number.
const LINE_MAX: usize = 32;

/// The frame at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogFrame {
    /// A whole command, with its length.
    Whole(usize),
    /// A part of a command, with the least number of bytes that it needs.
    Partial(usize),
    /// Bytes that begin no command, with the reason.
    Bad(&'static str),
}

/// Measures the command at the start of some bytes: an array of bulk strings.
pub(super) fn command(bytes: &[u8]) -> LogFrame {
    scan(bytes).unwrap_or_else(|frame| frame)
}

/// Implements [`command`]; returns anything but a whole command as an error.
fn scan(bytes: &[u8]) -> Result<LogFrame, LogFrame> {
    let (count, mut at) = number(bytes, 0, b'*')?;
    if count == 0 {
        return Err(LogFrame::Bad("a command has no arguments"));
    }
    for _ in 0..count {
        let (len, begin) = number(bytes, at, b'$')?;
        // Lengths are below 2^63.
        let end = usize::try_from(len).ok().and_then(|len| begin.checked_add(len)?.checked_add(2));
        let end = end.ok_or(LogFrame::Bad("an argument is too long"))?;
        let Some(line_end) = bytes.get(end - 2..end) else { return Err(LogFrame::Partial(end)) };
        if line_end != b"\r\n" {
            return Err(LogFrame::Bad("an argument is longer than its length says"));
        }
        at = end;
    }
    Ok(LogFrame::Whole(at))
}

/// Reads a line with a number, which begins with `kind`; returns the number, and the start of the next line.
fn number(bytes: &[u8], at: usize, kind: u8) -> Result<(u64, usize), LogFrame> {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first() {
        None => return Err(LogFrame::Partial(at + b"*1\r\n".len())),
        Some(first) if *first != kind => return Err(LogFrame::Bad("a length is missing")),
        Some(_) => {}
    }
    let line = &rest[..rest.len().min(LINE_MAX)];
    let Some(len) = line.iter().position(|byte| *byte == b'\n') else {
        let is_digits = line[1..].iter().all(|byte| byte.is_ascii_digit() || *byte == b'\r');
        let is_partial = is_digits && line.len() < LINE_MAX;
        return Err(if is_partial {
            LogFrame::Partial(bytes.len() + 1)
        } else {
            LogFrame::Bad("a length is no number")
        });
    };
    let digits = line[1..len].strip_suffix(b"\r").and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.filter(|digits| !digits.starts_with('+')).and_then(|digits| digits.parse().ok());
    Ok((number.ok_or(LogFrame::Bad("a length is no number"))?, at + len + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n*\r\n$\r\n";

    #[test]
    fn a_whole_command_is_measured_and_each_part_of_it_is_incomplete() {
        assert_eq!(command(&[SET, b"*1\r\n"].concat()), LogFrame::Whole(SET.len()));
        for len in 1..SET.len() {
            match command(&SET[..len]) {
                LogFrame::Partial(needed) => assert!(needed > len && needed <= SET.len(), "{len}: {needed}"),
                other => panic!("{len}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_command_is_refused_without_a_panic() {
        for bad in [
            "$3\r\nSET\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*x\r\n",
            "*1\n$1\r\nk\r\n",
            "*+1\r\n",
            "*1\r\n:3\r\n",
            "*1\r\n$1\r\nkk\r\n",
            "*1\r\n$-1\r\n",
            "*1\r\n$18446744073709551615\r\n",
            "*99999999999999999999\r\n",
            "*1000000000000000000000000000000000000000000000000",
            "PING\r\n",
        ] {
            assert!(matches!(command(bad.as_bytes()), LogFrame::Bad(_)), "{bad:?}: {:?}", command(bad.as_bytes()));
        }
        let len = 18_446_744_073_709_551_000_u64;
        assert!(matches!(command(format!("*1\r\n${len}\r\nx").as_bytes()), LogFrame::Partial(_)));
    }
}
