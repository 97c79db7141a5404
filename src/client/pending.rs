//! Sizes of a client's input that belongs to an incomplete request.

/// The input of an incomplete request, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingInput {
    /// Input not parsed yet: an incomplete line or argument.
    pub unparsed: usize,
    /// Complete arguments.
    pub arguments: usize,
    /// Memory of all of this input.
    pub held: usize,
}
