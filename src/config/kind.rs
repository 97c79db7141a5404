//! The types of settings: the arguments that each accepts, and the canonical text that `CONFIG GET` prints.
//!
//! A kind validates arguments and turns them into canonical text; the typed fields of `Config` parse that text.
//! Invariant: canonical text is accepted again and stays the same. The error texts are those of Redis 7.0.

use std::ops::RangeInclusive;
use std::path::Path;

use crate::config::lists;
use crate::config::words::{SettingOrigin, choice, not_among, text};
use crate::store::Classes;
use crate::text::double::parse_double;
use crate::text::{parse_c_integer, parse_integer, parse_memory, system_text, until_nul};

// The bounds of C's `int` and `long`, which many settings have.
pub(super) const INT_MAX: i64 = i32::MAX as i64;
pub(super) const INT_MIN: i64 = i32::MIN as i64;
pub(super) const LONG_MAX: u64 = i64::MAX as u64;

/// Length that a host name must not reach, in bytes.
const HOST_LEN_MAX: usize = 256;

/// Error rates above this are lowered to it.
const ERROR_RATE_MAX: f64 = 0.25;

/// The type of a setting.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Switch,
    /// An integer between two bounds, both included.
    Int(i64, i64),
    /// An integer between two bounds, both included, in the words of a module of Redis 8: the setting's name and the bounds.
    OfModule(&'static str, i64, i64),
    /// The error rate of a module of Redis 8, above 0 and below 1, with the setting's name; lowered to 0.25.
    ErrorRate(&'static str),
    /// An integer of 0 or more that is clamped to the two bounds instead of rejected.
    Clamped(i64, i64),
    /// An amount of memory in bytes between two bounds, both included.
    Memory(u64, u64),
    /// An amount of memory in bytes, at least 1, that is raised to this minimum at run time.
    Raised(u64),
    /// An amount of memory in bytes, or a percentage of `maxmemory` up to this one.
    MemoryOrPercent(u64),
    /// The permission bits of a file, in octal, up to the given bound.
    Octal(u32),
    /// One of these values.
    Choice(&'static [&'static str]),
    /// One of these values, where the first of the pair is an alias of the second.
    ChoiceOr(&'static [&'static str], &'static (&'static str, &'static str)),
    /// `yes` or `no`, where `yes` is rejected at run time for this reason.
    SwitchedOff(&'static str),
    /// Any bytes.
    Bytes,
    /// Any text; as in C, it ends at its first zero byte.
    Text,
    /// The path of a file, which need not exist.
    Path,
    /// The name of a file or directory without a path: the setting's name in errors, the term for the value there, and
    /// true if it may be empty.
    FileName(&'static str, &'static str, bool),
    /// The name of a host, or nothing.
    HostName,
    /// The first and last of some ports, joined by a hyphen, or nothing.
    PortRange,
    /// A title with variables in braces.
    Title,
    /// Classes of keyspace events, a letter each.
    Events,
    /// An existing directory; printed as an absolute path.
    Directory,
    /// Addresses to listen on.
    Addresses,
    /// Pairs of seconds and changes; the lines of a file accumulate, an empty value clears them.
    SavePoints,
    /// Limits of client classes; classes that are not named keep their limits.
    OutputLimits,
    /// Options of a shutdown on a signal: `default`, or some of `save`, `nosave`, `now` and `force`.
    ShutdownOptions,
    /// Three numbers between -2000 and 2000.
    OomScores,
    /// Percentages.
    Percentiles,
    /// A host and a port, or `no one`.
    Primary,
}

impl Kind {
    /// Returns true if the value may consist of several arguments.
    pub fn takes_many_words(self) -> bool {
        use Kind::{Addresses, OomScores, OutputLimits, Percentiles, Primary, SavePoints, ShutdownOptions};
        matches!(self, Addresses | SavePoints | OutputLimits | ShutdownOptions | OomScores | Percentiles | Primary)
    }

    /// Describes the accepted values in a few characters, for `--help`.
    pub fn describe(self) -> String {
        match self {
            Kind::Switch | Kind::SwitchedOff(_) => "yes|no".into(),
            Kind::Int(..) | Kind::Clamped(..) | Kind::OfModule(..) | Kind::ErrorRate(_) => "<number>".into(),
            Kind::Memory(..) | Kind::Raised(_) => "<bytes>".into(),
            Kind::MemoryOrPercent(_) => "<bytes>|<n>%".into(),
            Kind::Octal(_) => "<octal>".into(),
            Kind::Choice(words) | Kind::ChoiceOr(words, _) if words.len() > 4 => "<word>".into(),
            Kind::Choice(words) | Kind::ChoiceOr(words, _) => words.join("|"),
            Kind::Text | Kind::Bytes | Kind::Title => "<text>".into(),
            Kind::Path | Kind::FileName(..) => "<file>".into(),
            Kind::HostName => "<host>".into(),
            Kind::PortRange => "<first>-<last>".into(),
            Kind::Events => "<letters>".into(),
            Kind::Directory => "<directory>".into(),
            Kind::Addresses => "<address> ...".into(),
            Kind::SavePoints => "<seconds> <changes> ...".into(),
            Kind::OutputLimits => "<class> <hard> <soft> <seconds> ...".into(),
            Kind::ShutdownOptions => "default|<option> ...".into(),
            Kind::OomScores => "<number> <number> <number>".into(),
            Kind::Percentiles => "<percent> ...".into(),
            Kind::Primary => "<host> <port>".into(),
        }
    }

    /// Validates the arguments of a new value against the `current` one and returns the canonical text.
    ///
    /// # Errors
    ///
    /// The reason, in Redis' words.
    pub fn canonical(self, words: &[Vec<u8>], current: &[u8], origin: SettingOrigin) -> Result<Vec<u8>, String> {
        match self {
            Kind::Addresses => lists::addresses(words),
            Kind::SavePoints => lists::save_points(words, current, origin),
            Kind::OutputLimits => lists::output_limits(words, current),
            Kind::ShutdownOptions => lists::shutdown_options(words),
            Kind::OomScores => lists::oom_scores(words),
            Kind::Percentiles => lists::percentiles(words),
            Kind::Primary => lists::primary(words),
            _ => match words {
                [word] => self.canonical_word(word, current, origin),
                _ => Err("wrong number of arguments".into()),
            },
        }
    }

    fn canonical_word(self, word: &[u8], current: &[u8], origin: SettingOrigin) -> Result<Vec<u8>, String> {
        match self {
            Kind::Switch => switch(word),
            // A file written for a server with this feature must not prevent the start.
            Kind::SwitchedOff(reason) => match switch(word)? {
                on if on == b"yes" && origin == SettingOrigin::Runtime => Err(reason.into()),
                value => Ok(value),
            },
            Kind::Int(min, max) => integer(word, min, max).map(text),
            Kind::OfModule(name, min, max) => match parse_integer(word) {
                Some(number) if (min..=max).contains(&number) => Ok(text(number)),
                Some(_) => Err(format!("Value for `{name}` must be in the range [{min}, {max}]")),
                None => Err(format!("Invalid value for `{name}`")),
            },
            Kind::ErrorRate(name) => match parse_double(word) {
                Some(rate) if rate > 0.0 && rate < 1.0 => Ok(text(rate.min(ERROR_RATE_MAX))),
                Some(_) => Err(format!("Value for `{name}` must be in the range (0.000000, 1.000000)")),
                None => Err(format!("Invalid value for `{name}`")),
            },
            Kind::Clamped(min, max) => integer(word, 0, i64::from(i32::MAX)).map(|n| text(n.clamp(min, max))),
            Kind::Memory(min, max) => memory(word, min, max).map(text),
            Kind::Raised(least) => memory(word, 1, LONG_MAX).map(|bytes| match origin {
                SettingOrigin::File => text(bytes),
                SettingOrigin::Runtime => text(bytes.max(least)),
            }),
            Kind::MemoryOrPercent(max) => memory_or_percent(word, max),
            Kind::Octal(max) => octal(word, max),
            Kind::Choice(words) => choice(word, words).ok_or_else(|| not_among(words)),
            Kind::ChoiceOr(words, (other, same)) => match choice(word, words).ok_or_else(|| not_among(words))? {
                found if found == other.as_bytes() => Ok((*same).into()),
                found => Ok(found),
            },
            Kind::FileName(name, what, may_be_empty) => file_name(until_nul(word), name, what, may_be_empty),
            Kind::HostName => host_name(until_nul(word)),
            Kind::PortRange => port_range(word),
            Kind::Title => title(until_nul(word)),
            Kind::Events => events(until_nul(word)),
            Kind::Directory => directory(until_nul(word), current),
            Kind::Text | Kind::Path => Ok(until_nul(word).to_vec()),
            _ => Ok(word.to_vec()),
        }
    }
}

fn switch(word: &[u8]) -> Result<Vec<u8>, String> {
    choice(word, &["yes", "no"]).ok_or("argument must be 'yes' or 'no'".into())
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

/// Validates an amount or a percentage, which is a negative number, as in Redis: so the largest amounts read as
/// percentages.
fn memory_or_percent(word: &[u8], most_percent: u64) -> Result<Vec<u8>, String> {
    let percent = || word.strip_suffix(b"%").and_then(parse_integer).filter(|share| *share >= 0);
    let number = match parse_memory(word) {
        Some(bytes) => bytes.cast_signed(),
        None => -percent().ok_or("argument must be a memory or percent value")?,
    };
    match number.unsigned_abs() {
        share if number < 0 && share > most_percent => {
            Err(format!("percentage argument must be less or equal to {most_percent}"))
        }
        share if number < 0 => Ok(format!("{share}%").into_bytes()),
        bytes => Ok(text(bytes)),
    }
}

/// Validates permission bits in octal. Empty text counts as 0, as it does for C's `strtol`.
fn octal(word: &[u8], max: u32) -> Result<Vec<u8>, String> {
    let mode = parse_c_integer(word, 8).ok_or("argument couldn't be parsed as an octal number")?;
    if !(0..=i64::from(max)).contains(&mode) {
        return Err(format!("argument must be between 0 and {max:o} inclusive"));
    }
    Ok(format!("{mode:o}").into_bytes())
}

fn file_name(word: &[u8], name: &str, what: &str, may_be_empty: bool) -> Result<Vec<u8>, String> {
    if word.is_empty() && !may_be_empty {
        return Err(format!("{name} can't be empty"));
    }
    if word.contains(&b'/') {
        return Err(format!("{name} can't be a path, just a {what}"));
    }
    Ok(word.to_vec())
}

fn port_range(word: &[u8]) -> Result<Vec<u8>, String> {
    let is_valid = word.is_empty() || parse_port_range(word).is_some();
    if is_valid { Ok(word.to_vec()) } else { Err("argument must be the first and the last port, joined by '-'".into()) }
}

/// Returns the ports from `FIRST-LAST`.
pub(super) fn parse_port_range(word: &[u8]) -> Option<RangeInclusive<u16>> {
    let (first, last) = std::str::from_utf8(word).ok()?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first > 0 && first <= last).then_some(first..=last)
}

fn host_name(word: &[u8]) -> Result<Vec<u8>, String> {
    if word.len() >= HOST_LEN_MAX {
        return Err(format!("Hostnames must be less than {HOST_LEN_MAX} characters"));
    }
    if !word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(byte)) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots".into());
    }
    Ok(word.to_vec())
}

