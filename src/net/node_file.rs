//! The file that keeps the ids of a cluster's node: `cluster-config-file`, in the form of Redis.

use std::io;
use std::path::{Path, PathBuf};

use tracing::info;

use crate::config::Config;
use crate::instance::new_node;
use crate::persist::disk::{Disk, read_small_file, write_all};
use crate::topology::NodeIdentity;

/// The maximum length of the file, in bytes.
const LEN_MAX: u64 = 1 << 20;

/// Returns the identity of the node from its file, which a new node creates; `None` for a server that is no node, or keeps no
/// files.
///
/// # Errors
/// A file that cannot be read or written, or has other nodes.
pub(super) fn kept_node(config: &Config, disk: &dyn Disk, port: u16) -> io::Result<Option<NodeIdentity>> {
    let Some(path) = config.node_file() else { return Ok(None) };
    let failed = |cause: io::Error| {
        io::Error::new(cause.kind(), format!("'{}', the cluster-config-file: {cause}", path.display()))
    };
    let new = new_node();
    match read_small_file(disk, &path, LEN_MAX) {
        Ok(text) if !text.is_empty() => {
            let node = NodeIdentity::read(&String::from_utf8_lossy(&text), new.shard_id);
            let node = node.map_err(|reason| failed(io::Error::new(io::ErrorKind::InvalidData, reason)))?;
            info!("Node configuration loaded, I'm {}", node.id);
            Ok(Some(node))
        }
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(failed(cause)),
        Ok(_) | Err(_) => {
            info!("No cluster configuration found, I'm {}", new.id);
            write(disk, &path, &new.file(port)).map_err(failed)?;
            Ok(Some(new))
        }
    }
}

fn write(disk: &dyn Disk, path: &Path, text: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let file = disk.create(&temporary)?;
    write_all(&*file, text.as_bytes())?;
    file.sync_data()?;
    disk.rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}
