//! What makes a command a control of a test: its flags, and its access to what test mode keeps.

use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::spec::{ADMIN, Flags, LOADING, NO_MULTI, NO_SCRIPT, SKIP_MONITOR, SKIP_SLOWLOG, STALE};
use crate::test_mode::TestMode;

/// The flags of all commands of test mode: they are about the server, and not part of what is tested.
pub(super) const CONTROLS: Flags = ADMIN | NO_SCRIPT | NO_MULTI | LOADING | STALE | SKIP_MONITOR | SKIP_SLOWLOG;

/// Returns what test mode keeps.
///
/// # Errors
/// Never in test mode, and without it no call gets here.
pub(super) fn test_mode<'c>(call: &Call<'c>) -> Result<&'c TestMode> {
    test_mode_of(call.namespace)
}

/// Returns what test mode keeps of a namespace.
///
/// # Errors
/// When the server is not in test mode.
pub(crate) fn test_mode_of(namespace: &Namespace) -> Result<&TestMode> {
    namespace.test_mode.as_deref().ok_or(Error::other("the server is not in test mode: it needs the setting test-mode"))
}
