//! Settings with values of several arguments: the accepted arguments, and the canonical text.
//!
//! Nothing here knows a field, as in `kind`, and the error texts are those of Redis 7.0.

use crate::config::words::{SettingOrigin, choice, not_among, text};
use crate::text::{parse_c_integer, parse_memory, until_nul};

/// Maximum number of addresses in one `bind`, as in Redis.
const BIND_ADDRESSES_MAX: usize = 16;

/// The client classes of `client-output-buffer-limit` in their fixed order, each with its alias.
const CLIENT_CLASSES: [(&str, &str); 3] = [("normal", "normal"), ("slave", "replica"), ("pubsub", "pubsub")];

/// Options of a shutdown on a signal, in canonical order.
const SHUTDOWN_OPTIONS: &[&str] = &["default", "save", "nosave", "now", "force"];

/// Returns true for an empty value: `bind ""` means no address at all.
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

pub(super) fn save_points(words: &[Vec<u8>], current: &[u8], origin: SettingOrigin) -> Result<Vec<u8>, String> {
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
        SettingOrigin::File if !current.is_empty() => Ok([current, &added].join(&b' ')),
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
