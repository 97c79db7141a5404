//! JSON documents: JSON.SET, JSON.GET and related commands. The expected replies are those of RedisJSON 8.4.

mod arrays;
mod keys;
mod limits;
mod paths;
mod reading;
mod scalars;
mod setting;

/// The error of a command that needs a document.
const MISSING: &str = "-ERR could not perform this operation on a key that doesn't exist";
/// The error for a key of another type.
const WRONG_TYPE: &str = "-Existing key has wrong Redis type";

/// Returns a bulk string as the wire has it.
fn bulk(text: &str) -> String {
    format!("${} {text}", text.len())
}

/// Returns JSON text in which as many arrays contain each other.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}
