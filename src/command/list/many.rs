//! LMOVEM and BLMOVEM: several elements are moved from one list to another, or within one.

use crate::command::list::ends::{end_word, pop_command, popped, push_command, pushed, read_end, rotation};
use crate::command::list::node_limit;
use crate::command::timeout::read_timeout_in_seconds;
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::store::value::list::ListMut;
use crate::store::value::{ListRef, StoredElement};
use crate::store::{Key, List, ListEnd, Lookup, NodeLimit};

/// Number of elements of a logged command that adds some.
const LOGGED_AT_ONCE: usize = 1024;

pub(super) fn lmovem(call: &mut Call<'_>) -> Result<()> {
    let (request, _) = ManyMove::read(call, false)?;
    if !request.move_elements(call)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn blmovem(call: &mut Call<'_>) -> Result<()> {
    let (request, until_ms) = ManyMove::read(call, true)?;
    if !request.move_elements(call)? {
        call.block_on_keys::<List>(until_ms, |reply| reply.null_array());
    }
    Ok(())
}

/// The arguments of a command that moves several elements.
struct ManyMove<'a> {
    source: Key<'a>,
    target: Key<'a>,
    from: ListEnd,
    to: ListEnd,
    /// The maximum number of elements.
    count: usize,
    /// True if no fewer elements may be moved.
    is_exact: bool,
    /// True if elements are added one by one, so that they come in the reverse order at the same end.
    is_one_by_one: bool,
}

impl<'a> ManyMove<'a> {
    /// Parses the arguments, and with `may_block` a timeout, whose end it returns.
    fn read(call: &mut Call<'a>, may_block: bool) -> Result<(Self, u64)> {
        let (source, target) = (call.args.key()?, call.args.key()?);
        let (from, to) = (read_end(&mut call.args)?, read_end(&mut call.args)?);
        let mut until_ms = 0;
        if may_block {
            let timeout = call.args.bytes()?;
            until_ms = read_timeout_in_seconds(call, timeout)?;
        }
        let mut request = ManyMove { source, target, from, to, count: 1, is_exact: false, is_one_by_one: true };
        match call.args.left() {
            0 => return Ok((request, until_ms)),
            3 => {}
            _ => return Err(Error::Syntax),
        }
        let word = call.args.bytes()?;
        request.is_exact = is_word(word, "EXACTLY");
        if !request.is_exact && !is_word(word, "COUNT") {
            return Err(Error::Syntax);
        }
        request.count = call.args.positive("count should be greater than 0")?;
        let order = call.args.bytes()?;
        request.is_one_by_one = is_word(order, "OBO");
        if !request.is_one_by_one && !is_word(order, "BULK") {
            return Err(Error::Syntax);
        }
        Ok((request, until_ms))
    }

    /// Moves the elements and replies with them, in the order that they have then. Returns false, without a reply, if
    /// there are too few.
    fn move_elements(&self, call: &mut Call<'_>) -> Result<bool> {
        let limit = node_limit(call);
        let Some(list) = call.view.get::<List>(self.source, Lookup::WRITE)? else { return Ok(false) };
        let (len, count) = (list.len(), self.count.min(list.len()));
        if self.is_exact && count < self.count {
            return Ok(false);
        }
        let moved = MovedElements::copy(list, self.from, count, self.is_one_by_one && self.from == self.to);
        if self.source.bytes == self.target.bytes {
            self.move_within(call, &moved, limit)?;
        } else {
            let mut target = call.view.edit::<List>(self.target, pushed(self.to))?;
            moved.push(&mut target.change_uncounted(), self.to, limit);
            drop(target);
            let mut source = call.view.edit::<List>(self.source, popped(self.from))?;
            if count == len {
                source.empty(count);
            } else {
                source.change().remove(if self.from == ListEnd::Head { 0 } else { len - count }, count, limit);
                source.count_more(count - 1);
            }
        }
        call.reply.array(count);
        moved.iter().for_each(|text| call.reply.bulk(text));
        self.log(call, &moved, len);
        Ok(true)
    }

