//! The slots of keys, and the keys of slots, which are found by a walk over all keys: KEYSLOT, COUNTKEYSINSLOT,
//! GETKEYSINSLOT.

use crate::client::registry::Unblocked;
use crate::command::cluster::node::own_node;
use crate::command::keys::scan::{FoundKeys, SLICE_STEPS, STEPS_PER_KEY};
use crate::dispatch::{Call, Continuation, Env};
use crate::error::{Error, Result};
use crate::resp::{Protocol, Reply};
use crate::store::View;
use crate::topology::{SLOT_COUNT, Slot, slot_of};

pub(super) fn key_slot(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    let slot = slot_of(call.args.bytes()?);
    call.reply.int(slot.into());
    Ok(())
}

pub(super) fn count_keys(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    let slot = slot(call.args.int()?).ok_or(Error::other("Invalid slot"))?;
    call.run_incrementally(SlotWalk::new(CountedKeys { slot, count: 0 }))
}

pub(super) fn get_keys(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    let (number, max) = (call.args.int()?, call.args.int()?);
    let (Some(slot), Ok(max)) = (slot(number), usize::try_from(max)) else {
        return Err(Error::other("Invalid slot or number of keys"));
    };
    call.run_incrementally(SlotWalk::new(ListedKeys { slot, left: max, found: FoundKeys::default() }))
}

fn slot(number: i64) -> Option<Slot> {
    Slot::try_from(number).ok().filter(|slot| *slot < SLOT_COUNT)
}

/// The collection that a walk over all keys makes.
pub(super) trait Collection: Send {
    /// Adds a key.
    fn add(&mut self, key: &[u8], slot: Slot);

    /// Returns true if no more keys are wanted.
    fn is_full(&self) -> bool {
        false
    }

    fn write(&mut self, reply: &mut Reply<'_>);
}

/// Walks over all keys of the database, in slices between which other clients are served.
pub(super) struct SlotWalk<C> {
    cursor: u64,
    collection: C,
}

impl<C> SlotWalk<C> {
    pub(super) fn new(collection: C) -> Self {
        SlotWalk { cursor: 0, collection }
    }
}

impl<C: Collection> Continuation for SlotWalk<C> {
    fn step(&mut self, _: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let mut left = SLICE_STEPS;
        while left > 0 {
            let (mut visited, collection) = (0, &mut self.collection);
            if !collection.is_full() {
                self.cursor = view.scan(self.cursor, |entry| {
                    visited += 1;
                    collection.add(entry.key(), slot_of(entry.key()));
                });
            }
            if self.cursor == 0 || self.collection.is_full() {
                self.collection.write(reply);
                return Ok(true);
            }
            left = left.saturating_sub((1 + visited) * STEPS_PER_KEY);
        }
        Ok(false)
    }
}

struct CountedKeys {
    slot: Slot,
    count: i64,
}

impl Collection for CountedKeys {
    fn add(&mut self, _: &[u8], slot: Slot) {
        self.count += i64::from(slot == self.slot);
    }

    fn write(&mut self, reply: &mut Reply<'_>) {
        reply.int(self.count);
    }
}

struct ListedKeys {
    slot: Slot,
    left: usize,
    found: FoundKeys,
}

impl Collection for ListedKeys {
    fn add(&mut self, key: &[u8], slot: Slot) {
        if slot == self.slot && self.left > 0 {
            self.left -= 1;
            self.found.add(Protocol::default(), |reply| reply.bulk(key));
        }
    }

    fn is_full(&self) -> bool {
        self.left == 0
    }

    fn write(&mut self, reply: &mut Reply<'_>) {
        self.found.write(reply);
    }
}
