//! Removal of a torn tail, without losing its bytes.

use std::path::{Path, PathBuf};

use crate::persist::aof::error::AofError;
use crate::persist::disk::{Disk, copy_from, with_suffix};

/// Number of tails kept for one second.
const TAILS_MAX: usize = 1000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CutTail {
    /// The file that contains the tail now.
    pub(crate) kept_in: PathBuf,
    /// Length of the tail, in bytes.
    pub(crate) len: u64,
}

/// Cuts a file to its valid length; returns `None` if it is not longer. The tail is first copied to
/// `<file>.tail-<unix time>`, and made durable there. The file is durable afterwards.
///
/// # Errors
/// Errors of the disk; the file may be uncut then, but nothing is lost.
pub(crate) fn cut_tail(
    disk: &dyn Disk,
    path: &Path,
    valid_len: u64,
    unix_time: i64,
) -> Result<Option<CutTail>, AofError> {
    let len = disk.len(path).map_err(AofError::io("read", path))?;
    let len = len.ok_or_else(|| AofError::Missing(path.to_owned()))?;
    if len <= valid_len {
        return Ok(None);
    }
    let names = (0..TAILS_MAX).map(|number| match number {
        0 => with_suffix(path, &format!(".tail-{unix_time}")),
        _ => with_suffix(path, &format!(".tail-{unix_time}-{number}")),
    });
    let mut kept_in = with_suffix(path, ".tail");
    for name in names {
        if disk.len(&name).map_err(AofError::io("read", &name))?.is_none() {
            kept_in = name;
            break;
        }
    }
    copy_from(disk, path, valid_len, &kept_in).map_err(AofError::io("keep the torn tail in", &kept_in))?;
    let cut = disk.append(path).and_then(|file| file.set_len(valid_len).and_then(|()| file.sync_data()));
    cut.map_err(AofError::io("cut the torn tail off", path))?;
    Ok(Some(CutTail { kept_in, len: len - valid_len }))
}
