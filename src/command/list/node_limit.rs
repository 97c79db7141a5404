//! The limits of a list's nodes, as the settings and DEBUG have them.

use std::sync::atomic::Ordering::Relaxed;

use crate::dispatch::Call;
use crate::store::NodeLimit;

/// Returns the limits of a list's nodes, see [`NodeLimit`].
#[inline]
pub(crate) fn node_limit(call: &Call<'_>) -> NodeLimit {
    NodeLimit { node: call.config.limits().list, large_min: call.namespace.debug.large_element_min.load(Relaxed) }
}
