//! How much of a client's input has been read and waits for the rest of its request.

/// Sums up the input that waits for the rest of a request, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Not parsed yet: a line or an argument that is not complete.
    pub unparsed: usize,
    /// Of the arguments that are complete.
    pub arguments: usize,
    /// What all of it takes.
    pub held: usize,
}
