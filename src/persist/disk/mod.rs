//! The disk as a trait, so that tests can replace it by a disk that loses data in a power cut. The boot of the machine
//! belongs to the trait, as a power cut ends that, too.
//!
//! Written data is durable after [`DiskFile::sync_data`]; a file's name, after [`Disk::sync_dir`] of its directory.
//! Neither implies the other.

pub(crate) mod real;
#[cfg(any(test, feature = "internals"))]
pub(crate) mod simulated;

use std::ffi::OsString;
use std::io::{self, IoSlice, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::time::clock::Clock;

/// Number of bytes that are copied at a time.
const COPY_LEN: usize = 256 * 1024;

/// A file system.
pub(crate) trait Disk: Send + Sync {
    /// Creates a file to append to, in place of an existing file with this name. The existing file is not truncated:
    /// after a crash in the middle of a rename, one file can have two names.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file to append to it.
    fn append(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file to change bytes in its middle.
    fn update(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file to read it from its start; returns its length, too.
    fn read(&self, path: &Path) -> io::Result<(Box<dyn Read + Send>, u64)>;

    /// Renames a file within the file system, and replaces an existing file with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    #[cfg(test)]
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name of a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes an existing file durable, even if another process has written it.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Creates a directory, unless it exists.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Returns the names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// Returns the length of a file; `None` if no file has this name.
    fn len(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Locks a file until the guard is dropped or the process ends; creates the file if necessary.
    ///
    /// # Errors
    /// With [`io::ErrorKind::ResourceBusy`] while another process has the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Returns the number of bytes that can be written in a directory.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;

    /// Returns the system's number of the present boot; `None` without a number, or if the time since boot differs from
    /// the clock's.
    fn boot_id(&self, clock: &Clock) -> Option<String>;

    /// Returns the milliseconds since the system was booted.
    fn since_boot_ms(&self) -> u64;
}

pub(crate) trait DiskFile: Send + Sync {
    /// Writes bytes at the end; returns their number, which may be less than that of the given bytes.
    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Writes all of the bytes at an offset, into a file that was opened by [`Disk::update`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes written data durable. After an error it is unknown which data is durable, even if a later call succeeds.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file to a length, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    #[cfg(test)]
    fn len(&self) -> io::Result<u64>;

    /// Begins to write a part to the disk without waiting for it, if the system can; makes nothing durable.
    fn start_writeback(&self, offset: u64, len: u64);
}

/// Writes all of the bytes at the end of a file.
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

/// Reads a whole file.
///
/// # Errors
/// A file that cannot be read, or is longer than `max` bytes.
pub(crate) fn read_small_file(disk: &dyn Disk, path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let (reader, len) = disk.read(path)?;
    if len > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has {len} bytes, more than {max}")));
    }
    let mut bytes = Vec::new();
    reader.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the directory of a path.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Returns the path with a suffix appended to its last name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Replaces the content of a file so that after a power cut at any moment the file has either the former or the new
/// content, and after the return the new one.
///
/// # Errors
/// Errors of the disk; the file then has one of the two contents, and it is unknown which if the directory could not be
/// synced.
pub(crate) fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = parent(path).join(format!("temp-{name}"));
    let file = disk.create(&temporary)?;
    let written = write_all(&*file, bytes).and_then(|()| file.sync_data());
    if let Err(error) = written.and_then(|()| disk.rename(&temporary, path)) {
        _ = disk.remove(&temporary); // the file may stay, as it is overwritten the next time
        return Err(error);
    }
    disk.sync_dir(parent(path))
}

/// Makes a file that a former process may have left unsynced durable under its name.
///
/// # Errors
/// Errors of the disk.
pub(crate) fn sync_found(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    disk.sync_file(path)?;
    disk.sync_dir(parent(path))
}

/// Copies the bytes of a file from an offset on into a new file, and makes them durable under its name.
///
/// # Errors
/// Errors of the disk; the new file is removed then, if possible.
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
/// Errors of the disk.
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
