//! The versions of the protocol.

/// The version of the protocol in which replies are written; HELLO changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol that every client speaks.
    #[default]
    Resp2,
    /// The protocol with maps, sets, doubles, booleans and pushes.
    Resp3,
}
