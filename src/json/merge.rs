//! Merging a patch into a value, as RFC 7396 has it.

use std::borrow::Cow;
use std::collections::HashMap;

use super::form::{self, Container};
use super::{JsonKind, JsonNode};

/// Objects with more members than this are looked up by a table while they are merged.
const FEW: usize = 8;

/// Returns what becomes of a value, if there is one, by a patch.
pub(crate) fn merge(value: Option<JsonNode<'_>>, patch: JsonNode<'_>) -> Vec<u8> {
    if !matches!(patch.kind(), JsonKind::Object(_)) {
        return patch.bytes().to_vec();
    }
    let mut members = MergedMembers::of(value);
    for child in patch.children() {
        let name = child.name.unwrap_or_default();
        match child.node.kind() {
            JsonKind::Null => members.remove(name),
            JsonKind::Object(_) => {
                let merged = merge(members.get(name), child.node);
                members.set(name, Cow::Owned(merged));
            }
            _ => members.set(name, Cow::Borrowed(child.node.bytes())),
        }
    }
    members.document()
}

/// The members of an object that is being merged, in their order.
struct MergedMembers<'d> {
    members: Vec<(&'d [u8], Cow<'d, [u8]>)>,
    /// The index of each name, if there are many.
    places: Option<HashMap<&'d [u8], usize>>,
}

impl<'d> MergedMembers<'d> {
    fn of(value: Option<JsonNode<'d>>) -> Self {
        let mut members = Vec::new();
        if let Some(value) = value.filter(|value| matches!(value.kind(), JsonKind::Object(_))) {
            members.extend(value.children().map(|child| (child.name.unwrap_or_default(), child.node.bytes().into())));
        }
        let mut merged = Self { members, places: None };
        merged.note_places();
        merged
    }

    fn note_places(&mut self) {
        if self.places.is_none() && self.members.len() > FEW {
            self.places = Some(self.members.iter().enumerate().map(|(at, member)| (member.0, at)).collect());
        }
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(name).copied(),
            None => self.members.iter().position(|member| member.0 == name),
        }
    }

    fn get(&self, name: &[u8]) -> Option<JsonNode<'_>> {
        self.place(name).map(|at| JsonNode::root(&self.members[at].1))
    }

    fn set(&mut self, name: &'d [u8], value: Cow<'d, [u8]>) {
        match self.place(name) {
            Some(at) => self.members[at].1 = value,
            None => {
                if let Some(places) = &mut self.places {
                    places.insert(name, self.members.len());
                }
                self.members.push((name, value));
                self.note_places();
            }
        }
    }

    /// Removes a member; the last takes its place, as in Redis.
    fn remove(&mut self, name: &[u8]) {
        let Some(at) = self.place(name) else { return };
        self.members.swap_remove(at);
        if let Some(places) = &mut self.places {
            places.remove(name);
            if let Some(moved) = self.members.get(at) {
                places.insert(moved.0, at);
            }
        }
    }

    fn document(&self) -> Vec<u8> {
        let mut document = Vec::new();
        let at = form::open(&mut document);
        for (name, value) in &self.members {
            form::write_name(name, &mut document);
            document.extend_from_slice(value);
        }
        form::close(Container::Object, at, self.members.len(), &mut document);
        document
    }
}
