//! Texts and parts of values that a peer sends, as the fuzz targets read them.

#[cfg(feature = "json")]
use crate::json::{JsonLayout, JsonNode, JsonPath, TEXT_DEPTH, encode, merge, print};
#[cfg(feature = "probabilistic")]
use crate::probabilistic::{bloom, cuckoo};
#[cfg(feature = "vectors")]
use crate::vectors::Filter;

/// Reads a document, and returns its text.
#[cfg(feature = "json")]
pub fn json(text: &str) -> Option<Vec<u8>> {
    Some(json_text(&encode(text, TEXT_DEPTH).ok()?))
}

#[cfg(feature = "json")]
fn json_text(document: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    print(JsonNode::root(document), &JsonLayout::default(), 0, &mut text).expect("documents have a limit");
    text
}

/// Returns the texts of the values of a document that a path of either dialect names; `None` if one of both is
/// malformed.
#[cfg(feature = "json")]
pub fn json_path(text: &str, path: &str) -> Option<Vec<Vec<u8>>> {
    let document = encode(text, TEXT_DEPTH).ok()?;
    let path = JsonPath::parse(&JsonPath::modern(path).0).ok()?;
    path.find_parents(&document).ok()?;
    let found = path.find(&document).ok()?;
    let mut texts = Vec::with_capacity(found.len());
    for node in found {
        texts.push(Vec::new());
        let text = texts.last_mut()?;
        print(node, &JsonLayout::default(), 0, text).expect("documents have a limit");
    }
    Some(texts)
}

/// Returns the text of a document after a merge with another; `None` if one of both is malformed.
#[cfg(feature = "json")]
pub fn json_merge(text: &str, patch: &str) -> Option<Vec<u8>> {
    let [document, patch] = [encode(text, TEXT_DEPTH).ok()?, encode(patch, TEXT_DEPTH).ok()?];
    Some(json_text(&merge(Some(JsonNode::root(&document)), JsonNode::root(&patch))))
}

/// Applies the filter of a vector search to attributes; `None` if the expression is malformed.
#[cfg(feature = "vectors")]
pub fn filter(expression: &[u8], attributes: &[u8]) -> Option<bool> {
    Some(Filter::compile(expression).ok()?.admits(attributes))
}

/// Creates a Bloom filter by the first part of a dump, loads another part, and adds an item; returns the loaded
/// bytes as they were before that.
#[cfg(feature = "probabilistic")]
pub fn bloom_chunk(header: &[u8], iterator: i64, chunk: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bloom::of_header(header).ok()?;
    bloom::load_chunk(&mut bytes, iterator, chunk).ok()?;
    let loaded = bloom::chunk(&bytes, iterator - chunk.len() as i64)?.1.get(..chunk.len())?.to_vec();
    bloom::add(&mut bytes, b"item");
    bloom::contains(&bytes, b"item");
    Some(loaded)
}

/// The same for a cuckoo filter, from which the item is deleted, too.
#[cfg(feature = "probabilistic")]
pub fn cuckoo_chunk(header: &[u8], iterator: i64, chunk: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = cuckoo::of_header(header).ok()?;
    cuckoo::load_chunk(&mut bytes, iterator, chunk).ok()?;
    let all: Vec<u8> = cuckoo::parts(&bytes).flat_map(|(_, slots)| slots).copied().collect();
    let end = usize::try_from(iterator - 1).ok()?;
    let loaded = all.get(end - chunk.len()..end).map(<[u8]>::to_vec);
    cuckoo::add(&mut bytes, b"item");
    cuckoo::count(&bytes, b"item");
    cuckoo::delete(&mut bytes, b"item");
    loaded
}
