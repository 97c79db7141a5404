//! Changes made by a call: collected where keys change, read once at the end of the call.

use std::ops::Deref;

use crate::store::cx::Cx;

/// Context of code that may change keys, with the changes made so far.
pub(crate) struct ChangeCx {
    cx: Cx,
    changes: ChangeSet,
}

impl ChangeCx {
    /// Creates a context with an empty change set.
    #[inline]
    pub(super) fn new(cx: Cx) -> Self {
        ChangeCx { cx, changes: ChangeSet::default() }
    }

    #[inline]
    pub(super) fn changes(&self) -> ChangeSet {
        self.changes
    }

    #[inline]
    pub(super) fn changes_mut(&mut self) -> &mut ChangeSet {
        &mut self.changes
    }

    pub(super) fn cx_mut(&mut self) -> &mut Cx {
        &mut self.cx
    }
}

impl Deref for ChangeCx {
    type Target = Cx;

    #[inline]
    fn deref(&self) -> &Cx {
        &self.cx
    }
}

/// Summary of a call's changes. The deletion of an expired key does not count: every call may cause one, and it has a
/// record of its own in the log.
#[derive(Clone, Copy, Default)]
pub(crate) struct ChangeSet {
    /// Set once the call itself has changed anything.
    is_own: bool,
    /// Set once a call nested in this one has changed anything.
    is_nested: bool,
}

impl ChangeSet {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        !self.is_own && !self.is_nested
    }

    /// Returns true if the call itself has changed anything, not only calls nested in it.
    #[inline]
    pub(crate) fn is_own(self) -> bool {
        self.is_own
    }

    /// Adds a change: of a key, or of something else that is logged, such as a library of functions.
    #[inline]
    pub(crate) fn add(&mut self) {
        self.is_own = true;
    }

    /// Adds the changes of a nested call.
    pub(crate) fn add_nested(&mut self, nested: ChangeSet) {
        self.is_nested |= !nested.is_empty();
    }
}
