//! Log of unknown commands that clients call: each once, so the log shows what an application misses without repeating
//! it.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tracing::{Level, debug, enabled};

/// Number of names kept; once it is reached, nothing is logged.
const NAMES_MAX: usize = 128;
/// Number of bytes of a name kept.
const NAME_LEN_MAX: usize = 64;

/// Names that were logged.
#[derive(Default)]
pub struct UnknownCommands {
    names: Mutex<BTreeSet<Vec<u8>>>,
}

impl UnknownCommands {
    /// Logs an unknown command, unless it was logged before (case-insensitive) or logging is off.
    pub fn note(&self, name: &[u8], addr: &str) {
        if enabled!(Level::DEBUG) && self.is_new(name) {
            let name = name[..name.len().min(NAME_LEN_MAX)].escape_ascii();
            debug!("unknown command '{name}' from {addr}; this is logged once for each name");
        }
    }

    fn is_new(&self, name: &[u8]) -> bool {
        let name = name[..name.len().min(NAME_LEN_MAX)].to_ascii_lowercase();
        let mut names = self.names.lock();
        names.len() < NAMES_MAX && names.insert(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_new_once_and_there_are_not_too_many() {
        let unknown = UnknownCommands::default();
        assert!(unknown.is_new(b"hset") && !unknown.is_new(b"HSET") && unknown.is_new(b"lpush"));
        assert!(unknown.is_new(&[b'x'; 1000]) && !unknown.is_new(&[b'x'; 65]));
        let more = (0..1000).filter(|number: &u32| unknown.is_new(number.to_string().as_bytes())).count();
        assert_eq!(more, NAMES_MAX - 3);
    }
}
