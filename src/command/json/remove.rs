//! Values of documents that are removed: JSON.DEL and JSON.CLEAR.

use std::borrow::Cow;

use crate::command::json::args::{MISSING_KEY, document_to_change, optional_path, wrong_type};
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::json::{self, JsonChange, JsonKind, JsonNode, JsonNumber, JsonTargets};
use crate::store::value::Json;
use crate::store::{Classes, Event};

const DEL: &Event = &Event::one(Classes::MODULE, "json.del");
const CLEAR: &Event = &Event::one(Classes::MODULE, "json.clear");

/// Removes values; a document of which nothing is left goes with its key.
pub(super) fn del(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, optional_path(call)?);
    let Some(before) = document_to_change(&mut call.view, key)? else {
        call.reply.int(0);
        return Ok(());
    };
    let (mut removed, mut next) = (1, None);
    if !path.is_whole() {
        let offsets: Vec<usize> = path.find(before)?.iter().map(|node| node.offset()).collect();
        let targets = JsonTargets::outermost(before, &offsets);
        removed = targets.len();
        next = json::edit::<Error>(before, &targets, &mut |_, _, _| Ok(JsonChange::Remove))?;
    }
    let is_empty =
        |document: &Vec<u8>| matches!(JsonNode::root(document).kind(), JsonKind::Array(0) | JsonKind::Object(0));
    match next.filter(|next| !is_empty(next)) {
        _ if removed == 0 => {}
        Some(next) => call.view.edit::<Json>(key, DEL).map_err(wrong_type)?.change().set(next),
        None => drop(call.view.take(key, DEL)),
    }
    call.reply.int(removed as i64);
    Ok(())
}

/// Empties arrays and objects, and sets numbers to 0; only the first path counts, as in Redis.
pub(super) fn clear(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, optional_path(call)?);
    let mut edit = call.view.edit::<Json>(key, CLEAR).map_err(wrong_type)?;
    if !edit.exists() {
        return Err(MISSING_KEY);
    }
    let before = edit.value();
    let is_full = |node: &JsonNode<'_>| match node.kind() {
        JsonKind::Array(count) | JsonKind::Object(count) => count > 0,
        JsonKind::Number(number) => number.as_double() != 0.0,
        _ => false,
    };
    let offsets: Vec<usize> = path.find(before)?.into_iter().filter(is_full).map(|node| node.offset()).collect();
    let targets = JsonTargets::outermost(before, &offsets);
    let cleared = targets.len();
    if cleared > 0 {
        let next = json::edit::<Error>(before, &targets, &mut |node, _, _| {
            Ok(JsonChange::Replace(Cow::Owned(match node.kind() {
                JsonKind::Array(_) => json::empty_array(),
                JsonKind::Object(_) => json::empty_object(),
                _ => JsonNumber::Integer(0).document(),
            })))
        })?;
        if let Some(next) = next {
            edit.change().set(next);
        }
    }
    drop(edit);
    call.reply.int(cleared as i64);
    Ok(())
}
