//! The shapes of values: the parts of which they consist, by which a reader finds their ends without reading them.

/// A part of a value, or of another record of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PayloadPart {
    /// A string.
    Str,
    /// A length.
    Length,
    /// A fixed number of bytes.
    Bytes(u64),
    /// A score as text behind its length, or one of three lengths without text.
    TextScore,
    /// A count, and the parts of each repetition.
    Repeat(&'static [PayloadPart]),
    /// The number of a template of hashes, and as many strings as that has fields.
    TemplateValues,
    /// A value of a module, in which each part is preceded by its type.
    ModuleValue,
}
