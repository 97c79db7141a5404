//! The cache of scripts, by the SHA1 of their text.
//!
//! Scripts loaded by SCRIPT LOAD stay until SCRIPT FLUSH. Of the scripts that were only run by EVAL, the latest
//! [`RECENT_MAX`] stay, so that clients that generate a new text for every call do not fill the memory.

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::heap::{COUNTED_LEN, allocation_len, hash_map_len, list_len};
use crate::script::sha1::hex;
use crate::script::shebang;
use crate::script::shebang::ScriptFlags;
use crate::script::vm::Vm;

/// The name of a script: its SHA1 in lower-case hexadecimal.
pub(crate) type Sha = [u8; 40];

/// The number of scripts kept that were run by EVAL and not loaded by SCRIPT LOAD.
const RECENT_MAX: usize = 500;

/// The command for which a script is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileReason {
    /// EVAL, which runs the script: it may be evicted later.
    Eval,
    /// SCRIPT LOAD, which keeps the script.
    Load,
}

type BySha = HashMap<Sha, Cached, ahash::RandomState>;

/// The cached scripts.
#[derive(Default)]
pub struct Cache {
    by_sha: BySha,
    /// The scripts that may be evicted, unordered.
    recent: Vec<Recent>,
    /// The number of runs of scripts that may be evicted.
    uses: u64,
    /// The highest number in use: the numbers of evicted scripts are reused.
    numbers: usize,
    /// Memory of all scripts: texts, names and records.
    script_bytes: usize,
    /// The number of scripts evicted since the last call of `take_evicted`.
    evicted: u64,
}

struct Cached {
    script: Arc<Script>,
    /// The index in `recent`, if the script may be evicted.
    recent: Option<usize>,
}

struct Recent {
    sha: Sha,
    /// The number of the script's latest use.
    used: u64,
}

/// A compiled script.
pub struct Script {
    /// The SHA1 of the text.
    pub name: String,
    /// The text, the first line included.
    pub text: Box<[u8]>,
    /// The number in the interpreter.
    pub number: usize,
    /// The flags of the first line.
    pub flags: ScriptFlags,
}

impl Script {
    fn memory(&self) -> usize {
        let texts = allocation_len(self.name.len()) + allocation_len(self.text.len());
        allocation_len(COUNTED_LEN + size_of::<Script>()) + texts
    }
}

/// Returns the SHA1 of a script's text.
pub(super) fn sha(text: &[u8]) -> Sha {
    let mut sha = [0; 40];
    sha.copy_from_slice(hex(text).as_bytes());
    sha
}

#[inline]
fn find<'c>(by_sha: &'c BySha, sha: &[u8]) -> Option<&'c Cached> {
    let sha: &Sha = sha.try_into().ok()?;
    by_sha.get(sha).or_else(|| by_sha.get(&sha.to_ascii_lowercase()[..]))
}

impl Cache {
    /// Finds a script by its SHA1, case-insensitive.
    #[inline]
    pub fn find(&self, sha: &[u8]) -> Option<&Script> {
        find(&self.by_sha, sha).map(|cached| &*cached.script)
    }

    /// Finds a script in order to run it, which makes it the most recent one.
    #[inline]
    pub fn find_to_run(&mut self, sha: &[u8]) -> Option<&Arc<Script>> {
        let cached = find(&self.by_sha, sha)?;
        if let Some(recent) = cached.recent {
            self.uses += 1;
            self.recent[recent].used = self.uses;
        }
        Some(&cached.script)
    }

