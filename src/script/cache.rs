//! Scripts by the SHA1 of their text, which is their name.

use std::collections::HashMap;
use std::sync::Arc;

use super::api::hex;
use super::shebang::{self, Flags};
use super::vm::Vm;

/// The name of a script: its SHA1 in lower-case hexadecimal.
pub type Sha = [u8; 40];

/// Holds the scripts that were loaded or run.
#[derive(Default)]
pub struct Cache {
    by_sha: HashMap<Sha, Script, ahash::RandomState>,
    /// Bytes of all texts.
    bytes: usize,
}

/// Describes one script that an interpreter has compiled.
#[derive(Clone)]
pub struct Script {
    /// Its SHA1.
    pub name: Arc<str>,
    /// Under which the interpreter keeps it.
    pub number: usize,
    /// What its first line says.
    pub flags: Flags,
}

/// Returns the name of a script's text.
pub fn sha(text: &[u8]) -> Sha {
    let mut sha = [0; 40];
    sha.copy_from_slice(hex(text).as_bytes());
    sha
}

impl Cache {
    /// Finds a script by its SHA1, in any case.
    #[inline]
    pub fn find(&self, sha: &[u8]) -> Option<&Script> {
        let sha: &Sha = sha.try_into().ok()?;
        self.by_sha.get(sha).or_else(|| self.by_sha.get(&sha.to_ascii_lowercase()[..]))
    }

    /// Compiles a script, unless that has been done, and returns it.
    ///
    /// # Errors
    /// What is wrong with the script.
    pub fn load(&mut self, vm: &Vm, text: &[u8]) -> Result<&Script, Vec<u8>> {
        let sha = sha(text);
        if !self.by_sha.contains_key(&sha) {
            let (flags, start) = shebang::of_script(text)?;
            let complain = |complaint: Vec<u8>| [b"Error compiling script (new function): ", &complaint[..]].concat();
            let function = vm.compile(&text[start..], "@user_script").map_err(complain)?;
            let number = self.by_sha.len() + 1;
            vm.define(number, function);
            self.bytes += text.len();
            let name = String::from_utf8_lossy(&sha).into();
            self.by_sha.insert(sha, Script { name, number, flags });
        }
        Ok(&self.by_sha[&sha])
    }

    /// Returns how many scripts there are.
    pub fn len(&self) -> usize {
        self.by_sha.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_sha.is_empty()
    }

    /// Returns how many bytes the texts have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
