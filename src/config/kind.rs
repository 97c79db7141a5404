//! The types a setting can have: what words each accepts, and the text `CONFIG GET` prints for them.
//!
//! A kind turns words into canonical text and knows no field; the typed fields of `Config` read that text.
//! Invariant: canonical text is accepted again and stays the same. The error texts are those of Redis 7.0.

use std::path::Path;

use super::text::{parse_integer, parse_memory};

/// Redis refuses more addresses than this in one `bind`.
const BIND_ADDRESSES_MAX: usize = 16;

/// Names the client classes of `client-output-buffer-limit` in their fixed order, with the other accepted spelling.
const CLIENT_CLASSES: [(&str, &str); 3] = [("normal", "normal"), ("slave", "replica"), ("pubsub", "pubsub")];

/// Says where the words of a setting came from: some settings add up over the lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A config file, standard input or the command line.
    File,
    /// `CONFIG SET`.
    Runtime,
}

/// Names the type of a setting.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Switch,
    /// An integer between two bounds, both included.
    Int(i64, i64),
    /// An integer of 0 or more that is moved into the two bounds instead of being refused.
    Clamped(i64, i64),
    /// An amount of memory in bytes between two bounds, both included.
    Memory(u64, u64),
    /// The permission bits of a file, in octal, up to the given bound.
    Octal(u32),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// The path of a file, which need not exist.
    Path,
    /// The name of a file without a directory.
    FileName,
    /// An existing directory; printed as an absolute path.
    Directory,
    /// Addresses to listen on.
    Addresses,
    /// Pairs of seconds and changes; the lines of a file add up, an empty value clears them.
    SavePoints,
    /// Limits for each class of clients; classes that are not named keep theirs.
    OutputLimits,
}

impl Kind {
    /// Tells whether the value may consist of several words.
    pub fn takes_many_words(self) -> bool {
        matches!(self, Kind::Addresses | Kind::SavePoints | Kind::OutputLimits)
    }

    /// Describes the accepted words in a few characters, for `--help`.
    pub fn describe(self) -> String {
        match self {
            Kind::Switch => "yes|no".into(),
            Kind::Int(..) | Kind::Clamped(..) => "<number>".into(),
            Kind::Memory(..) => "<bytes>".into(),
            Kind::Octal(_) => "<octal>".into(),
            Kind::Choice(words) if words.len() > 4 => "<policy>".into(),
            Kind::Choice(words) => words.join("|"),
            Kind::Text => "<text>".into(),
            Kind::Path | Kind::FileName => "<file>".into(),
            Kind::Directory => "<directory>".into(),
            Kind::Addresses => "<address> ...".into(),
            Kind::SavePoints => "<seconds> <changes> ...".into(),
            Kind::OutputLimits => "<class> <hard> <soft> <seconds> ...".into(),
        }
    }

    /// Checks the words of a new value against the `current` one and returns the canonical text.
    ///
    /// # Errors
    ///
    /// The reason, in the words of Redis.
    pub fn canonical(self, words: &[Vec<u8>], current: &[u8], origin: Origin) -> Result<Vec<u8>, String> {
        match self {
            Kind::Addresses => addresses(words),
            Kind::SavePoints => save_points(words, current, origin),
            Kind::OutputLimits => output_limits(words, current),
            _ => match words {
                [word] => self.canonical_word(word, current),
                _ => Err("wrong number of arguments".into()),
            },
        }
    }

    fn canonical_word(self, word: &[u8], current: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Kind::Switch => choice(word, &["yes", "no"]).ok_or("argument must be 'yes' or 'no'".into()),
            Kind::Int(min, max) => integer(word, min, max).map(text),
            Kind::Clamped(min, max) => integer(word, 0, i64::from(i32::MAX)).map(|n| text(n.clamp(min, max))),
            Kind::Memory(min, max) => memory(word, min, max).map(text),
            Kind::Octal(max) => octal(word, max),
            Kind::Choice(words) => choice(word, words)
                .ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", "))),
            Kind::FileName if word.contains(&b'/') => Err("dbfilename can't be a path, just a filename".into()),
            Kind::Directory => directory(word, current),
            _ => Ok(word.to_vec()),
        }
    }
}

fn text(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn choice(word: &[u8], words: &[&str]) -> Option<Vec<u8>> {
    let found = words.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(word))?;
    Some(found.as_bytes().to_vec())
}

fn integer(word: &[u8], min: i64, max: i64) -> Result<i64, String> {
    let number = parse_integer(word).ok_or("argument couldn't be parsed into an integer")?;
    in_bounds(number, min, max)
}

fn memory(word: &[u8], min: u64, max: u64) -> Result<u64, String> {
    let number = parse_memory(word).ok_or("argument must be a memory value")?;
    in_bounds(number, min, max)
}

