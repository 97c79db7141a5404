//! The first line of a script or library: `#!lua name=mylib flags=no-writes,allow-stale`.

use crate::text::split_words;

/// A set of the flags below.
pub(crate) type ScriptFlags = u8;

/// The script calls no command that writes.
pub(crate) const NO_WRITES: ScriptFlags = 1;
/// The script may run when memory is over the limit.
pub(crate) const ALLOW_OOM: ScriptFlags = 1 << 1;
/// The script may run on a replica that has lost its primary.
pub(crate) const ALLOW_STALE: ScriptFlags = 1 << 2;
/// The script must not run in a cluster.
pub(crate) const NO_CLUSTER: ScriptFlags = 1 << 3;
/// The script may access keys of several slots.
pub(crate) const ALLOW_CROSS_SLOT_KEYS: ScriptFlags = 1 << 4;
/// The script has no shebang line, and so declares nothing.
pub(crate) const COMPATIBLE: ScriptFlags = 1 << 5;
/// The script may access keys that its call has not named, where a profile refuses that.
pub(crate) const UNDECLARED_KEYS: ScriptFlags = 1 << 6;

/// The first words of a script that sets flags for Dragonfly, and the flag that matters.
const OF_DRAGONFLY: (&[u8], &[u8]) = (b"--!df flags=", b"allow-undeclared-keys");

/// The names of the flags, in the order in which FUNCTION LIST shows them.
pub(crate) const FLAG_NAMES: &[(ScriptFlags, &str)] = &[
    (NO_WRITES, "no-writes"),
    (ALLOW_OOM, "allow-oom"),
    (ALLOW_STALE, "allow-stale"),
    (NO_CLUSTER, "no-cluster"),
    (ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
];

/// Finds a flag by its name.
pub(super) fn flag(name: &[u8]) -> Option<ScriptFlags> {
    FLAG_NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(flag, _)| *flag)
}

/// Parses the first line of a script; returns its flags and the position of the text.
///
/// The text begins with the end of the first line, so that line numbers match the source.
///
/// # Errors
/// A description of the fault of the line.
pub(super) fn of_script(script: &[u8]) -> Result<(ScriptFlags, usize), Vec<u8>> {
    if !script.starts_with(b"#!") {
        let line = script.split(|byte| *byte == b'\n').next().and_then(|line| line.strip_prefix(OF_DRAGONFLY.0));
        let mut flags = line.into_iter().flat_map(|flags| flags.split(|byte| b",; \r".contains(byte)));
        let takes_any_key = flags.any(|flag| flag == OF_DRAGONFLY.1);
        return Ok((COMPATIBLE | if takes_any_key { UNDECLARED_KEYS } else { 0 }, 0));
    }
    let end = line_end(script).ok_or(b"Invalid script shebang")?;
    let words = split_words(&script[..end]).unwrap_or_default();
    let (engine, options) = words.split_first().ok_or(b"Invalid engine in script shebang")?;
    if engine != b"#!lua" {
        return Err([b"Unexpected engine in script shebang: ", &engine[..]].concat());
    }
    let mut flags = 0;
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err([b"Unknown lua shebang option: ", &option[..]].concat());
        };
        for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
            flags |= flag(name).ok_or_else(|| [b"Unexpected flag in script shebang: ", name].concat())?;
        }
    }
    Ok((flags, end))
}

/// Parsed first line of a library.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shebang {
    pub(super) engine: Vec<u8>,
    pub(super) name: Vec<u8>,
    /// The position of the text: the end of the line.
    pub(super) end: usize,
}

/// Parses the first line of a library.
///
/// # Errors
/// A description of the fault of the line.
pub(super) fn of_library(code: &[u8]) -> Result<Shebang, Vec<u8>> {
    if !code.starts_with(b"#!") {
        return Err(b"Missing library metadata".to_vec());
    }
    let end = line_end(code).ok_or(b"Invalid library metadata")?;
    let words = split_words(&code[..end]).unwrap_or_default();
    let (engine, options) = words.split_first().ok_or(b"Invalid library metadata")?;
    let mut name = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                if name.replace(value.to_vec()).is_some() {
                    return Err(b"Invalid metadata value, name argument was given multiple times".to_vec());
                }
            }
            _ => return Err([b"Invalid metadata value given: ", &option[..]].concat()),
        }
    }
    let name = name.ok_or(b"Library name was not given")?;
    Ok(Shebang { engine: engine.get(2..).unwrap_or_default().to_vec(), name, end })
}

/// Finds the end of the first line; as in C, not after a NUL.
fn line_end(text: &[u8]) -> Option<usize> {
    memchr::memchr2(b'\n', 0, text).filter(|at| text[*at] == b'\n')
}
