//! The history of a data set: the replication IDs by which a primary and its replicas know that they have the same
//! data.

use parking_lot::Mutex;

use crate::instance::random_hex;

pub(crate) const ID_LEN: usize = 40;

/// Stand-in for a former ID where there is none.
const NO_ID: &str = "0000000000000000000000000000000000000000";

/// The history of a data set. All servers with its ID have the same data at the same position in the log; up to a
/// position, so have servers with the former ID, which was that of the primary before a failover.
pub(crate) struct History(Mutex<ReplicationIds>);

/// A position in a history: a server with the data up to there may continue from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HistoryPosition {
    /// The replication ID.
    pub(crate) id: String,
    /// The position in the log.
    pub(crate) position: u64,
    /// The database that is selected there.
    pub(crate) db: usize,
}

/// The replication IDs of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicationIds {
    /// The present ID.
    pub(crate) id: String,
    /// The former ID, and the position up to which it names the same history.
    pub(crate) former: Option<(String, u64)>,
}

impl ReplicationIds {
    /// Returns true if a server that has read up to a position in the history with an ID may continue from there.
    pub(crate) fn has(&self, id: &[u8], position: u64) -> bool {
        let is_former = |(former, end): &(String, u64)| former.as_bytes().eq_ignore_ascii_case(id) && position <= *end;
        self.id.as_bytes().eq_ignore_ascii_case(id) || self.former.as_ref().is_some_and(is_former)
    }

    /// Returns the former ID as INFO shows it, and the offset of the first byte that it does not cover.
    pub(crate) fn shown_former(&self) -> (String, i64) {
        match &self.former {
            Some((former, end)) => (former.clone(), *end as i64 + 1),
            None => (NO_ID.to_owned(), -1),
        }
    }
}

impl Default for History {
    fn default() -> Self {
        History(Mutex::new(ReplicationIds { id: random_hex(), former: None }))
    }
}

impl History {
    pub(crate) fn ids(&self) -> ReplicationIds {
        self.0.lock().clone()
    }

    /// Begins a new history, which no other server has.
    pub(crate) fn begin(&self) {
        self.adopt(random_hex());
    }

    /// Begins the history of another server whose data was taken over.
    pub(crate) fn adopt(&self, id: String) {
        *self.0.lock() = ReplicationIds { id, former: None };
    }

    /// Continues under another ID from a position on: a random one, or that of the primary.
    pub(crate) fn continue_as(&self, id: Option<String>, position: u64) {
        let mut ids = self.0.lock();
        let former = std::mem::replace(&mut ids.id, id.unwrap_or_else(random_hex));
        ids.former = Some((former, position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_former_id_is_valid_up_to_where_the_history_was_continued() {
        let history = History::default();
        let first = history.ids().id;
        assert_eq!((first.len(), history.ids().shown_former()), (ID_LEN, (NO_ID.to_owned(), -1)));
        history.continue_as(None, 50);
        let ids = history.ids();
        assert_ne!(ids.id, first);
        assert!(ids.has(first.as_bytes(), 50) && !ids.has(first.as_bytes(), 51));
        assert!(ids.has(ids.id.to_ascii_uppercase().as_bytes(), 51) && !ids.has(b"?", 0));
        assert_eq!(ids.shown_former(), (first.clone(), 51));
        history.begin();
        assert!(!history.ids().has(first.as_bytes(), 0) && !history.ids().has(ids.id.as_bytes(), 0));
    }
}
