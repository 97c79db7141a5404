//! Keys in errors: shortened, in a form that no key can use to imitate other text, and hidden from callers that may not
//! read them.

use crate::dispatch::Call;
use crate::text::quote;

/// The bytes of a key that are shown.
const KEY_SHOWN: usize = 64;

/// Returns a key in the form for an error to the caller.
pub(super) fn shown_key(call: &Call<'_>, key: &[u8]) -> String {
    if !call.caller.access.reads_key(key) {
        return "?".to_owned();
    }
    let key = &key[..key.len().min(KEY_SHOWN)];
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    if !key.is_empty() && key.iter().all(is_plain) { String::from_utf8_lossy(key).into_owned() } else { quote(key) }
}
