//! Paths to values of a document, in RedisJSON's dialect of JSONPath and in its older one.
//!
//! A path that begins with `$`, `$.` or `$[` is JSONPath; any other is of the older dialect, whose commands answer with
//! one value, and becomes JSONPath by a `$` or `$.` in front.

mod compare;
mod find;
mod parse;
mod syntax;

pub(crate) use syntax::{JsonPath, JsonPathError, JsonTail};
