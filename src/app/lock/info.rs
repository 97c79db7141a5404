//! Locks as the server reports them: LOCK.INFO and LOCK.LIST.

use crate::app::lock::connection::{LockConnection, field, integer};
use crate::app::lock::failure::RequestError;
use crate::app::lock::shown::{shown, time};
use crate::resp::Frame;

/// Number of locks of a page.
const PAGE: &[u8] = b"100";

/// A lock that is held.
pub(super) struct Info {
    /// Token of the holder, if it has one.
    pub token: Option<Vec<u8>>,
    /// The fence.
    pub fence: Option<i64>,
    /// Remaining TTL, in milliseconds; negative without one.
    pub ttl_ms: i64,
    /// Time for which the lock has been held, in milliseconds, if it is known.
    pub age_ms: Option<i64>,
    /// The holder, or the first of several.
    pub holder: LockClient,
    /// Number of further holders.
    pub others: usize,
    /// True if nobody holds the lock: it is waited for together with another.
    pub is_free: bool,
    /// Waiting clients, in order of arrival.
    pub waiters: Vec<QueuedClient>,
}

/// A client, with the texts that tell it apart from others.
#[derive(Default)]
pub(super) struct LockClient {
    pub name: Vec<u8>,
    /// Text of the client about the lock.
    pub meta: Vec<u8>,
    pub addr: Vec<u8>,
    pub user: Vec<u8>,
}

/// A client in the queue.
pub(super) struct QueuedClient {
    /// Id of the client's connection.
    pub id: Option<i64>,
    pub client: LockClient,
    /// Time for which the client has waited, in milliseconds.
    pub waited_ms: i64,
}

/// Asks for a lock; `None` if it is not held.
///
/// # Errors
/// If the server does not tell.
pub(super) async fn ask(connection: &mut LockConnection, name: &[u8]) -> Result<Option<Info>, RequestError> {
    connection.ask(&[b"LOCK.INFO", name]).await.map(|reply| Info::read(&reply))
}

/// Asks for all locks that match a pattern, in the order of their names.
///
/// # Errors
/// If the server does not tell.
pub(super) async fn list(
    connection: &mut LockConnection,
    pattern: Option<&[u8]>,
) -> Result<Vec<(Vec<u8>, Info)>, RequestError> {
    let (mut cursor, mut locks) = (b"0".to_vec(), Vec::new());
    loop {
        let mut words = vec![&b"LOCK.LIST"[..], &cursor, b"COUNT", PAGE];
        words.extend(pattern.iter().flat_map(|pattern| [&b"MATCH"[..], pattern]));
        let reply = connection.ask(&words).await?;
        let Frame::Array(parts) = &reply else { return Ok(locks) };
        let [next, Frame::Array(page)] = &parts[..] else { return Ok(locks) };
        for lock in page {
            connection.queue(&[b"LOCK.INFO", &bytes(field(lock, "key"))]);
        }
        let described = connection.replies(page.len()).await?;
        for (lock, description) in page.iter().zip(&described) {
            let of_list = || matches!(description, Frame::Error(_)).then(|| Info::of_list(lock));
            locks.extend(Info::read(description).or_else(of_list).map(|info| (bytes(field(lock, "key")), info)));
        }
        cursor = bytes(Some(next));
        if cursor.is_empty() || cursor == b"0" {
            locks.sort_by(|(a, _), (b, _)| a.cmp(b));
            locks.dedup_by(|(a, _), (b, _)| a == b);
            return Ok(locks);
        }
    }
}

impl Info {
    /// Reads a reply of LOCK.INFO.
    fn read(reply: &Frame) -> Option<Self> {
        let fence = field(reply, "fence")?;
        let number = |name: &str| field(reply, name).and_then(integer);
        let holders = items(field(reply, "holders"));
        Some(Info {
            token: field(reply, "token").and_then(Frame::as_bytes).map(<[u8]>::to_vec),
            fence: integer(fence),
            ttl_ms: number("pttl").unwrap_or(-1),
            age_ms: number("age-ms"),
            // If there are several holders, the first one is named.
            holder: LockClient::read(holders.first().unwrap_or(reply)),
            others: holders.len().saturating_sub(1),
            is_free: field(reply, "mode").and_then(Frame::as_bytes) == Some(b"free"),
            waiters: items(field(reply, "waiters")).iter().map(QueuedClient::read).collect(),
        })
    }

    /// Reads the entry of a lock in LOCK.LIST, for a user who may not call LOCK.INFO.
    fn of_list(lock: &Frame) -> Self {
        let number = |name: &str| field(lock, name).and_then(integer);
        let waiting = usize::try_from(number("waiting").unwrap_or(0)).unwrap_or(0);
        let nobody = || QueuedClient { id: None, client: LockClient::default(), waited_ms: 0 };
        Info {
            token: None,
            fence: number("fence"),
            ttl_ms: number("pttl").unwrap_or(-1),
            age_ms: number("age-ms"),
            holder: LockClient::read(lock),
            others: 0,
            is_free: false,
            waiters: std::iter::repeat_with(nobody).take(waiting).collect(),
        }
    }

    /// Describes the holder of the lock.
    pub(super) fn holder(&self) -> String {
        match self.others {
            _ if self.is_free => "nobody".into(),
            0 => self.holder.describe(),
            others => format!("{} and {others} more", self.holder.describe()),
        }
    }

    /// Describes the holder of the lock, and for how long it has held the lock.
    pub(super) fn held(&self) -> String {
        let since = self.age_ms.map(|ms| format!(" for {}", time(ms))).unwrap_or_default();
        format!("{}{since}", self.holder())
    }
}

impl LockClient {
    fn read(map: &Frame) -> Self {
        let text = |name: &str| bytes(field(map, name));
        LockClient { name: text("client-name"), meta: text("meta"), addr: text("addr"), user: text("user") }
    }

    /// Describes the client, safe to be shown.
    pub(super) fn describe(&self) -> String {
        let own: Vec<String> =
            [&self.name, &self.meta].iter().filter(|text| !text.is_empty()).map(|text| shown(text)).collect();
        match (own.is_empty(), self.addr.is_empty()) {
            (true, true) => "a client that did not use LOCK.ACQUIRE".into(),
            (true, false) => shown(&self.addr),
            (false, true) => own.join(", "),
            (false, false) => format!("{} ({})", own.join(", "), shown(&self.addr)),
        }
    }
}

impl QueuedClient {
    fn read(map: &Frame) -> Self {
        let number = |name: &str| field(map, name).and_then(integer);
        QueuedClient {
            id: number("client-id"),
            client: LockClient::read(map),
            waited_ms: number("waited-ms").unwrap_or(0),
        }
    }
}

fn bytes(frame: Option<&Frame>) -> Vec<u8> {
    frame.and_then(Frame::as_bytes).unwrap_or_default().to_vec()
}

fn items(frame: Option<&Frame>) -> &[Frame] {
    match frame {
        Some(Frame::Array(items)) => items,
        _ => &[],
    }
}
