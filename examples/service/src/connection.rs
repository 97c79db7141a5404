//! Connection that is replaced when it breaks.

use redis::{Client, Connection, RedisError, RedisResult};

/// Maximum number of attempts of an operation.
const ATTEMPTS: usize = 5;

/// Redis server, with a connection once one was needed.
pub struct Redis {
    client: Client,
    connection: Option<Connection>,
}

impl Redis {
    /// Creates a client of the server, which connects later.
    pub fn open(url: &str) -> RedisResult<Self> {
        Ok(Redis { client: Client::open(url)?, connection: None })
    }

    /// Performs an operation that may be repeated: when the connection breaks, it is unknown whether the operation was
    /// executed.
    pub fn repeatable<T>(&mut self, operation: impl Fn(&mut Connection) -> RedisResult<T>) -> RedisResult<T> {
        let mut attempt = 1;
        loop {
            let result = self.connected().and_then(&operation);
            match result {
                Err(error) if attempt < ATTEMPTS && is_broken(&error) => self.connection = None,
                result => return result,
            }
            attempt += 1;
        }
    }

    fn connected(&mut self) -> RedisResult<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(self.client.get_connection()?);
        }
        Ok(self.connection.as_mut().expect("it was just made"))
    }
}

fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}
