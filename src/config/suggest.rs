//! Suggestions for mistyped names.

use crate::config::Setting;
use crate::config::directives::DIRECTIVES;

/// Command-line options that are neither settings nor directives.
const FLAGS: [&str; 3] = ["help", "version", "healthcheck"];

/// The maximum length of a name that is compared.
const NAME_LEN_MAX: usize = 64;

/// Returns the setting or directive whose name is within two typing errors; `None` if there is none.
pub(super) fn nearest_name(name: &[u8]) -> Option<&'static str> {
    if name.len() > NAME_LEN_MAX {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let max_slips = (name.len() / 3).min(2);
    let known = Setting::names().filter(|(_, setting)| setting.is_documented()).map(|(known, _)| known);
    known
        .chain(DIRECTIVES)
        .chain(FLAGS)
        .map(|known| (slips(&name, known.as_bytes()), known))
        .filter(|(slips, _)| (1..=max_slips).contains(slips))
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, known)| known)
}

/// Returns the edit distance of two words: insertions, deletions, substitutions and swaps of neighbours.
fn slips(a: &[u8], b: &[u8]) -> usize {
    // Row i holds the distances between the first i bytes of `a` and each prefix of `b`; three rows are needed at a
    // time.
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        let [two_back, before, row] = &mut rows;
        row[0] = i;
        for j in 1..=b.len() {
            let is_wrong = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (before[j] + 1).min(row[j - 1] + 1).min(before[j - 1] + is_wrong);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(two_back[j - 2] + 1);
            }
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (a, b, expected) in [
            ("port", "port", 0),
            ("prot", "port", 1),
            ("por", "port", 1),
            ("ports", "port", 1),
            ("pott", "port", 1),
            ("", "abc", 3),
            ("abc", "", 3),
            ("maxmemroy", "maxmemory", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!(slips(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_name_that_is_near_is_suggested_and_no_other() {
        for (name, expected) in [
            ("prot", Some("port")),
            ("MAXMEMROY", Some("maxmemory")),
            ("requirepas", Some("requirepass")),
            ("rename-comand", Some("rename-command")),
            ("health-check", Some("healthcheck")),
            ("foo", None),
            ("x", None),
            ("", None),
            ("port", None),
            ("require-redis", None),
        ] {
            assert_eq!(nearest_name(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(nearest_name(&[b'a'; 100_000]), None);
    }
}