    /// Moves the elements within a list.
    fn move_within(&self, call: &mut Call<'_>, moved: &MovedElements, limit: NodeLimit) -> Result<()> {
        let count = moved.len();
        let mut list = call.view.edit::<List>(self.source, rotation(self.from, self.to))?;
        let len = list.value().len();
        list.count_more(count - 1);
        let first = if self.from == ListEnd::Head { 0 } else { len - count };
        // The operations are in the order in which the list does not change its encoding in between.
        if self.from == self.to {
            let mut list = list.change();
            if self.is_one_by_one {
                moved.iter().zip(first..).for_each(|(text, index)| list.set(index, text, limit));
            }
        } else if matches!(list.value(), ListRef::Packed(_)) {
            list.change().remove(first, count, limit);
            moved.push(&mut list.change_uncounted(), self.to, limit);
        } else {
            moved.push(&mut list.change(), self.to, limit);
            let first = if self.from == ListEnd::Head { 0 } else { len };
            list.change_uncounted().remove(first, count, limit);
        }
        Ok(())
    }

    /// Logs commands with the same outcome that servers before Redis 8.10 know. The list had `len` elements.
    fn log(&self, call: &mut Call<'_>, moved: &MovedElements, len: usize) {
        let (source, target) = (self.source.bytes, self.target.bytes);
        if moved.len() == 1 || source == target && self.from == self.to && !self.is_one_by_one {
            return call.log(&[b"LMOVE", source, target, end_word(self.from), end_word(self.to)]);
        }
        let mut number = itoa::Buffer::new();
        if source == target && self.from == self.to {
            let first = if self.from == ListEnd::Head { 0 } else { len - moved.len() };
            for (text, index) in moved.iter().zip(first..) {
                call.log(&[b"LSET", source, number.format(index).as_bytes(), text]);
            }
            return;
        }
        let texts: Vec<&[u8]> = match self.to {
            ListEnd::Head => moved.iter().rev().collect(),
            ListEnd::Tail => moved.iter().collect(),
        };
        for texts in texts.chunks(LOGGED_AT_ONCE) {
            let words: Vec<&[u8]> = [push_command(self.to), target].into_iter().chain(texts.iter().copied()).collect();
            call.log(&words);
        }
        call.log(&[pop_command(self.from), source, number.format(moved.len()).as_bytes()]);
    }
}

/// Copies of the texts of elements, in a row.
struct MovedElements {
    texts: Vec<u8>,
    /// The end of each text.
    ends: Vec<usize>,
}

impl MovedElements {
    /// Copies the first or the last elements of a list, in the order of the list or in reverse.
    fn copy(list: ListRef<'_>, at: ListEnd, count: usize, is_reversed: bool) -> Self {
        let mut elements = MovedElements { texts: Vec::new(), ends: Vec::with_capacity(count) };
        let items = list.iter_from(if at == ListEnd::Head { 0 } else { list.len() - count });
        let add = |item: StoredElement<'_>| {
            item.with_text(|text| elements.texts.extend_from_slice(text));
            elements.ends.push(elements.texts.len());
        };
        match (is_reversed, at) {
            (false, _) => items.take(count).for_each(add),
            (true, ListEnd::Tail) => items.rev().for_each(add),
            (true, ListEnd::Head) => list.iter_to(count).rev().for_each(add),
        }
        elements
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator + Clone {
        (0..self.len()).map(|at| &self.texts[at.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[at]])
    }

    /// Adds the elements at an end of a list, where they keep their order.
    fn push(&self, list: &mut ListMut<'_>, at: ListEnd, limit: NodeLimit) {
        match at {
            ListEnd::Head => list.push(self.iter().rev(), at, limit),
            ListEnd::Tail => list.push(self.iter(), at, limit),
        };
    }
}
