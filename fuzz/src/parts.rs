//! Texts and parts of values that a peer sends, in the formats of types that features bring.

use keylatch::internals::parts;

/// Splits an input at its first line feeds; what lacks is empty.
#[cfg(any(feature = "json", feature = "vectors"))]
fn lines<const COUNT: usize>(data: &[u8]) -> [&[u8]; COUNT] {
    let mut lines = data.splitn(COUNT, |&byte| byte == b'\n');
    std::array::from_fn(|_| lines.next().unwrap_or_default())
}

/// Reads lines as a document, a path in it, and another document, and merges both. The text of a document must be read
/// as the same document, and so must those of the values that the path names, and of the merged one.
#[cfg(feature = "json")]
pub fn json(data: &[u8]) {
    let [document, path, patch] = lines(data).map(String::from_utf8_lossy);
    let read_again = |text: &[u8]| {
        let again = parts::json(std::str::from_utf8(text).expect("a document is UTF-8"));
        assert_eq!(again.as_deref(), Some(text), "a document is another when read again");
    };
    if let Some(text) = parts::json(&document) {
        read_again(&text);
    }
    parts::json_path(&document, &path).into_iter().flatten().for_each(|text| read_again(&text));
    if let Some(text) = parts::json_merge(&document, &patch) {
        read_again(&text);
    }
}

/// Reads lines as the expression of a filter and the attributes of an element. What follows the first NUL must not change
/// the result.
#[cfg(feature = "vectors")]
pub fn filter(data: &[u8]) {
    let [expression, attributes] = lines(data);
    let end = expression.iter().position(|&byte| byte == 0).unwrap_or(expression.len());
    let longer = [&expression[..end], b"\0 rest"].concat();
    assert_eq!(parts::filter(expression, attributes), parts::filter(&longer, attributes));
}

/// Loads a part of a dump of a filter; the input begins with the kind of the filter, the length of the first part, the
/// iterator in 4 bytes, and the first part. A part that was accepted must be dumped again.
#[cfg(feature = "probabilistic")]
pub fn load_chunk(data: &[u8]) {
    let Some(([kind, len, iterator @ ..], rest)) = data.split_first_chunk::<6>() else { return };
    let (header, chunk) = rest.split_at(usize::from(*len).min(rest.len()));
    let iterator = i32::from_le_bytes(*iterator).into();
    let load = if kind & 1 == 0 { parts::bloom_chunk } else { parts::cuckoo_chunk };
    if let Some(loaded) = load(header, iterator, chunk) {
        assert_eq!(loaded, chunk, "a part is another when dumped again");
    }
}
