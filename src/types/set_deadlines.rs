//! The deadlines of members of sets in payloads and files: records of the kind that readers skip, behind a plain set, so
//! that servers which know no such deadlines load the members.
//!
//! The value of a record is a sequence of deadlines in milliseconds since 1970, as lengths, each followed by its member,
//! as a string. In the log, such a value is beside the SADD that has added the members, see
//! [`SideRecord`](crate::store::SideRecord), and 0 stands for no deadline.

use crate::memory::marked::MarkedBytes;
use crate::rdb::{self, Compression, Reader, write_length, write_string};
use crate::store::entry::Entry;
use crate::store::value::{DataType, Set, SetMut, SetRules, StoredElement, Type};
use crate::types::options::ValueTarget;

/// The name of a record with deadlines of members of the set before it.
pub(crate) const MEMBERS: &[u8] = b"keylatch-members";

/// The largest number of members in a record.
const MEMBERS_MAX: usize = 64;

/// The end of the range of members' deadlines.
const DEADLINE_END_MS: i64 = 1 << 48;

/// The records of a set whose members are written one by one.
pub(super) struct DeadlineRecords {
    /// Members still to be written.
    left: usize,
    records: MarkedBytes,
    /// The value of the last record, and its number of members.
    last: (MarkedBytes, usize),
}

impl DeadlineRecords {
    /// Creates the records for a set with `count` members.
    pub(super) fn new(count: usize) -> Self {
        DeadlineRecords { left: count, records: MarkedBytes::default(), last: (MarkedBytes::default(), 0) }
    }

    /// Adds a member that was written; behind the last one, appends the records.
    pub(super) fn add(&mut self, member: StoredElement<'_>, deadline: Option<i64>, out: &mut MarkedBytes) {
        if let Some(at_ms) = deadline {
            let (value, count) = &mut self.last;
            member.with_text(|text| write_deadline(value, text, at_ms));
            *count += 1;
        }
        self.left = self.left.saturating_sub(1);
        if self.last.1 == MEMBERS_MAX || self.left == 0 && self.last.1 > 0 {
            self.records.push(rdb::AUX);
            write_string(&mut self.records, MEMBERS, Compression::Never);
            write_string(&mut self.records, &std::mem::take(&mut self.last).0, Compression::Never);
        }
        if self.left == 0 {
            out.append(&std::mem::take(&mut self.records));
        }
    }
}

fn write_deadline(out: &mut MarkedBytes, member: &[u8], at_ms: i64) {
    write_length(out, usize::try_from(at_ms).unwrap_or(0));
    write_string(out, member, Compression::Never);
}

/// Returns the value that says that members of a set have a deadline now, or none.
pub(crate) fn text_of(members: &[&[u8]], deadline: Option<i64>) -> Vec<u8> {
    let mut out = MarkedBytes::default();
    members.iter().for_each(|member| write_deadline(&mut out, member, deadline.unwrap_or(0)));
    out.into_bytes()
}

/// Passes the members of a value with their deadlines to `visit`, until it returns `None`; `None` if that has happened,
/// or the value violates the format.
fn read(value: &[u8], mut visit: impl FnMut(StoredElement<'_>, Option<i64>) -> Option<()>) -> Option<()> {
    let mut reader = Reader::new(value);
    while !reader.rest().is_empty() {
        let at_ms = i64::try_from(reader.length()?).ok().filter(|at_ms| (0..DEADLINE_END_MS).contains(at_ms))?;
        let text = reader.string(usize::MAX)?;
        visit(StoredElement::of(&text), Some(at_ms).filter(|at_ms| *at_ms != 0))?;
    }
    Some(())
}

/// Makes a set adopt a value from the log.
pub(crate) fn adopt_logged(set: &mut SetMut<'_>, value: &[u8], rules: SetRules<'_>) {
    read(value, |member, deadline| {
        set.set_deadline(member, deadline, rules);
        Some(())
    });
}

/// Makes an entry adopt the value of a record; `None` if the value violates the format, or is that of another set.
pub(crate) fn adopt(entry: &mut Entry, value: &[u8], target: ValueTarget<'_>) -> Option<()> {
    let rules = SetRules::new(target.limits, target.hasher);
    read(value, |member, deadline| {
        // Each member has one deadline, so that no record takes longer than its set is large.
        let is_first = deadline.is_some() && entry.is_of(Type::Set) && Set::read(entry).deadline(member) == Some(None);
        is_first.then(|| Set::write(entry).set_deadline(member, deadline, rules))
    })
}

/// Reads the records behind a value of a payload, if there are any; `None` if one violates the format. Anything else
/// there is ignored.
pub(super) fn read_behind(entry: &mut Entry, reader: &mut Reader<'_>, target: ValueTarget<'_>) -> Option<()> {
    while let Some(value) = record(&mut reader.clone()) {
        reader.array::<1>()?;
        reader.skip_string()?;
        reader.skip_string()?;
        adopt(entry, &value, target)?;
    }
    Some(())
}

/// Reads a record; returns its value.
fn record<'a>(reader: &mut Reader<'a>) -> Option<std::borrow::Cow<'a, [u8]>> {
    let [of] = reader.array()?;
    (of == rdb::AUX && *reader.string(usize::MAX)? == *MEMBERS).then(|| reader.string(usize::MAX))?
}
