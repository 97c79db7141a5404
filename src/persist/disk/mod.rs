//! The disk as a trait, so that tests can put one in its place that loses what a power cut would lose. The boot of the
//! machine belongs to it, as a power cut ends that.
//!
//! What is written is durable after [`DiskFile::sync_data`]; that a name refers to a file, after [`Disk::sync_dir`] of its
//! directory. Neither implies the other.

pub(crate) mod real;
#[cfg(any(test, feature = "internals"))]
pub(crate) mod simulated;

use std::ffi::OsString;
use std::io::{self, IoSlice, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::time::clock::Clock;

/// How many bytes are copied at a time.
const COPY_LEN: usize = 256 * 1024;

/// A file system.
pub(crate) trait Disk: Send + Sync {
    /// Creates a file to append to it, in place of the one that has this name. That one is not emptied: a crash in the middle
    /// of a rename can leave two names for one file.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that is there, to append to it.
    fn append(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that is there, to change bytes in its middle.
    fn update(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file to read it from its begin on; returns its length, too.
    fn read(&self, path: &Path) -> io::Result<(Box<dyn Read + Send>, u64)>;

    /// Gives a file another name of the same file system, in place of the file that has this name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    #[cfg(test)]
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name of a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes an existing file durable, also if another process has written it.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which names a directory has.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Creates a directory, unless it is there.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Returns the names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// Returns the length of a file; `None` if there is none of this name.
    fn len(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Locks a file, which is created if it is not there, until the guard is dropped or the process ends.
    ///
    /// # Errors
    /// With [`io::ErrorKind::ResourceBusy`] while another process has the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Returns how many bytes can be written in a directory.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;

    /// Returns the system's number of the present boot, if it has one whose time runs as the clock's.
    fn boot_id(&self, clock: &Clock) -> Option<String>;

    /// Returns the milliseconds since the system was booted.
    fn since_boot_ms(&self) -> u64;
}

/// An open file.
pub(crate) trait DiskFile: Send + Sync {
    /// Writes bytes at the end; returns how many, which may be fewer.
    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Writes bytes at an offset, all of them, into a file that was opened by [`Disk::update`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes what was written durable. After an error it is unknown what is, even if a later call succeeds.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file, or appends zeros, so that it has a length.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns the length.
    #[cfg(test)]
    fn len(&self) -> io::Result<u64>;

    /// Begins to write a part to the disk without waiting for it, if the system can; makes nothing durable.
    fn start_writeback(&self, offset: u64, len: u64);
}

/// Writes all of some bytes at the end of a file.
pub(crate) fn write_all(file: &dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(&[IoSlice::new(bytes)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a file as a whole.
///
/// # Errors
/// When it cannot be read, or is longer than `max` bytes.
pub(crate) fn read_small_file(disk: &dyn Disk, path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let (reader, len) = disk.read(path)?;
    if len > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has {len} bytes, more than {max}")));
    }
    let mut bytes = Vec::new();
    reader.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the directory that a path is in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Returns the path with something appended to its last name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Writes a file so that after a power cut at any moment it has either the former content or this one, and after the
/// return this one.
///
/// # Errors
/// When something fails; the file then has one of the two, and which is unknown if the directory could not be synced.
pub(crate) fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = parent(path).join(format!("temp-{name}"));
    let file = disk.create(&temporary)?;
    let written = write_all(&*file, bytes).and_then(|()| file.sync_data());
    if let Err(error) = written.and_then(|()| disk.rename(&temporary, path)) {
        _ = disk.remove(&temporary); // it may stay, as it is overwritten the next time
        return Err(error);
    }
    disk.sync_dir(parent(path))
}

/// Makes a file durable under its name that a former process has left, which may have ended before it did that.
///
/// # Errors
/// When something fails.
pub(crate) fn sync_found(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    disk.sync_file(path)?;
    disk.sync_dir(parent(path))
}

/// Copies the bytes of a file from an offset on into a new file, and makes them durable under its name.
///
/// # Errors
/// When something fails; the new file is removed then, if that works.
pub(crate) fn copy_from(disk: &dyn Disk, path: &Path, offset: u64, to: &Path) -> io::Result<()> {
    let (mut reader, _) = disk.read(path)?;
    io::copy(&mut (&mut reader).take(offset), &mut io::sink())?;
    let file = disk.create(to)?;
    let mut buffer = vec![0; COPY_LEN];
    let mut copy = || loop {
        match reader.read(&mut buffer)? {
            0 => return file.sync_data(),
            count => write_all(&*file, &buffer[..count])?,
        }
    };
    if let Err(error) = copy() {
        _ = disk.remove(to); // the first error is the one to report
        return Err(error);
    }
    disk.sync_dir(parent(to))
}

/// Writes the last bytes of a file again, from an offset on, and makes the file durable. A page that a former process
/// failed to sync is marked as clean though it is not on the disk; this marks it as changed.
///
/// # Errors
/// When something fails.
pub(crate) fn write_again_from(disk: &dyn Disk, path: &Path, offset: u64) -> io::Result<()> {
    let (mut reader, len) = disk.read(path)?;
    let file = disk.update(path)?;
    if offset < len {
        io::copy(&mut (&mut reader).take(offset), &mut io::sink())?;
        let (mut buffer, mut at) = (vec![0; COPY_LEN], offset);
        loop {
            let count = reader.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            file.write_at(&buffer[..count], at)?;
            at += count as u64;
        }
    }
    file.sync_data()
}
