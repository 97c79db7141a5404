//! Keys in errors: a line in which no key can pretend to be more than a key, and none is shown that the caller may not read.

use crate::dispatch::Call;
use crate::text::quote;

/// How many bytes of a key are shown.
const KEY_SHOWN: usize = 64;

/// Returns a key as it is shown in an error to the caller.
pub(super) fn shown_key(call: &Call<'_>, key: &[u8]) -> String {
    if !call.caller.access.reads_key(key) {
        return "?".to_owned();
    }
    let key = &key[..key.len().min(KEY_SHOWN)];
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    if !key.is_empty() && key.iter().all(is_plain) { String::from_utf8_lossy(key).into_owned() } else { quote(key) }
}
