//! Names of the engine in etcd, under the prefix of its cluster:
//!
//! ```text
//! format                      the version of the other names and values
//! fence                       the base of fencing tokens
//! flushed                     the databases that were emptied, and when
//! functions                   the libraries of functions
//! k/<db>/<key>                a key
//! p/<process>                 a live process, put under its lease, with its address if it is a node
//! o/<process>/<lane>          the last transaction of a lane of a process
//! t/<process>/<db>/<key>      a request of a process for the next turn of a key
//! ```

use crate::store::KeyName;

/// A name without its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EtcdName {
    Format,
    /// The base of fencing tokens (fence base).
    Fence,
    /// The databases that were emptied, and when.
    Flushes,
    /// The libraries of functions.
    Libraries,
    Key(KeyName),
    Process(u64),
    Lane(u64, u32),
    /// Request of a process for the next turn of a key.
    Turn(u64, KeyName),
}

/// The prefix of all names.
#[derive(Clone, Debug)]
pub(super) struct NamePrefix(Box<[u8]>);

impl NamePrefix {
    pub(super) fn new(prefix: &[u8]) -> Self {
        NamePrefix(prefix.into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Formats a name with the prefix.
    pub(super) fn name(&self, name: &EtcdName) -> Vec<u8> {
        let rest = match name {
            EtcdName::Format => b"format".to_vec(),
            EtcdName::Fence => b"fence".to_vec(),
            EtcdName::Flushes => b"flushed".to_vec(),
            EtcdName::Libraries => b"functions".to_vec(),
            EtcdName::Key((db, key)) => [format!("k/{db}/").as_bytes(), key].concat(),
            EtcdName::Process(process) => format!("p/{process:016x}").into_bytes(),
            EtcdName::Lane(process, lane) => format!("o/{process:016x}/{lane}").into_bytes(),
            EtcdName::Turn(process, (db, key)) => [format!("t/{process:016x}/{db}/").as_bytes(), key].concat(),
        };
        [&self.0, &rest[..]].concat()
    }

    /// Returns the ranges that the mirror follows: all names but the lanes.
    pub(super) fn mirrored(&self) -> [(Vec<u8>, Vec<u8>); 2] {
        let name = |rest: &[u8]| [&self.0, rest].concat();
        [(name(b""), name(b"o/")), (name(b"o0"), range_end(&self.0))]
    }

    /// Returns true if a name lies in a range that the mirror follows.
    #[cfg(test)]
    pub(super) fn is_mirrored(&self, name: &[u8]) -> bool {
        let is_in = |(from, end): &(Vec<u8>, Vec<u8>)| &from[..] <= name && (name < &end[..] || end[..] == [0]);
        self.mirrored().iter().any(is_in)
    }

    /// Parses a name; `None` if it is not of this format.
    pub(super) fn parse(&self, name: &[u8]) -> Option<EtcdName> {
        let rest = name.strip_prefix(&*self.0)?;
        match rest {
            b"format" => return Some(EtcdName::Format),
            b"fence" => return Some(EtcdName::Fence),
            b"flushed" => return Some(EtcdName::Flushes),
            b"functions" => return Some(EtcdName::Libraries),
            _ => {}
        }
        let (kind, rest) = rest.split_at_checked(2)?;
        match kind {
            b"k/" => {
                let (db, key) = split(rest, b'/')?;
                Some(EtcdName::Key((decimal(db)?, key.into())))
            }
            b"t/" => {
                let (process, key) = split(rest, b'/')?;
                let (db, key) = split(key, b'/')?;
                Some(EtcdName::Turn(hexadecimal(process)?, (decimal(db)?, key.into())))
            }
            b"p/" => Some(EtcdName::Process(hexadecimal(rest)?)),
            b"o/" => {
                let (process, lane) = split(rest, b'/')?;
                Some(EtcdName::Lane(hexadecimal(process)?, u32::try_from(decimal(lane)?).ok()?))
            }
            _ => None,
        }
    }
}

/// Returns the end of the range of all names with a prefix, or of all names if the prefix is only bytes 0xff.
pub(super) fn range_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0] // to the end of all names
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == at)?;
    Some((&text[..end], &text[end + 1..]))
}

fn decimal(text: &[u8]) -> Option<usize> {
    let is_plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let is_plain = text.len() == 16 && text.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
    u64::from_str_radix(std::str::from_utf8(text).ok().filter(|_| is_plain)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> impl Strategy<Value = EtcdName> {
        let key = (0..20_usize, proptest::collection::vec(prop_oneof![Just(b'/'), Just(b':'), any::<u8>()], 0..8));
        let key = key.prop_map(|(db, key)| (db, key.into_boxed_slice()));
        prop_oneof![
            Just(EtcdName::Format),
            Just(EtcdName::Fence),
            Just(EtcdName::Flushes),
            key.clone().prop_map(EtcdName::Key),
            (any::<u64>(), key).prop_map(|(process, key)| EtcdName::Turn(process, key)),
            any::<u64>().prop_map(EtcdName::Process),
            (any::<u64>(), any::<u32>()).prop_map(|(process, lane)| EtcdName::Lane(process, lane)),
        ]
    }

    proptest! {
        #[test]
        fn a_name_stands_for_what_it_was_made_of(name in names()) {
            let prefix = NamePrefix::new(b"keylatch/");
            prop_assert_eq!(prefix.parse(&prefix.name(&name)), Some(name));
        }

        #[test]
        fn the_mirror_follows_every_name_but_the_lanes(name in names()) {
            for prefix in [&b"keylatch/"[..], b"", b"\xff"] {
                let prefix = NamePrefix::new(prefix);
                prop_assert_eq!(prefix.is_mirrored(&prefix.name(&name)), !matches!(name, EtcdName::Lane(..)));
            }
        }

        #[test]
        fn any_bytes_are_a_name_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = NamePrefix::new(b"").parse(&bytes);
        }
    }
}