/// Validates a title, which must not be empty once its variables are replaced; some variables may be empty.
fn title(word: &[u8]) -> Result<Vec<u8>, String> {
    const EMPTY: [&[u8]; 3] = [b"title", b"server-mode", b"unixsocket"];
    const FILLED: [&[u8]; 4] = [b"listen-addr", b"config-file", b"port", b"tls-port"];
    let invalid = || "template format is invalid or contains unknown variables".to_owned();
    let (mut rest, mut shows_anything) = (word, false);
    while let Some((before, after)) = split_at_brace(rest, b'{') {
        shows_anything |= before.iter().any(|byte| *byte != b' ');
        if let Some(after_second) = after.strip_prefix(b"{") {
            (rest, shows_anything) = (after_second, true);
            continue;
        }
        let (variable, after) = split_at_brace(after, b'}').ok_or_else(invalid)?;
        shows_anything |= FILLED.contains(&variable);
        if !FILLED.contains(&variable) && !EMPTY.contains(&variable) {
            return Err(invalid());
        }
        rest = after;
    }
    shows_anything |= rest.iter().any(|byte| *byte != b' ');
    shows_anything.then(|| word.to_vec()).ok_or_else(invalid)
}

fn split_at_brace(text: &[u8], brace: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == brace)?;
    Some((&text[..at], &text[at + 1..]))
}

