//! Waits of a client for the cluster that has its data: for a fresh mirror, or for the outcome of a call.

use std::io;
use std::pin::pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::client::staged::Freshness;
use crate::error::Error;
use crate::net::connection::Connection;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Waits for an answer of the cluster, also after the client has said that it sends nothing more; returns whether
    /// the client is still connected.
    pub(super) async fn await_commit(&mut self, work: impl Future<Output = ()>) -> io::Result<bool> {
        let mut work = pin!(work);
        let is_here = self.meanwhile(&mut work).await?;
        let is_to_close = self.client.caller.info.outbox.is_ending() || self.is_greedy() || self.is_over_limits();
        if !is_here && !is_to_close {
            work.await;
        }
        Ok(is_here || !is_to_close)
    }

    /// Waits until the mirror is up to date for the next request, or cannot be; returns whether the client is still
    /// connected.
    pub(super) async fn await_fresh_mirror(
        &mut self,
        refreshed: oneshot::Receiver<Result<(), Error>>,
    ) -> io::Result<bool> {
        let mut outcome = Err(Error::NoQuorum);
        // The channel is closed if the server stops.
        let is_here = self.await_commit(async { outcome = refreshed.await.unwrap_or(Err(Error::NoQuorum)) }).await?;
        let freshness = self.client.session.freshness.get_or_insert_default();
        match outcome {
            Ok(()) => freshness.is_fresh = true,
            Err(error) => **freshness = Freshness { failure: Some(error), ..Freshness::default() },
        }
        Ok(is_here)
    }
}
