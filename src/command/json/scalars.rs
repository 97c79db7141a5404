//! Numbers, strings and booleans of documents.

use crate::command::json::args::{DocumentPath, encode_with_code, missing_or, next_path, next_text, text, unexpected};
use crate::command::json::change::{ValueChange, change_values, last_reply, reply_all};
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::json::{self, DOCUMENT_BYTES, JsonKind, JsonNode, JsonNumber};
use crate::resp::Protocol;
use crate::store::{Classes, Event};

const NUMINCRBY: &Event = &Event::one(Classes::MODULE, "json.numincrby");
const NUMMULTBY: &Event = &Event::one(Classes::MODULE, "json.nummultby");
const NUMPOWBY: &Event = &Event::one(Classes::MODULE, "json.numpowby");
const STRAPPEND: &Event = &Event::one(Classes::MODULE, "json.strappend");
const TOGGLE: &Event = &Event::one(Classes::MODULE, "json.toggle");

/// An operation on two numbers: on integers, where it wraps around as in Redis, and on doubles.
struct Operation {
    event: &'static Event,
    of_integers: fn(i64, i64) -> i64,
    of_doubles: fn(f64, f64) -> f64,
}

pub(super) fn numincrby(call: &mut Call<'_>) -> Result<()> {
    compute(call, &Operation { event: NUMINCRBY, of_integers: i64::wrapping_add, of_doubles: |one, other| one + other })
}

pub(super) fn nummultby(call: &mut Call<'_>) -> Result<()> {
    compute(call, &Operation { event: NUMMULTBY, of_integers: i64::wrapping_mul, of_doubles: |one, other| one * other })
}

pub(super) fn numpowby(call: &mut Call<'_>) -> Result<()> {
    let of_integers = |one: i64, other: i64| one.wrapping_pow(other as u32);
    compute(call, &Operation { event: NUMPOWBY, of_integers, of_doubles: f64::powf })
}

fn compute(call: &mut Call<'_>, operation: &Operation) -> Result<()> {
    let (key, path, operand) = (call.args.key()?, next_path(call)?, next_text(call)?);
    let is_number = |node: JsonNode<'_>| matches!(node.kind(), JsonKind::Number(_));
    let mut parsed = None;
    let replies = change_values(call, key, &path, operation.event, is_number, |node, _| {
        let operand = match parsed {
            Some(operand) => operand,
            None => *parsed.insert(number(operand)?),
        };
        let JsonKind::Number(number) = node.kind() else { return Ok(ValueChange { value: None, reply: operand }) };
        let result = operation.of(number, operand)?;
        Ok(ValueChange { value: Some(result.document()), reply: result })
    })?;
    if call.reply.protocol() == Protocol::Resp3 {
        reply_all(call, replies, |call, number| match number {
            JsonNumber::Integer(integer) => call.reply.int(integer),
            number => call.reply.double(number.as_double()),
        });
        return Ok(());
    }
    let mut text = Vec::new();
    if path.is_legacy {
        last_reply(replies, || missing_or(&path.path, "does not contains a number"))?.print(&mut text);
    } else {
        text.push(b'[');
        for (at, number) in replies.iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            match number {
                Some(number) => number.print(&mut text),
                None => text.extend_from_slice(b"null"),
            }
        }
        text.push(b']');
    }
    call.reply.bulk(&text);
    Ok(())
}

/// Parses the second number of an operation.
fn number(operand: &str) -> Result<JsonNumber> {
    match JsonNode::root(&encode_with_code(operand)?).kind() {
        JsonKind::Number(number) => Ok(number),
        _ => Err(Error::Line("bad input number")),
    }
}

impl Operation {
    fn of(&self, one: JsonNumber, other: JsonNumber) -> Result<JsonNumber> {
        if let (JsonNumber::Integer(one), JsonNumber::Integer(other)) = (one, other) {
            return Ok(JsonNumber::Integer((self.of_integers)(one, other)));
        }
        let result = (self.of_doubles)(one.as_double(), other.as_double());
        JsonNumber::of_double(result).ok_or(Error::Line("result is not a number"))
    }
}

pub(super) fn strappend(call: &mut Call<'_>) -> Result<()> {
    let (key, first) = (call.args.key()?, next_text(call)?);
    let (path, appended) = match call.args.next_arg() {
        Some(second) => (DocumentPath::new(first), text(second)?),
        None => (DocumentPath::whole(), first),
    };
    let is_string = |node: JsonNode<'_>| matches!(node.kind(), JsonKind::String(_));
    let mut parsed = None;
    let replies = change_values(call, key, &path, STRAPPEND, is_string, |node, _| {
        let document = match &parsed {
            Some(document) => document,
            None => parsed.insert(encode_with_code(appended)?),
        };
        let (JsonKind::String(before), JsonKind::String(more)) = (node.kind(), JsonNode::root(document).kind()) else {
            return Err(unexpected("string", appended));
        };
        let length = before.len() + more.len();
        if length > DOCUMENT_BYTES {
            return Err(Error::StringTooLong);
        }
        Ok(ValueChange { value: Some(json::document_of_string(&[before, more].concat())), reply: length })
    })?;
    if path.is_legacy {
        let length = last_reply(replies, || missing_or(&path.path, "not a string"))?;
        call.reply.int(length as i64);
    } else {
        reply_all(call, replies, |call, length| call.reply.int(length as i64));
    }
    Ok(())
}

pub(super) fn toggle(call: &mut Call<'_>) -> Result<()> {
    let (key, path) = (call.args.key()?, next_path(call)?);
    let is_bool = |node: JsonNode<'_>| matches!(node.kind(), JsonKind::Bool(_));
    let replies = change_values(call, key, &path, TOGGLE, is_bool, |node, _| {
        let value = !matches!(node.kind(), JsonKind::Bool(true));
        Ok(ValueChange { value: Some(json::document_of_bool(value)), reply: value })
    })?;
    if path.is_legacy {
        let value = last_reply(replies, || missing_or(&path.path, "not a bool"))?;
        call.reply.bulk(if value { b"true" } else { b"false" });
    } else {
        reply_all(call, replies, |call, value| call.reply.int(i64::from(value)));
    }
    Ok(())
}