fn in_bounds<N: PartialOrd + std::fmt::Display>(number: N, min: N, max: N) -> Result<N, String> {
    if number < min || number > max {
        return Err(format!("argument must be between {min} and {max} inclusive"));
    }
    Ok(number)
}

/// Empty text counts as 0, as it does for C's `strtol`.
fn octal(word: &[u8], max: u32) -> Result<Vec<u8>, String> {
    let unreadable = "argument couldn't be parsed as an octal number";
    if !word.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
        return Err(unreadable.into());
    }
    let digits = std::str::from_utf8(word).map_err(|_| unreadable)?;
    let mode = if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 8).map_err(|_| unreadable)? };
    if mode > max {
        return Err(format!("argument must be between 0 and {max:o} inclusive"));
    }
    Ok(format!("{mode:o}").into_bytes())
}

/// A relative directory is relative to the one set before it, because Redis changes into each at once.
fn directory(word: &[u8], current: &[u8]) -> Result<Vec<u8>, String> {
    if word.is_empty() {
        return Err("No such file or directory".into());
    }
    let path = Path::new(bytes_to_os(current)).join(bytes_to_os(word));
    let found = path.canonicalize().map_err(|cause| system_text(&cause))?;
    if !found.is_dir() {
        return Err("Not a directory".into());
    }
    Ok(os_to_bytes(found.as_os_str()).to_vec())
}

/// Gives the operating system's text without the number that Rust adds.
pub(super) fn system_text(cause: &std::io::Error) -> String {
    let text = cause.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Views bytes as an operating system string, which on Unix they are.
pub(super) fn bytes_to_os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

/// Views an operating system string as its bytes.
pub(super) fn os_to_bytes(text: &std::ffi::OsStr) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(text)
}

/// `bind ""` means no address at all.
fn is_blank(words: &[Vec<u8>]) -> bool {
    words.iter().all(Vec::is_empty) && words.len() <= 1
}

fn addresses(words: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if is_blank(words) {
        return Ok(Vec::new());
    }
    if words.len() > BIND_ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".into());
    }
    // `CONFIG SET` splits at single blanks; an empty piece is an address that cannot be bound.
    if words.iter().any(Vec::is_empty) {
        return Err("Failed to bind to specified addresses.".into());
    }
    Ok(words.join(&b' '))
}

fn save_points(words: &[Vec<u8>], current: &[u8], origin: Origin) -> Result<Vec<u8>, String> {
    if is_blank(words) {
        return Ok(Vec::new());
    }
    let point_is_valid = |point: &[Vec<u8>]| match point {
        [seconds, changes] => {
            parse_integer(seconds).is_some_and(|seconds| seconds >= 1)
                && parse_integer(changes).is_some_and(|changes| changes >= 0)
        }
        _ => false,
    };
    if !words.chunks(2).all(point_is_valid) {
        return Err("Invalid save parameters".into());
    }
    let added = words.join(&b' ');
    match origin {
        Origin::File if !current.is_empty() => Ok([current, &added].join(&b' ')),
        _ => Ok(added),
    }
}

fn output_limits(words: &[Vec<u8>], current: &[u8]) -> Result<Vec<u8>, String> {
    let mut limits: Vec<Vec<u8>> = current.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
    if is_blank(words) {
        return Ok(current.to_vec());
    }
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    for group in words.chunks_exact(4) {
        let is_named = |(name, other): &(&str, &str)| {
            group[0].eq_ignore_ascii_case(name.as_bytes()) || group[0].eq_ignore_ascii_case(other.as_bytes())
        };
        let class = CLIENT_CLASSES
            .iter()
            .position(is_named)
            .ok_or("Invalid client class specified in buffer limit configuration.")?;
        let numbers =
            limit_numbers(group).ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
        limits[class * 4 + 1..class * 4 + 4].clone_from_slice(&numbers.map(text));
    }
    Ok(limits.join(&b' '))
}

