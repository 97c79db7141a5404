//! The limits of a list's nodes, from the settings and DEBUG.

use std::sync::atomic::Ordering::Relaxed;

use crate::dispatch::Call;
use crate::store::NodeLimit;

#[inline]
pub(crate) fn node_limit(call: &Call<'_>) -> NodeLimit {
    NodeLimit { node: call.config.limits().list, large_min: call.namespace.debug.large_element_min.load(Relaxed) }
}
