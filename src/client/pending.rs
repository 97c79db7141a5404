//! How much input of a client was read and belongs to an incomplete request.

/// The input of an incomplete request, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Not parsed yet: an incomplete line or argument.
    pub unparsed: usize,
    /// Of the complete arguments.
    pub arguments: usize,
    /// Memory of all of it.
    pub held: usize,
}
