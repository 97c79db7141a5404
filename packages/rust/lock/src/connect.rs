//! Where connections go.

use std::future::{Future, ready};
use std::pin::Pin;

use redis::{Client, RedisResult};

/// Finds the server of the moment, for each connection anew.
///
/// Implemented for [`redis::Client`], whose server stays the same, for closures, and with the feature `sentinel` for a
/// `SentinelClient` in a [`tokio::sync::Mutex`]. Of a cluster any node will do: redirections are followed.
pub trait Connect: Send + Sync + 'static {
    /// Returns a client of the server.
    fn client(&self) -> Pin<Box<dyn Future<Output = RedisResult<Client>> + Send + '_>>;
}

impl Connect for Client {
    fn client(&self) -> Pin<Box<dyn Future<Output = RedisResult<Client>> + Send + '_>> {
        Box::pin(ready(Ok(self.clone())))
    }
}

impl<F, T> Connect for F
where
    F: Fn() -> T + Send + Sync + 'static,
    T: Future<Output = RedisResult<Client>> + Send + 'static,
{
    fn client(&self) -> Pin<Box<dyn Future<Output = RedisResult<Client>> + Send + '_>> {
        Box::pin(self())
    }
}

#[cfg(feature = "sentinel")]
impl Connect for tokio::sync::Mutex<redis::sentinel::SentinelClient> {
    fn client(&self) -> Pin<Box<dyn Future<Output = RedisResult<Client>> + Send + '_>> {
        Box::pin(async { self.lock().await.async_get_client().await })
    }
}
