//! CLUSTER SLOT-STATS: the number of keys of each slot. The other figures of Redis, of CPU time and traffic, are not counted.

use std::cmp::Reverse;

use crate::command::cluster::node::own_node;
use crate::command::cluster::slots::{Collection, SlotWalk};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::topology::{SLOT_COUNT, Slot};

pub(super) fn slot_stats(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    let choice = Choice::read(&mut call.args)?;
    let counts = vec![0; usize::from(SLOT_COUNT)].into_boxed_slice();
    call.run_incrementally(SlotWalk::new(KeyCounts { choice, counts }))
}

/// The slots that are shown.
enum Choice {
    Range(Slot, Slot),
    Ordered { limit: usize, is_ascending: bool },
}

impl Choice {
    fn read(args: &mut Args<'_>) -> Result<Self> {
        let word = args.bytes()?;
        if is_word(word, "SLOTSRANGE") && args.left() == 2 {
            let (first, last) = (read_slot(args)?, read_slot(args)?);
            if first > last {
                let text = format!("Start slot number {first} is greater than end slot number {last}");
                return Err(Error::other(text));
            }
            return Ok(Choice::Range(first, last));
        }
        if !is_word(word, "ORDERBY") {
            let text = "unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP.";
            return Err(Error::other(text));
        }
        if !is_word(args.bytes()?, "KEY-COUNT") {
            return Err(Error::other("Unrecognized sort metric for ORDERBY."));
        }
        let (mut limit, mut order) = (None, None);
        while let Some(word) = args.next_arg() {
            let is_first = match word {
                word if is_word(word, "LIMIT") && args.left() > 0 => limit.replace(read_limit(args)?).is_none(),
                word if is_word(word, "ASC") => order.replace(true).is_none(),
                word if is_word(word, "DESC") => order.replace(false).is_none(),
                _ => return Err(Error::Syntax),
            };
            if !is_first {
                return Err(Error::other("Multiple filters of the same type are disallowed."));
            }
        }
        Ok(Choice::Ordered { limit: limit.unwrap_or(usize::from(SLOT_COUNT)), is_ascending: order.unwrap_or(false) })
    }
}

fn read_slot(args: &mut Args<'_>) -> Result<Slot> {
    let slot = args.int().ok().and_then(|number| Slot::try_from(number).ok()).filter(|slot| *slot < SLOT_COUNT);
    slot.ok_or(Error::other("Invalid or out of range slot"))
}

fn read_limit(args: &mut Args<'_>) -> Result<usize> {
    let limit = args.int().ok().filter(|limit| (1..=i64::from(SLOT_COUNT)).contains(limit));
    let out_of_range = "Limit has to lie in between 1 and 16384 (maximum number of slots).";
    limit.map(|limit| limit as usize).ok_or(Error::other(out_of_range))
}

struct KeyCounts {
    choice: Choice,
    counts: Box<[i64]>,
}

impl Collection for KeyCounts {
    fn add(&mut self, _: &[u8], slot: Slot) {
        self.counts[usize::from(slot)] += 1;
    }

    fn write(&mut self, reply: &mut Reply<'_>) {
        let slots: Vec<Slot> = match self.choice {
            Choice::Range(first, last) => (first..=last).collect(),
            Choice::Ordered { limit, is_ascending } => {
                let mut slots: Vec<Slot> = (0..SLOT_COUNT).collect();
                let count = |slot: &Slot| self.counts[usize::from(*slot)];
                if is_ascending {
                    slots.sort_by_key(count);
                } else {
                    slots.sort_by_key(|slot| Reverse(count(slot)));
                }
                slots.truncate(limit);
                slots
            }
        };
        reply.array(slots.len());
        for slot in slots {
            reply.array(2);
            reply.int(slot.into());
            reply.map(1);
            reply.bulk(b"key-count");
            reply.int(self.counts[usize::from(slot)]);
        }
    }
}
