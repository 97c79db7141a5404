//! The Redis wire protocol: requests in, replies out.
//!
//! This module turns bytes into requests ([`RequestDecoder`]) and values into bytes ([`Reply`] on the hot path,
//! [`Frame`] where an owned value is handier). It is not a connection: the module does no IO, reads no clock and knows
//! no command.
//!
//! Architecture Invariant: the same bytes, split anywhere, give the same requests followed by the same
//! error, and no input panics or makes use of more memory than a small multiple of what has really arrived.

mod command;
mod decode;
mod frame;
mod inline;
mod large;
mod output;
mod reply;
mod request;
#[cfg(test)]
mod tests;

use std::io;

use bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};

pub use crate::text::double::write_double;
pub(crate) use command::{begin_command, begin_word, write_command, write_select, write_word, write_words};
pub use decode::{BATCH_REQUESTS_MAX, DecodeError, ProtocolError, RequestDecoder, RequestLimits, parse_int};
pub(crate) use frame::FrameLimits;
pub use frame::{FRAME_DEPTH_MAX, Frame, FrameDecoder, FrameError};
pub use output::Protocol;
#[cfg_attr(not(feature = "lua"), allow(unused_imports, reason = "only scripts keep replies"))]
pub use output::{Kept, Mark, Output, SHARED_MIN};
pub use reply::{Reply, format_general};
pub use request::{Batch, OwnedRequest, Request, RequestBuffer};

/// The server's side of the protocol: decodes batches of requests, encodes frames as replies.
#[derive(Debug, Default)]
pub struct Codec {
    /// The decoder of the client's requests.
    pub requests: RequestDecoder,
    /// The protocol replies are written in.
    pub protocol: Protocol,
}

impl Codec {
    /// Creates a codec that enforces `limits` and starts with RESP2.
    pub fn new(limits: RequestLimits) -> Self {
        Self { requests: RequestDecoder::new(limits), protocol: Protocol::default() }
    }
}

impl Decoder for Codec {
    type Item = Batch;
    type Error = DecodeError;

    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Batch>, DecodeError> {
        self.requests.decode(src)
    }

    fn decode_eof(&mut self, src: &mut BytesMut) -> Result<Option<Batch>, DecodeError> {
        self.requests.decode_eof(src)
    }
}

impl Encoder<Frame> for Codec {
    type Error = io::Error;

    fn encode(&mut self, frame: Frame, dst: &mut BytesMut) -> io::Result<()> {
        frame.encode(self.protocol, dst);
        Ok(())
    }
}