/// Reads hard limit, soft limit and seconds of one class.
fn limit_numbers(group: &[Vec<u8>]) -> Option<[u64; 3]> {
    let seconds = u64::try_from(parse_integer(&group[3])?).ok()?;
    // `Config` keeps the seconds in 32 bits: 136 years.
    Some([parse_memory(&group[1])?, parse_memory(&group[2])?, seconds.min(u64::from(u32::MAX))])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "normal 0 0 0 slave 8 4 60 pubsub 2 1 60";

    fn check(kind: Kind, value: &str, current: &str, origin: Origin) -> Result<String, String> {
        let words: Vec<Vec<u8>> = value.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        kind.canonical(&words, current.as_bytes(), origin)
            .map(|text| String::from_utf8(text).expect("the tests use ASCII"))
    }

    #[test]
    fn single_words_are_checked_with_the_texts_of_redis() {
        let integer = "argument couldn't be parsed into an integer";
        let cases: &[(Kind, &str, Result<&str, &str>)] = &[
            (Kind::Switch, "YES", Ok("yes")),
            (Kind::Switch, "on", Err("argument must be 'yes' or 'no'")),
            (Kind::Int(0, 65535), "6379", Ok("6379")),
            (Kind::Int(0, 65535), "70000", Err("argument must be between 0 and 65535 inclusive")),
            (Kind::Int(0, 65535), "x", Err(integer)),
            (Kind::Int(0, 65535), "1 2", Err("wrong number of arguments")),
            (Kind::Clamped(1, 500), "0", Ok("1")),
            (Kind::Clamped(1, 500), "1000", Ok("500")),
            (Kind::Clamped(1, 500), "-1", Err("argument must be between 0 and 2147483647 inclusive")),
            (Kind::Memory(0, u64::MAX), "1KB", Ok("1024")),
            (Kind::Memory(0, u64::MAX), "-1", Err("argument must be a memory value")),
            (Kind::Memory(5, 9), "1", Err("argument must be between 5 and 9 inclusive")),
            (Kind::Octal(0o777), "0700", Ok("700")),
            (Kind::Octal(0o777), "", Ok("0")),
            (Kind::Octal(0o777), "8", Err("argument couldn't be parsed as an octal number")),
            (Kind::Octal(0o777), "+7", Err("argument couldn't be parsed as an octal number")),
            (Kind::Octal(0o777), "1777", Err("argument must be between 0 and 777 inclusive")),
            (Kind::Choice(&["a", "b"]), "B", Ok("b")),
            (Kind::Choice(&["a", "b"]), "c", Err("argument(s) must be one of the following: a, b")),
            (Kind::Text, "", Ok("")),
            (Kind::FileName, "dump.rdb", Ok("dump.rdb")),
            (Kind::FileName, "a/b", Err("dbfilename can't be a path, just a filename")),
            (Kind::Directory, "/", Ok("/")),
            (Kind::Directory, "/nope", Err("No such file or directory")),
            (Kind::Directory, "", Err("No such file or directory")),
            (Kind::Directory, "/dev/null", Err("Not a directory")),
        ];
        for (kind, value, expected) in cases {
            let result = check(*kind, value, "", Origin::File);
            assert_eq!(result.as_deref().map_err(String::as_str), *expected, "{kind:?} {value:?}");
        }
    }

    #[test]
    fn lists_add_up_in_a_file_and_replace_at_run_time() {
        use Origin::{File, Runtime};
        let (kind, bad) = (Kind::SavePoints, Err("Invalid save parameters".to_owned()));
        assert_eq!(check(kind, "10 10", "5 5", File), Ok("5 5 10 10".into()));
        assert_eq!(check(kind, "10 10 20 0", "5 5", Runtime), Ok("10 10 20 0".into()));
        assert_eq!(check(kind, "", "5 5", File), Ok(String::new()));
        for value in ["1", "0 1", "1 -1", "10 10 ", " 10 10", "a b", "1 1 1"] {
            assert_eq!(check(kind, value, "", File), bad, "{value:?}");
        }
        assert_eq!(check(Kind::Addresses, "* ::1", "127.0.0.1", File), Ok("* ::1".into()));
        assert_eq!(check(Kind::Addresses, "", "127.0.0.1", File), Ok(String::new()));
        assert!(check(Kind::Addresses, &"a ".repeat(17), "", File).is_err_and(|e| e.starts_with("Too many")));
        assert!(check(Kind::Addresses, "a  b", "", Runtime).is_err_and(|e| e.starts_with("Failed to bind")));
    }

    #[test]
    fn output_limits_keep_the_classes_that_are_not_named() {
        let cases: &[(&str, Result<&str, &str>)] = &[
            ("NORMAL 1kb 1k 3", Ok("normal 1024 1000 3 slave 8 4 60 pubsub 2 1 60")),
            ("replica 1 2 3 pubsub 0 0 0", Ok("normal 0 0 0 slave 1 2 3 pubsub 0 0 0")),
            ("", Ok(LIMITS)),
            ("normal 1", Err("Wrong number of arguments in buffer limit configuration.")),
            ("foo 1 1 1", Err("Invalid client class specified in buffer limit configuration.")),
            ("normal 1 1 -1", Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.")),
            ("normal 1q 1 1", Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.")),
        ];
        for (value, expected) in cases {
            let result = check(Kind::OutputLimits, value, LIMITS, Origin::File);
            assert_eq!(result.as_deref().map_err(String::as_str), *expected, "{value:?}");
        }
    }
}
