//! `--bigkeys`: search of all keys for the largest of each type.

use crate::app::redis_cli::output::{pause, say};
use crate::app::redis_cli::scan;
use crate::app::redis_cli::session::CliSession;
use crate::resp::Frame;
use crate::text::quote;

/// Number of calls of SCAN between pauses.
const CALLS_PER_PAUSE: u64 = 100;
/// Number of keys between lines about the progress.
const KEYS_PER_LINE: u64 = 1_000_000;

const TITLE: &str = "
# Scanning the entire keyspace to find biggest keys as well as
# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec
# per 100 SCAN commands (not usually needed).

";

/// A type of keys, and the results for it.
struct Kind {
    name: String,
    /// The command that returns the size; a type of a module has none.
    size_of: Option<&'static str>,
    unit: &'static str,
    count: u64,
    total: u64,
    biggest: Option<(u64, String)>,
}

/// Results for the keys that have been scanned so far.
struct Found {
    kinds: Vec<Kind>,
    /// Number of keys of the database at the beginning.
    keys: u64,
    sampled: u64,
    names_len: u64,
}

/// Scans all keys and prints the results.
///
/// # Errors
/// If the connection or standard output fails, or the server refuses.
pub(super) fn run(session: &mut CliSession) -> Result<bool, String> {
    let (selection, interval) = (session.options.selection.clone(), session.options.interval);
    let keys = match session.ask(&[b"DBSIZE".to_vec()])? {
        Frame::Integer(keys) => keys.unsigned_abs(),
        Frame::Error(text) => return Err(format!("Couldn't determine DBSIZE: {}", String::from_utf8_lossy(&text))),
        _ => return Err("Non INTEGER response from DBSIZE!".into()),
    };
    say(TITLE)?;
    let mut found = Found { kinds: Kind::usual(), keys, sampled: 0, names_len: 0 };
    let (mut cursor, mut calls) = (b"0".to_vec(), 0);
    loop {
        let names;
        (cursor, names) = scan::next(session, &cursor, &selection)?;
        found.look_at(session, &names)?;
        calls += 1;
        if calls % CALLS_PER_PAUSE == 0 {
            pause(interval);
        }
        if cursor == b"0" {
            return say(&found.summary()).map(|()| true);
        }
    }
}

impl Kind {
    /// Returns the types of Redis, in the order in which redis-cli prints them.
    fn usual() -> Vec<Self> {
        let kinds = [
            ("list", "LLEN", "items"),
            ("hash", "HLEN", "fields"),
            ("string", "STRLEN", "bytes"),
            ("stream", "XLEN", "entries"),
            ("set", "SCARD", "members"),
            ("zset", "ZCARD", "members"),
        ];
        kinds.into_iter().map(|(name, size_of, unit)| Kind::new(name.into(), Some(size_of), unit)).collect()
    }

    fn new(name: String, size_of: Option<&'static str>, unit: &'static str) -> Self {
        Kind { name, size_of, unit, count: 0, total: 0, biggest: None }
    }
}

impl Found {
    /// Asks for the types and sizes of keys, and prints each key that is larger than all before.
    fn look_at(&mut self, session: &mut CliSession, names: &[Vec<u8>]) -> Result<(), String> {
        let share = 100.0 * ratio(self.sampled, self.keys);
        let types: Vec<_> = names.iter().map(|name| vec![b"TYPE".to_vec(), name.clone()]).collect();
        let kinds: Vec<_> = session.ask_all(&types)?.iter().map(|reply| self.kind(reply)).collect::<Result<_, _>>()?;
        let with_kind = names.iter().zip(kinds).filter_map(|(name, kind)| Some((name, kind?)));
        let (mut sized, mut requests) = (Vec::new(), Vec::new());
        for (name, kind) in with_kind {
            let size_of = self.kinds[kind].size_of;
            requests.extend(size_of.map(|command| vec![command.as_bytes().to_vec(), name.clone()]));
            sized.push((name, kind, size_of.is_some()));
        }
        let mut sizes = session.ask_all(&requests)?.into_iter();
        for (name, kind, has_size) in sized {
            let size = match if has_size { sizes.next() } else { None } {
                Some(Frame::Integer(size)) => size.unsigned_abs(),
                // The key has another type by now.
                _ => 0,
            };
            self.add(name, kind, size, share)?;
        }
        Ok(())
    }

    /// Returns the index of a type; `None` if the key is gone.
    fn kind(&mut self, reply: &Frame) -> Result<Option<usize>, String> {
        let name = match reply {
            Frame::Simple(name) if **name == *b"none" => return Ok(None),
            Frame::Simple(name) => String::from_utf8_lossy(name).into_owned(),
            Frame::Error(text) => return Err(format!("TYPE returned an error: {}", String::from_utf8_lossy(text))),
            _ => return Err("Invalid reply type for TYPE".into()),
        };
        let place = self.kinds.iter().position(|kind| kind.name == name);
        Ok(Some(place.unwrap_or_else(|| {
            self.kinds.push(Kind::new(name, None, "?"));
            self.kinds.len() - 1
        })))
    }

    fn add(&mut self, name: &[u8], kind: usize, size: u64, share: f64) -> Result<(), String> {
        let kind = &mut self.kinds[kind];
        kind.count += 1;
        kind.total += size;
        self.sampled += 1;
        self.names_len += name.len() as u64;
        if size > kind.biggest.as_ref().map_or(0, |(size, _)| *size) {
            let (title, unit, name) = (&kind.name, kind.unit, quote(name));
            say(&format!("[{share:05.2}%] Biggest {title:<6} found so far '{name}' with {size} {unit}\n"))?;
            kind.biggest = Some((size, name));
        }
        if self.sampled.is_multiple_of(KEYS_PER_LINE) {
            say(&format!("[{share:05.2}%] Sampled {} keys so far\n", self.sampled))?;
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let (sampled, len) = (self.sampled, self.names_len);
        let mut text = format!(
            "\n-------- summary -------\n\nSampled {sampled} keys in the keyspace!\n\
             Total key length in bytes is {len} (avg len {:.2})\n\n",
            ratio(len, sampled)
        );
        for kind in &self.kinds {
            if let Some((size, name)) = &kind.biggest {
                text += &format!("Biggest {:>6} found '{name}' has {size} {}\n", kind.name, kind.unit);
            }
        }
        text += "\n";
        for Kind { name, unit, count, total, .. } in &self.kinds {
            let (share, average) = (100.0 * ratio(*count, sampled), ratio(*total, *count));
            text += &format!("{count} {name}s with {total} {unit} ({share:05.2}% of keys, avg size {average:.2})\n");
        }
        text
    }
}

/// Returns a ratio; 0 if the whole is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
