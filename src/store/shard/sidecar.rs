//! State beside the keys of a shard: the clients that watch a key or are blocked on it, its lock, its fence.
//!
//! Such state exists for few keys, outlives their values, or exists without a value, so it is kept apart from the
//! entries, in the shard's [`Interests`](crate::store::interest). Each kind is a [`Sidecar`]: it is told what happens to
//! keys, in the order of the list in `publish.rs`, so that no change of a key names the kinds. A new kind is a file with
//! an implementation, and a line of the list; if it is to be in files or images, it is also a field of
//! [`Beside`](crate::store::walk::Beside) and [`Image`](crate::store::image::Image), as fences and locks are.

use crate::store::changes::ChangeCx;
use crate::store::cx::Removal;
use crate::store::event::Event;
use crate::store::key::Key;
use crate::store::shard::Keys;

/// A kind of state beside keys. Its functions may change the key again: a lock that is lost, for example, is logged.
pub(super) trait Sidecar {
    /// Handles the change of a key, which has taken place.
    fn on_change(keys: &mut Keys, key: Key<'_>, event: &'static Event, cx: &mut ChangeCx<'_>);

    /// Handles the removal of a key for a cause that the event of its removal does not tell. The entry may be gone
    /// already, or be a new one.
    fn on_removal(_: &mut Keys, _: Key<'_>, _: Removal, _: &mut ChangeCx<'_>) {}

    /// Forgets what belongs to the value of a key, because it is replaced by one that has nothing to do with it, is
    /// restored or loaded, or goes with the key.
    fn forget_value(_: &mut Keys, _: Key<'_>) {}

    /// Prepares the removal of all keys of the shard.
    fn before_bulk_change(_: &mut Keys, _: Removal, _: &mut ChangeCx<'_>) {}

    /// Handles a change of this key among a change of all keys.
    fn on_bulk_change(_: &mut Keys, _: Key<'_>, _: Removal, _: &mut ChangeCx<'_>) {}

    /// Exchanges the state that goes with the keys, whose tables are swapped, for that of another shard.
    fn on_swap(_: &mut Keys, _: &mut Keys) {}
}