    /// Compiles a script, unless it is cached, and returns it.
    ///
    /// # Errors
    /// The compilation error.
    pub fn load(&mut self, vm: &mut Vm, text: &[u8], origin: CompileReason) -> Result<Arc<Script>, Vec<u8>> {
        let sha = sha(text);
        if let Some(script) = self.find_to_run(&sha).cloned() {
            if origin == CompileReason::Load {
                self.keep(&sha);
            }
            return Ok(script);
        }
        let (flags, start) = shebang::of_script(text)?;
        let complain = |complaint: Vec<u8>| [b"Error compiling script (new function): ", &complaint[..]].concat();
        let compiled = vm.compile(&text[start..], "@user_script").map_err(complain)?;
        let (number, recent) = match origin {
            CompileReason::Load => (self.next_number(), None),
            CompileReason::Eval => self.make_recent(sha),
        };
        vm.define(number, compiled);
        let name = String::from_utf8_lossy(&sha).into_owned();
        let script = Arc::new(Script { name, text: text.into(), number, flags });
        self.script_bytes += script.memory();
        self.by_sha.insert(sha, Cached { script: script.clone(), recent });
        Ok(script)
    }

    fn next_number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    /// Adds a script to those that may be evicted, in place of the least recent one if there are too many. Returns the
    /// script's number in the interpreter, taken over from the evicted script, and its index in `recent`.
    fn make_recent(&mut self, sha: Sha) -> (usize, Option<usize>) {
        self.uses += 1;
        let recent = Recent { sha, used: self.uses };
        let oldest = self.recent.iter().enumerate().min_by_key(|(_, script)| script.used);
        if let Some((at, oldest)) = oldest.filter(|_| self.recent.len() >= RECENT_MAX)
            && let Some(evicted) = self.by_sha.remove(&oldest.sha)
        {
            self.recent[at] = recent;
            self.script_bytes -= evicted.script.memory();
            self.evicted += 1;
            return (evicted.script.number, Some(at));
        }
        self.recent.push(recent);
        (self.next_number(), Some(self.recent.len() - 1))
    }

    /// Makes an evictable script permanent.
    fn keep(&mut self, sha: &Sha) {
        let Some(at) = self.by_sha.get_mut(sha).and_then(|cached| cached.recent.take()) else { return };
        self.recent.swap_remove(at);
        if let Some(moved) = self.recent.get(at).and_then(|moved| self.by_sha.get_mut(&moved.sha)) {
            moved.recent = Some(at);
        }
    }

    /// Returns the texts, each with true if it was loaded permanently; evictable ones in the order of their use.
    pub(crate) fn texts(&self) -> Vec<(Box<[u8]>, bool)> {
        let used = |cached: &Cached| cached.recent.map(|at| self.recent[at].used);
        let mut cached: Vec<&Cached> = self.by_sha.values().collect();
        cached.sort_by_key(|cached| used(cached));
        cached.into_iter().map(|cached| (cached.script.text.clone(), cached.recent.is_none())).collect()
    }

    /// Retains only the scripts with these texts whose permanence is that of the flag; drops all others.
    pub(crate) fn retain(&mut self, vm: &mut Vm, kept: &[(Box<[u8]>, bool)]) {
        let kept: HashMap<Sha, bool> = kept.iter().map(|(text, is_loaded)| (sha(text), *is_loaded)).collect();
        let is_dropped = |(sha, cached): &(&Sha, &Cached)| kept.get(*sha) != Some(&cached.recent.is_none());
        let dropped: Vec<Sha> = self.by_sha.iter().filter(is_dropped).map(|(sha, _)| *sha).collect();
        for sha in &dropped {
            self.keep(sha);
            if let Some(cached) = self.by_sha.remove(sha) {
                self.script_bytes -= cached.script.memory();
                vm.forget(cached.script.number);
            }
        }
    }

    /// Returns the number of scripts.
    pub fn len(&self) -> usize {
        self.by_sha.len()
    }

    /// Returns true if there are no scripts.
    pub fn is_empty(&self) -> bool {
        self.by_sha.is_empty()
    }

    /// Returns the memory of the cache in bytes.
    pub fn bytes(&self) -> usize {
        let tables = hash_map_len::<Sha, Cached>(self.by_sha.capacity()) + list_len::<Recent>(self.recent.capacity());
        self.script_bytes + tables
    }

    /// Returns the number of scripts evicted since the last call.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }
}