fn events(word: &[u8]) -> Result<Vec<u8>, String> {
    let is_known = |letter: &u8| *letter == b'A' || Classes::LETTERS.contains(letter);
    if !word.iter().all(is_known) {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdnoc'.".into());
    }
    // Not yet in the printed form, which may leave a letter out.
    Ok(word.to_vec())
}

/// Resolves a directory. A relative one is relative to the previous one, because Redis changes into each at once.
fn directory(word: &[u8], current: &[u8]) -> Result<Vec<u8>, String> {
    if word.is_empty() {
        return Err("No such file or directory".into());
    }
    let path = Path::new(bytes_to_os(current)).join(bytes_to_os(word));
    let found = path.canonicalize().map_err(|cause| system_text(&cause))?;
    if !found.is_dir() {
        return Err("Not a directory".into());
    }
    // Without permission to enter the directory, its content cannot be checked either.
    found.join(".").metadata().map_err(|cause| system_text(&cause))?;
    Ok(os_to_bytes(found.as_os_str()).to_vec())
}

/// Views bytes as an operating system string; on Unix these are the same.
pub(super) fn bytes_to_os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

/// Views an operating system string as its bytes.
pub(super) fn os_to_bytes(text: &std::ffi::OsStr) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Kind = Kind::FileName("dbfilename", "filename", true);

    fn check(kind: Kind, value: &str, current: &str, origin: SettingOrigin) -> Result<String, String> {
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
            (Kind::Octal(0o777), "+7", Ok("7")),
            (Kind::Octal(0o777), "1777", Err("argument must be between 0 and 777 inclusive")),
            (Kind::Choice(&["a", "b"]), "B", Ok("b")),
            (Kind::Choice(&["a", "b"]), "c", Err("argument(s) must be one of the following: a, b")),
            (Kind::Text, "", Ok("")),
            (FILE, "dump.rdb", Ok("dump.rdb")),
            (FILE, "a/b", Err("dbfilename can't be a path, just a filename")),
            (Kind::Directory, "/", Ok("/")),
            (Kind::Directory, "/nope", Err("No such file or directory")),
            (Kind::Directory, "", Err("No such file or directory")),
            (Kind::Directory, "/dev/null", Err("Not a directory")),
        ];
        for (kind, value, expected) in cases {
            let result = check(*kind, value, "", SettingOrigin::File);
            assert_eq!(result.as_deref().map_err(String::as_str), *expected, "{kind:?} {value:?}");
        }
    }

    const LIMITS: &str = "normal 0 0 0 slave 8 4 60 pubsub 2 1 60";

    fn check_list(kind: Kind, value: &str, current: &str, origin: SettingOrigin) -> Result<String, String> {
        let words: Vec<Vec<u8>> = match value {
            "" => Vec::new(),
            value => value.split(' ').map(|word| word.as_bytes().to_vec()).collect(),
        };
        kind.canonical(&words, current.as_bytes(), origin)
            .map(|text| String::from_utf8(text).expect("the tests use ASCII"))
    }

    #[test]
    fn lists_add_up_in_a_file_and_replace_at_run_time() {
        use SettingOrigin::{File, Runtime};
        let (kind, bad) = (Kind::SavePoints, Err("Invalid save parameters".to_owned()));
        assert_eq!(check_list(kind, "10 10", "5 5", File), Ok("5 5 10 10".into()));
        assert_eq!(check_list(kind, "10 10 20 0", "5 5", Runtime), Ok("10 10 20 0".into()));
        assert_eq!(check_list(kind, "", "5 5", File), Ok(String::new()));
        for value in ["1", "0 1", "1 -1", "1 2147483648", "10 10 ", " 10 10", "a b", "1 1 1"] {
            assert_eq!(check_list(kind, value, "", File), bad, "{value:?}");
        }
        assert_eq!(check_list(Kind::Addresses, "* ::1", "127.0.0.1", File), Ok("* ::1".into()));
        assert_eq!(check_list(Kind::Addresses, "", "127.0.0.1", File), Ok(String::new()));
        assert!(check_list(Kind::Addresses, &"a ".repeat(17), "", File).is_err_and(|e| e.starts_with("Too many")));
        assert!(check_list(Kind::Addresses, "a  b", "", Runtime).is_err_and(|e| e.starts_with("Failed to bind")));
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
            let result = check_list(Kind::OutputLimits, value, LIMITS, SettingOrigin::File);
            assert_eq!(result.as_deref().map_err(String::as_str), *expected, "{value:?}");
        }
    }

    #[test]
    fn other_lists_are_checked_and_printed_as_redis_does() {
        let among = "argument(s) must be one of the following: default, save, nosave, now, force";
        let cases: &[(Kind, &str, Result<&str, &str>)] = &[
            (Kind::ShutdownOptions, "force NOW save", Ok("save now force")),
            (Kind::ShutdownOptions, "default", Ok("default")),
            (Kind::ShutdownOptions, "default now", Ok("now")),
            (Kind::ShutdownOptions, "", Err(among)),
            (Kind::ShutdownOptions, "now  force", Err(among)),
            (
                Kind::ShutdownOptions,
                "save nosave",
                Err("shutdown options SAVE and NOSAVE can't be used simultaneously"),
            ),
            (Kind::OomScores, "0 +200 -800", Ok("0 200 -800")),
            (Kind::OomScores, "0 200", Err("wrong number of arguments")),
            (
                Kind::OomScores,
                "0 200 2001",
                Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000."),
            ),
            (Kind::Percentiles, "50 99.90 100", Ok("50 99.9 100")),
            (Kind::Percentiles, "", Ok("")),
            (Kind::Percentiles, "a", Err("Invalid latency-tracking-info-percentiles parameters")),
            (Kind::Primary, "NO one", Ok("")),
            (Kind::Primary, "host 7", Ok("host 7")),
            (Kind::Primary, "host 70000", Err("Invalid master port")),
        ];
        for (kind, value, expected) in cases {
            let result = check_list(*kind, value, "", SettingOrigin::Runtime);
            assert_eq!(result.as_deref().map_err(String::as_str), *expected, "{kind:?} {value:?}");
        }
    }
}
