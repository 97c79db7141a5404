//! Settings with values of several arguments: what each accepts, and its canonical text.
//!
//! As in `kind`, nothing here knows a field, and the error texts are those of Redis 7.0.

use crate::config::Origin;
use crate::config::kind::{choice, not_among, text};
use crate::text::{parse_c_integer, parse_memory, until_nul};

/// Redis rejects more addresses than this in one `bind`.
const BIND_ADDRESSES_MAX: usize = 16;

/// The client classes of `client-output-buffer-limit` in their fixed order, each with its alias.
const CLIENT_CLASSES: [(&str, &str); 3] = [("normal", "normal"), ("slave", "replica"), ("pubsub", "pubsub")];

/// What a signal may request, in canonical order.
const SHUTDOWN_OPTIONS: &[&str] = &["default", "save", "nosave", "now", "force"];

/// `bind ""` means no address at all.
fn is_blank(words: &[Vec<u8>]) -> bool {
    words.iter().all(Vec::is_empty) && words.len() <= 1
}

pub(super) fn addresses(words: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if words.len() > BIND_ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".into());
    }
    if is_blank(words) {
        return Ok(Vec::new());
    }
    // `CONFIG SET` splits at single blanks; an empty part is an address that cannot be bound. Quotes are rejected in
    // addresses, because they could not be parsed again where all addresses are one word.
    if words.iter().any(|word| word.is_empty() || word.iter().any(|byte| matches!(byte, b'"' | b'\''))) {
        return Err("Failed to bind to specified addresses.".into());
    }
    let words: Vec<&[u8]> = words.iter().map(|word| until_nul(word)).collect();
    Ok(words.join(&b' '))
}

pub(super) fn save_points(words: &[Vec<u8>], current: &[u8], origin: Origin) -> Result<Vec<u8>, String> {
    if is_blank(words) {
        return Ok(Vec::new());
    }
    let point = |point: &[Vec<u8>]| match point {
        [seconds, changes] => {
            let seconds = parse_c_integer(seconds, 10).filter(|seconds| *seconds >= 1)?;
            let changes = parse_c_integer(changes, 10).filter(|changes| *changes >= 0)?;
            // C keeps the changes in an `int`. A negative number would be rejected when it is parsed again.
            let changes = Some(changes as i32).filter(|changes| *changes >= 0)?;
            Some(format!("{seconds} {changes}").into_bytes())
        }
        _ => None,
    };
    let points: Option<Vec<Vec<u8>>> = words.chunks(2).map(point).collect();
    let added = points.ok_or("Invalid save parameters")?.join(&b' ');
    match origin {
        Origin::File if !current.is_empty() => Ok([current, &added].join(&b' ')),
        _ => Ok(added),
    }
}

pub(super) fn output_limits(words: &[Vec<u8>], current: &[u8]) -> Result<Vec<u8>, String> {
    let mut limits: Vec<Vec<u8>> = current.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
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

/// Parses hard limit, soft limit and seconds of one class.
fn limit_numbers(group: &[Vec<u8>]) -> Option<[u64; 3]> {
    let seconds = u64::try_from(parse_c_integer(&group[3], 10)?).ok()?;
    // `Config` keeps the seconds in 32 bits: 136 years.
    Some([parse_memory(&group[1])?, parse_memory(&group[2])?, seconds.min(u64::from(u32::MAX))])
}

pub(super) fn shutdown_options(words: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let chosen: Option<Vec<Vec<u8>>> = words.iter().map(|word| choice(word, SHUTDOWN_OPTIONS)).collect();
    let chosen = chosen.filter(|words| !words.is_empty()).ok_or_else(|| not_among(SHUTDOWN_OPTIONS))?;
    let is_chosen = |option: &&&str| chosen.iter().any(|word| word == option.as_bytes());
    if is_chosen(&&"save") && is_chosen(&&"nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    let options: Vec<&str> = SHUTDOWN_OPTIONS[1..].iter().filter(is_chosen).copied().collect();
    Ok(if options.is_empty() { b"default".into() } else { options.join(" ").into() })
}

pub(super) fn oom_scores(words: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    let score = |word: &Vec<u8>| parse_c_integer(word, 10).filter(|score| (-2000..=2000).contains(score)).map(text);
    let scores: Option<Vec<Vec<u8>>> = words.iter().map(score).collect();
    scores
        .map(|scores| scores.join(&b' '))
        .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into())
}

pub(super) fn percentiles(words: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if is_blank(words) {
        return Ok(Vec::new());
    }
    let mut shown = Vec::with_capacity(words.len());
    for word in words {
        let percentile: f64 = std::str::from_utf8(word)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .filter(|percentile: &f64| !percentile.is_nan())
            .ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        let digits = format!("{percentile:.6}");
        shown.push(digits.trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    Ok(shown.join(" ").into())
}

pub(super) const BAD_PRIMARY_PORT: &str = "Invalid master port";

pub(super) fn primary(words: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let (host, port) = match words {
        [host, port] => (host, port),
        // The canonical text is accepted again; Redis writes no line if there is no primary.
        [nobody] if nobody.is_empty() => return Ok(Vec::new()),
        _ => return Err("wrong number of arguments".into()),
    };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Vec::new());
    }
    let port = parse_c_integer(port, 10).filter(|port| (0..=65535).contains(port)).ok_or(BAD_PRIMARY_PORT)?;
    // An empty host name is invalid, and could not be parsed again.
    if until_nul(host).is_empty() {
        return Ok(Vec::new());
    }
    Ok([until_nul(host), b" ", &text(port)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Kind;

    const LIMITS: &str = "normal 0 0 0 slave 8 4 60 pubsub 2 1 60";

    fn check(kind: Kind, value: &str, current: &str, origin: Origin) -> Result<String, String> {
        let words: Vec<Vec<u8>> = match value {
            "" => Vec::new(),
            value => value.split(' ').map(|word| word.as_bytes().to_vec()).collect(),
        };
        kind.canonical(&words, current.as_bytes(), origin)
            .map(|text| String::from_utf8(text).expect("the tests use ASCII"))
    }

    #[test]
    fn lists_add_up_in_a_file_and_replace_at_run_time() {
        use Origin::{File, Runtime};
        let (kind, bad) = (Kind::SavePoints, Err("Invalid save parameters".to_owned()));
        assert_eq!(check(kind, "10 10", "5 5", File), Ok("5 5 10 10".into()));
        assert_eq!(check(kind, "10 10 20 0", "5 5", Runtime), Ok("10 10 20 0".into()));
        assert_eq!(check(kind, "", "5 5", File), Ok(String::new()));
        for value in ["1", "0 1", "1 -1", "1 2147483648", "10 10 ", " 10 10", "a b", "1 1 1"] {
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
            let result = check(*kind, value, "", Origin::Runtime);
            assert_eq!(result.as_deref().map_err(String::as_str), *expected, "{kind:?} {value:?}");
        }
    }
}
