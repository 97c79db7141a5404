//! What a call has changed: collected where keys change, read once at the end of the call.

use std::ops::Deref;

use crate::store::cx::Cx;

/// The context of what may change keys, and the changes so far.
pub(crate) struct ChangeCx {
    cx: Cx,
    changes: ChangeSet,
}

impl ChangeCx {
    /// Creates the context of something that has not changed anything yet.
    #[inline]
    pub(super) fn new(cx: Cx) -> Self {
        ChangeCx { cx, changes: ChangeSet::default() }
    }

    /// Returns what was changed.
    #[inline]
    pub(super) fn changes(&self) -> ChangeSet {
        self.changes
    }

    /// Returns what was changed, to be added to.
    #[inline]
    pub(super) fn changes_mut(&mut self) -> &mut ChangeSet {
        &mut self.changes
    }

    /// Returns the context, to be changed.
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

/// What a call has changed. The deletion of an expired key, which every call may cause and which has a record of its own
/// in the log, does not count.
#[derive(Clone, Copy, Default)]
pub(crate) struct ChangeSet {
    /// Whether the call itself has changed anything.
    is_own: bool,
    /// Whether calls nested in this one have changed anything.
    is_nested: bool,
}

impl ChangeSet {
    /// Returns whether nothing was changed.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        !self.is_own && !self.is_nested
    }

    /// Returns whether the call itself has changed anything, not only those nested in it.
    #[inline]
    pub(crate) fn is_own(self) -> bool {
        self.is_own
    }

    /// Adds a change: of a key, or of something else that is logged, such as a library of functions.
    #[inline]
    pub(crate) fn add(&mut self) {
        self.is_own = true;
    }

    /// Adds what a nested call has changed.
    pub(crate) fn add_nested(&mut self, nested: ChangeSet) {
        self.is_nested |= !nested.is_empty();
    }
}
