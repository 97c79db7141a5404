//! The file system of the machine.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::persist::disk::{Disk, DiskFile};
use crate::time::clock::Clock;
use crate::time::clock::since_boot_ms;

/// The file system of the machine.
#[derive(Debug, Default)]
pub(crate) struct RealDisk;

struct RealFile(File);

/// A locked file. Programs that this process executes do not inherit the lock.
struct FileLock(File);

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file alone is not enough: a process that is being forked has it open until it executes its
        // program.
        _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Arc::new(RealFile(OpenOptions::new().append(true).create_new(true).open(path)?))),
        }
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(OpenOptions::new().append(true).open(path)?)))
    }

    fn update(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(OpenOptions::new().write(true).open(path)?)))
    }

    fn read(&self, path: &Path) -> io::Result<(Box<dyn Read + Send>, u64)> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() {
            Ok((Box::new(file), metadata.len()))
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "Not a regular file"))
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[cfg(test)]
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            result => result,
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(io::ErrorKind::ResourceBusy.into()),
            // A file system without locks is no reason to fail.
            _ => Ok(Box::new(FileLock(file))),
        }
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(dir)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn boot_id(&self, clock: &Clock) -> Option<String> {
        if clock.is_steered() {
            return None; // a steered clock says nothing of the time since boot
        }
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }

    fn since_boot_ms(&self) -> u64 {
        since_boot_ms()
    }
}

impl DiskFile for RealFile {
    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(slices)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    #[cfg(test)]
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Declares that the part is not needed in memory any more: Linux then begins to write its changed pages.
    #[cfg(target_os = "linux")]
    fn start_writeback(&self, offset: u64, len: u64) {
        let len = std::num::NonZeroU64::new(len);
        // Only a hint; an error of the disk is found by the next sync.
        _ = rustix::fs::fadvise(&self.0, offset, len, rustix::fs::Advice::DontNeed);
    }

    #[cfg(not(target_os = "linux"))]
    fn start_writeback(&self, _: u64, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::disk::{copy_from, read_small_file, replace_file, write_again_from, write_all};

    fn content(path: &Path) -> Vec<u8> {
        read_small_file(&RealDisk, path, 1 << 20).expect("the file")
    }

    #[test]
    fn a_file_is_written_cut_replaced_copied_and_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (disk, sub) = (RealDisk, dir.path().join("sub"));
        disk.create_dir(&sub).expect("created");
        disk.create_dir(&sub).expect("it is there");
        let path = sub.join("file");
        assert_eq!(disk.append(&path).err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
        let file = disk.create(&path).expect("created");
        write_all(&*file, b"0123456789").expect("written");
        file.set_len(4).expect("cut");
        assert_eq!(file.write(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).expect("written"), 4);
        file.sync_data().expect("synced");
        file.start_writeback(0, 8);
        assert_eq!((content(&path), file.len().expect("a length")), (b"0123abcd".to_vec(), 8));
        write_again_from(&disk, &path, 3).expect("written again");
        copy_from(&disk, &path, 6, &sub.join("copy")).expect("copied");
        disk.link(&path, &sub.join("second")).expect("linked");
        disk.link(&path, &sub.join("third")).expect("linked");
        drop(disk.create(&sub.join("third")).expect("created"));
        assert_eq!((content(&sub.join("third")), content(&path)), (b"".to_vec(), b"0123abcd".to_vec()));
        disk.remove(&sub.join("third")).expect("removed");
        replace_file(&disk, &path, b"new").expect("replaced");
        let names = ["file", "copy", "second"].map(|name| content(&sub.join(name)));
        assert_eq!(names, [&b"new"[..], b"cd", b"0123abcd"]);
        disk.remove(&path).expect("removed");
        assert_eq!((disk.len(&path).expect("asked"), disk.list(&sub).expect("a list").len()), (None, 2));
        let lock = disk.lock(&sub.join("lock")).expect("locked");
        let refused = disk.lock(&sub.join("lock")).err().map(|error| error.kind());
        assert!(disk.lock(&sub.join("other")).is_ok());
        assert_eq!(refused, Some(io::ErrorKind::ResourceBusy));
        drop(lock);
        assert!(disk.lock(&sub.join("lock")).is_ok());
        assert!(disk.free_space(&sub).expect("asked") > 0);
        assert!(read_small_file(&disk, &sub.join("second"), 7).is_err());
        assert!(disk.read(&sub).is_err(), "a directory is no file");
    }
}
