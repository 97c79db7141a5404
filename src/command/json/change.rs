//! Changes of all values that a path names.

use std::borrow::Cow;

use crate::command::json::args::{DocumentPath, MISSING_KEY, TOO_DEEP, wrong_type};
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::json::{self, JsonChange, JsonNode, JsonTargets};
use crate::store::value::Json;
use crate::store::{Event, Key};

/// The change of a value by a command.
pub(super) struct ValueChange<T> {
    /// The document that takes its place; `None` if it stays as it is.
    pub(super) value: Option<Vec<u8>>,
    /// The reply.
    pub(super) reply: T,
}

/// Changes the values that a path names and that are of a type. Returns a reply for each value that the path names, `None` for one
/// of another type.
///
/// `change` is given a value, and how many containers a value in its place may have in each other, which only matters for one that
/// contains others. A single value that stays as long as it is is changed in place.
pub(super) fn change_values<T>(
    call: &mut Call<'_>,
    key: Key<'_>,
    path: &DocumentPath<'_>,
    event: &'static Event,
    is_of_type: fn(JsonNode<'_>) -> bool,
    mut change: impl FnMut(JsonNode<'_>, usize) -> Result<ValueChange<T>>,
) -> Result<Vec<Option<T>>> {
    let mut edit = call.view.edit::<Json>(key, event).map_err(wrong_type)?;
    if !edit.exists() {
        return Err(MISSING_KEY);
    }
    let document = edit.value();
    let nodes = path.find(document)?;
    let (mut replies, mut is_changed) = (Vec::with_capacity(nodes.len()), false);
    let (mut offsets, mut places) = (Vec::new(), Vec::new());
    for (place, node) in nodes.into_iter().enumerate() {
        replies.push(None);
        if is_of_type(node) {
            offsets.push(node.offset());
            places.push(place);
        }
    }
    if offsets.is_empty() {
        return Ok(replies);
    }
    let mut only = None; // the change of a single value that contains no others
    if let [offset] = offsets[..]
        && let node = JsonNode::at(document, offset)
        && !node.is_container()
    {
        let ValueChange { value, reply } = change(node, 0)?;
        replies[places[0]] = Some(reply);
        let Some(value) = value else { return Ok(replies) };
        let end = offset + node.bytes().len();
        if value.len() == end - offset {
            edit.change().bytes_mut()[offset..end].copy_from_slice(&value);
            return Ok(replies);
        }
        only = Some(value);
    }
    let changed = json::edit::<Error>(document, &JsonTargets::all(&offsets), &mut |node, index, room| {
        let value = match only.take() {
            Some(value) => Some(value),
            None => {
                let ValueChange { value, reply } = change(node, room)?;
                replies[places[index]] = Some(reply);
                value
            }
        };
        is_changed |= value.is_some();
        Ok(value.map_or(JsonChange::Keep, |value| JsonChange::Replace(Cow::Owned(value))))
    })?;
    if is_changed && let Some(changed) = changed {
        edit.change().set(changed);
    }
    Ok(replies)
}

/// Checks that values nest no deeper than the limit allows at their place.
pub(super) fn check_depth(depth: usize, room: usize) -> Result<()> {
    if depth > room { Err(TOO_DEEP) } else { Ok(()) }
}

/// Returns the reply of a path of the older dialect: that of the last value that was changed.
///
/// # Errors
/// An error when there is none.
pub(super) fn last_reply<T>(replies: Vec<Option<T>>, otherwise: impl FnOnce() -> Error) -> Result<T> {
    replies.into_iter().flatten().next_back().ok_or_else(otherwise)
}

/// Replies with an array that has a null for each value of another type.
pub(super) fn reply_all<T>(call: &mut Call<'_>, replies: Vec<Option<T>>, reply: impl Fn(&mut Call<'_>, T)) {
    call.reply.array(replies.len());
    for value in replies {
        match value {
            Some(value) => reply(call, value),
            None => call.reply.null(),
        }
    }
}
