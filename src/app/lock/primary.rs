//! Connections to the primary: the only server that is named, the first of several that is a primary and answers, or
//! the one that sentinels name.

use std::time::Duration;

use tokio::time::timeout;

use crate::app::endpoint::Endpoint;
use crate::app::lock::connection::LockConnection;
use crate::app::lock::failure::{LockFailure, RequestError};
use crate::app::lock::options::ServerOptions;
use crate::app::lock::shown::shown;
use crate::dial::Address;
use crate::resp::Frame;

/// Time for a round of all addresses.
const ROUND: Duration = Duration::from_secs(5);

/// Connects to the primary.
///
/// # Errors
/// If there is none, or it refuses.
pub(super) async fn connect(server: &ServerOptions) -> Result<LockConnection, RequestError> {
    let addresses = server.sentinels.as_ref().map_or(&server.endpoints, |(_, sentinels)| sentinels);
    let limit = ROUND / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    if !server.has_choice() {
        return LockConnection::connect(server, &server.endpoints[0]).await;
    }
    let (begin, mut reasons) = (server.next.get(), Vec::new());
    for at in (begin..begin + addresses.len()).map(|at| at % addresses.len()) {
        server.next.set(at + 1); // for the next attempt, if this one is abandoned
        let error = match timeout(limit, connect_by(server, &addresses[at])).await {
            Ok(Ok(connection)) => {
                server.next.set(0);
                return Ok(connection);
            }
            Ok(Err(error)) => error,
            Err(_) => RequestError::Unreachable(format!("{} does not answer", addresses[at].address)),
        };
        if matches!(error, RequestError::Refused(_)) {
            return Err(error);
        }
        reasons.push(LockFailure::of(error, b"").reason);
    }
    server.next.set(0);
    reasons.dedup();
    Err(RequestError::Unreachable(reasons.join("; ")))
}

/// Returns true if the sentinels name another primary than that of a connection. An old primary may not know that.
pub(super) async fn has_moved(server: &ServerOptions, connection: &LockConnection) -> bool {
    let Some((master, sentinels)) = &server.sentinels else { return false };
    for sentinel in sentinels {
        if let Ok(primary) = primary_of(server, sentinel, master).await {
            return primary.address != connection.address;
        }
    }
    false
}

/// Connects to a server, or to the one that a sentinel names, which has to be a primary that answers.
async fn connect_by(server: &ServerOptions, endpoint: &Endpoint) -> Result<LockConnection, RequestError> {
    match &server.sentinels {
        Some((master, _)) => connect_primary(server, &primary_of(server, endpoint, master).await?).await,
        None => connect_primary(server, endpoint).await,
    }
}

/// Asks a sentinel for the primary.
async fn primary_of(server: &ServerOptions, sentinel: &Endpoint, master: &[u8]) -> Result<Endpoint, RequestError> {
    let unreachable = |reason: &str| RequestError::Unreachable(format!("{} {reason}", sentinel.address));
    let mut connection = LockConnection::open(server, sentinel).await?;
    let reply =
        connection.ask(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", master]).await.map_err(|error| match error {
            RequestError::UnknownCommand => unreachable("is no sentinel"),
            error => error,
        })?;
    let text = |part: &Frame| part.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let named = match &reply {
        Frame::Array(parts) => parts.first().and_then(text).zip(parts.get(1).and_then(|port| text(port)?.parse().ok())),
        _ => None,
    };
    let (host, port) = named.ok_or_else(|| unreachable(&format!("knows no primary {}", shown(master))))?;
    Ok(Endpoint { address: Address::Tcp(host, port), ..server.endpoints[0].clone() })
}

async fn connect_primary(server: &ServerOptions, endpoint: &Endpoint) -> Result<LockConnection, RequestError> {
    let mut connection = LockConnection::connect(server, endpoint).await?;
    if connection.is_replica {
        return Err(RequestError::Unreachable(format!("{} is a replica", endpoint.address)));
    }
    match connection.ask(&[b"PING"]).await {
        Ok(_) | Err(RequestError::Refused(_)) => Ok(connection), // users may be denied the command
        Err(error) => Err(error),
    }
}
