//! Load of the mirror: all mirrored names of the prefix, page by page, at one revision.

use crate::engine::cluster::{ClusterFailure, NamedValue, Revision};
use crate::engine::etcd::Cluster;
use crate::engine::names::NamePrefix;

const PAGE_KEYS: i64 = 1000;

/// Reads all names that the mirror follows, at the returned revision.
///
/// # Errors
/// The reason for which the cluster does not answer.
pub(super) async fn read_all(
    cluster: &Cluster,
    prefix: &NamePrefix,
) -> Result<(Vec<NamedValue>, Revision), ClusterFailure> {
    let (mut revision, mut found) = (0, Vec::new());
    for (mut from, end) in prefix.mirrored() {
        loop {
            let (pairs, present, has_more) = cluster.page(&from, &end, PAGE_KEYS, revision).await?;
            revision = if revision == 0 { present } else { revision };
            if let Some(last) = pairs.last() {
                from = [&last.name[..], &[0]].concat();
            }
            found.extend(pairs);
            if !has_more {
                break;
            }
        }
    }
    Ok((found, revision))
}
