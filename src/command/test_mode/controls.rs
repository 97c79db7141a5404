//! Common parts of the controls of a test: their flags, and access to the state of test mode.

use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::spec::{ADMIN, Flags, LOADING, NO_MULTI, NO_SCRIPT, SKIP_MONITOR, SKIP_SLOWLOG, STALE};
use crate::test_mode::TestMode;

/// The flags of all commands of test mode: they concern the server, and are not part of the tested traffic.
pub(super) const CONTROLS: Flags = ADMIN | NO_SCRIPT | NO_MULTI | LOADING | STALE | SKIP_MONITOR | SKIP_SLOWLOG;

/// Returns the state of test mode.
///
/// # Errors
/// The server is not in test mode, which does not happen: these commands exist only there.
pub(super) fn test_mode<'c>(call: &Call<'c>) -> Result<&'c TestMode> {
    test_mode_of(call.namespace)
}

/// Returns the state of test mode of a namespace.
///
/// # Errors
/// The server is not in test mode.
pub(crate) fn test_mode_of(namespace: &Namespace) -> Result<&TestMode> {
    namespace.test_mode.as_deref().ok_or(Error::other("the server is not in test mode: it needs the setting test-mode"))
}
