//! The body of an answer: bytes, or events as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc::Receiver;

/// The body of an answer.
pub(crate) enum Body {
    /// All of it, until it is sent.
    Whole(Bytes),
    /// Events, until their sender ends.
    Events(Receiver<Bytes>),
}

impl Body {
    /// Returns true if the body lasts as long as the peer listens.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self, Body::Events(_))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Events(receiver) => receiver.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Events(_) => SizeHint::default(),
        }
    }
}
