//! A disk in memory that fails and loses power as a seed says.
//!
//! - The death of the process loses nothing that was written.
//! - A power cut loses what was not synced, in part: each page of 4096 bytes is found as it was at some moment since the
//!   last sync of its file, a torn one in sectors of 512 bytes; the length is one that the file has had since then.
//! - Names that were created, renamed and removed are found only if their directory was synced; others may be, in any
//!   order.
//! - A failed sync leaves some pages unwritten, and marks all as clean, as Linux does: the next sync works, and the pages
//!   are lost all the same.

mod content;
pub(crate) mod faults;
mod names;
pub(crate) mod random;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Cursor, IoSlice, Read};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::persist::disk::simulated::content::Content;
use crate::persist::disk::simulated::faults::{Failure, Faults, Operation};
use crate::persist::disk::simulated::names::{Names, Target};
use crate::persist::disk::simulated::random::Random;
use crate::persist::disk::{Disk, DiskFile, parent};

#[derive(Clone, Debug)]
struct State {
    names: Names,
    /// The files by their numbers, also those that have no name any more.
    files: Vec<Content>,
    faults: Faults,
    random: Random,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

/// A file of such a disk.
struct SimulatedFile {
    disk: SimulatedDisk,
    number: usize,
}

impl SimulatedDisk {
    /// Creates an empty disk.
    pub(crate) fn new(seed: u64) -> Self {
        let state =
            State { names: Names::default(), files: Vec::new(), faults: Faults::default(), random: Random::new(seed) };
        SimulatedDisk(Arc::new(Mutex::new(state)))
    }

    /// Changes what goes wrong.
    pub(crate) fn set_faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// Returns the disk as it is after the power was cut now. Files that are open do not belong to it. Nothing goes wrong
    /// on it.
    pub(crate) fn power_cut(&self) -> SimulatedDisk {
        let mut state = self.0.lock();
        let State { names, files, random, .. } = &mut *state;
        let names = names.after_power_cut(random);
        let files = files.iter().map(|file| Content::synced(file.after_power_cut(random))).collect();
        let random = Random::new(random.next());
        SimulatedDisk(Arc::new(Mutex::new(State { names, files, faults: Faults::default(), random })))
    }

    /// Returns the disk as it is after the process was killed now. Files that are open do not belong to it. Nothing goes
    /// wrong on it.
    pub(crate) fn kill(&self) -> SimulatedDisk {
        let state = State { faults: Faults::default(), ..self.0.lock().clone() };
        SimulatedDisk(Arc::new(Mutex::new(state)))
    }

    /// Changes bytes of a file, as a disk that goes bad does.
    pub(crate) fn damage(&self, path: &Path, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        if let Some(Target::File(number)) = state.names.get(path) {
            let mut bytes = state.files[number].live().to_vec();
            damage(&mut bytes);
            state.files[number] = Content::synced(bytes);
        }
    }

    /// Does an operation unless it is to fail.
    fn run<T>(&self, operation: Operation, run: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock();
        let State { faults, random, .. } = &mut *state;
        faults.check(operation, random)?;
        run(&mut state)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let number = self.run(Operation::Open, |state| state.file(path))?;
        Ok(Arc::new(SimulatedFile { disk: self.clone(), number }))
    }
}

impl State {
    /// Returns the number of a file.
    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.names.get(path) {
            Some(Target::File(number)) => Ok(number),
            Some(Target::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Checks that the directory of a path is there.
    fn check_dir(&self, path: &Path) -> io::Result<()> {
        let dir = parent(path);
        match dir == Path::new("/") || self.names.get(dir) == Some(Target::Dir) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns how many bytes more the files may have.
    fn room(&self) -> u64 {
        let mut files: Vec<usize> = self.names.files().collect();
        files.sort_unstable();
        files.dedup();
        let used: usize = files.into_iter().map(|number| self.files[number].live().len()).sum();
        self.faults.capacity.unwrap_or(u64::MAX).saturating_sub(used as u64)
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.run(Operation::Open, |state| match state.file(path) {
            Ok(number) => {
                state.files[number].set_len(0);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                state.check_dir(path)?;
                state.files.push(Content::default());
                state.names.add(path, Target::File(state.files.len() - 1));
                Ok(())
            }
            Err(error) => Err(error),
        })?;
        self.open(path)
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    fn update(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    fn read(&self, path: &Path) -> io::Result<(Box<dyn Read + Send>, u64)> {
        self.run(Operation::Read, |state| {
            let bytes = state.files[state.file(path)?].live().to_vec();
            let len = bytes.len() as u64;
            Ok((Box::new(Cursor::new(bytes)) as Box<dyn Read + Send>, len))
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Operation::Name, |state| {
            state.check_dir(to)?;
            let target = Target::File(state.file(from)?);
            state.names.rename(from, to, target);
            Ok(())
        })
    }

    #[cfg(test)]
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Operation::Name, |state| {
            state.check_dir(to)?;
            let target = Target::File(state.file(from)?);
            match state.names.get(to) {
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
                None => {
                    state.names.add(to, target);
                    Ok(())
                }
            }
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::Name, |state| {
            state.file(path)?;
            state.names.remove(path);
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(Operation::SyncDir, |state| {
            state.check_dir(&dir.join("any"))?;
            state.names.sync(dir);
            Ok(())
        })
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(Operation::Name, |state| match state.names.get(dir) {
            Some(Target::Dir) => Ok(()),
            Some(Target::File(_)) => Err(io::ErrorKind::AlreadyExists.into()),
            None => {
                state.check_dir(dir)?;
                state.names.add(dir, Target::Dir);
                Ok(())
            }
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.run(Operation::Read, |state| {
            state.check_dir(&dir.join("any"))?;
            let names = state.names.list(dir);
            Ok(names.filter_map(|path| path.file_name()).map(OsString::from).collect())
        })
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        self.run(Operation::Read, |state| match state.names.get(path) {
            Some(Target::File(number)) => Ok(Some(state.files[number].live().len() as u64)),
            Some(Target::Dir) => Ok(Some(0)),
            None => Ok(None),
        })
    }

    fn free_space(&self, _: &Path) -> io::Result<u64> {
        self.run(Operation::Read, |state| Ok(state.room()))
    }
}

impl DiskFile for SimulatedFile {
    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.disk.run(Operation::Write, |state| {
            let room = state.room().min(bytes.len() as u64) as usize;
            if room == 0 && !bytes.is_empty() {
                return Err(Failure::Full.into());
            }
            let is_short = room > 1 && state.random.below(1000) < state.faults.short_per_thousand;
            let count = if is_short { 1 + state.random.below(room - 1) } else { room };
            let file = &mut state.files[self.number];
            file.write(file.live().len(), &bytes[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.run(Operation::Write, |state| {
            state.files[self.number].write(offset as usize, bytes);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let State { faults, random, files, .. } = &mut *state;
        let result = faults.check(Operation::Sync, random);
        match &result {
            Ok(()) => files[self.number].sync(),
            Err(_) => files[self.number].fail_to_sync(random),
        }
        result
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.run(Operation::SetLen, |state| {
            state.files[self.number].set_len(len as usize);
            Ok(())
        })
    }

    #[cfg(test)]
    fn len(&self) -> io::Result<u64> {
        self.disk.run(Operation::Read, |state| Ok(state.files[self.number].live().len() as u64))
    }

    fn start_writeback(&self, _: u64, _: u64) {}
}
