//! CLUSTERSCAN, as Valkey 9.1 has it: a walk over the keys of a cluster whose cursor names the slot that it has reached, so that
//! clients find the node to ask next.
//!
//! A cursor is `fingerprint-{tag}-place`. The tag is in the slot; the fingerprint says in which order this process walks, and
//! whether the walk is over that slot alone or over it and all after it. One of another process begins its slots again.

use std::ops::RangeInclusive;

use crate::command::cluster::node::own_node;
use crate::command::keys::scan::{Options, Walk, parse_cursor};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::topology::{SLOT_COUNT, Slot, hash_tag, slot_of, tag_of};

const LAST: Slot = SLOT_COUNT - 1;

pub(super) fn cluster_scan(call: &mut Call<'_>) -> Result<()> {
    own_node(call)?;
    let cursor = call.args.bytes()?;
    let mut only = None;
    let options = Options::read(&mut call.args, call.config, |word, args| {
        if !is_word(word, "SLOT") || only.is_some() {
            return Err(Error::Syntax);
        }
        let slot = Slot::try_from(args.int()?).ok().filter(|slot| *slot <= LAST);
        only = Some(slot.ok_or(Error::other("Invalid slot"))?);
        Ok(())
    })?;
    let fingerprint = &call.namespace.instance.run_id[..8];
    let place = Place::read(cursor, fingerprint, only).ok_or(Error::InvalidCursor)?;
    if only.is_some_and(|slot| slot != place.slot) {
        return Err(Error::other("the cursor is in another slot than SLOT"));
    }
    let is_only = only.is_some();
    let place = Place { is_alone: place.is_alone || is_only, ..place };
    let (begin, slots, fingerprint) = (place.cursor, place.slots(), fingerprint.to_owned());
    let text =
        move |cursor| place.after(cursor, is_only).map_or_else(|| "0".to_owned(), |next| next.text(&fingerprint));
    call.run_incrementally(Walk::over_slots(begin, options, slots, Box::new(text)))
}

/// The place that a walk has reached.
#[derive(Clone)]
struct Place {
    slot: Slot,
    /// A text in the slot, which is not quickly found, so that of the cursor before is kept.
    tag: String,
    /// True if the walk is over this slot alone, and goes on with a walk over those after it.
    is_alone: bool,
    /// The cursor of a walk over all keys.
    cursor: u64,
}

impl Place {
    /// Reads a cursor; `None` if it is none.
    fn read(text: &[u8], fingerprint: &str, only: Option<Slot>) -> Option<Self> {
        if text == b"0" {
            return Some(Place::begin(only.unwrap_or(0), only.is_some()));
        }
        let tag = hash_tag(text);
        let open = text.iter().position(|byte| *byte == b'{').filter(|_| tag.len() < text.len())?;
        let (before, rest) = (text[..open].strip_suffix(b"-")?, text.get(open + tag.len() + 2..)?);
        let cursor = parse_cursor(rest.strip_prefix(b"-")?)?;
        let (mode, is_own) = match before.split_last() {
            Some((mode, before)) => (*mode, before == fingerprint.as_bytes()),
            None => return None,
        };
        let cursor = if is_own { cursor } else { 0 };
        let tag = String::from_utf8(tag.to_vec()).ok()?;
        Some(Place { slot: slot_of(tag.as_bytes()), tag, is_alone: mode == b's', cursor })
    }

    fn begin(slot: Slot, is_alone: bool) -> Self {
        Place { slot, tag: tag_of(slot), is_alone, cursor: 0 }
    }

    fn slots(&self) -> RangeInclusive<Slot> {
        self.slot..=if self.is_alone { self.slot } else { LAST }
    }

    /// Returns the place after a step that has reached a cursor, 0 behind the last key; `None` at the end of the walk.
    fn after(&self, cursor: u64, is_only: bool) -> Option<Self> {
        if cursor != 0 {
            return Some(Place { cursor, ..self.clone() });
        }
        let goes_on = self.is_alone && !is_only && self.slot < LAST;
        goes_on.then(|| Place::begin(self.slot + 1, false))
    }

    fn text(&self, fingerprint: &str) -> String {
        let mode = if self.is_alone { 's' } else { 'a' };
        format!("{fingerprint}{mode}-{{{}}}-{}", self.tag, self.cursor)
    }
}
